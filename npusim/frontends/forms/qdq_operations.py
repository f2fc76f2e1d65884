"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear as nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.forms.packed_weights import packed
from npusim.frontends.forms.qdq import Codes, codes_of, held_type
from npusim.isa.base.elements import element, is_element
from npusim.isa.base.tensor import Quantization
from npusim.kernels.graph.builder import unshaped


def _codes(c: NodeConversion, dtype: str = "") -> Codes | None:
    """Return the quantization that a node states, if it is constant and without blocks; dtype: of its operand."""
    values = dict(zip(("x", "scale", "zero_point"), c.source.inputs, strict=False))
    names = {name: value for name, value in values.items() if value and name != "x"}
    known = {value: array for name, value in names.items() if (array := c.known(name)) is not None}
    bits = {value: c.bits(name) for name, value in names.items()}
    codes = codes_of(c.source, known, bits, dtype)
    return None if codes is None or c.builder.type(c.real("scale")).dtype != "float32" else codes


def _at_axis(c: NodeConversion, scaling: Quantization, shape: Sequence[int]) -> Quantization:
    if scaling.axis is None:
        return scaling
    axis = c.axis(scaling.axis, len(shape))
    c.require(
        len(scaling.scales) == shape[axis],
        f"has {len(scaling.scales)} scales for the {shape[axis]} elements of axis {axis}",
    )
    return replace(scaling, axis=axis)


def _quantize(c: NodeConversion) -> Sequence[int]:
    """Quantize floats or requantize integers; nothing is added if the quantization is the same."""
    codes = _codes(c)
    held = None if codes is None or codes.quantization.axis is not None else _held(c)
    x = as_floats(c, c.real("x")) if held is None else held
    if codes is None or (held is None and c.builder.type(x).dtype != "float32"):
        return [_quantized_by_steps(c, x)]
    _require_codes(c, codes.dtype)
    target = unshaped(codes.dtype, _at_axis(c, codes.quantization, c.shape(x)))
    if c.like(x) == target and not codes.bits:
        return [x]
    return [c.node("quantize", [x], target, rescale="float32", bits=codes.bits)]


def _held(c: NodeConversion) -> int | None:
    """Return the tensor of one scale that is dequantized just before a QuantizeLinear; None if there is none."""
    held = c.codes("x")
    scaling = None if held is None else c.builder.type(held).quantization
    return held if scaling is not None and scaling.axis is None else None


def _dequantize(c: NodeConversion) -> Sequence[int | None]:
    x = c.real("x")
    _require_codes(c, c.builder.type(x).dtype)
    codes = _codes(c, c.builder.type(x).dtype)
    asked = _real_type(c, "output_dtype")
    if codes is None or asked != "float32":
        floats = c.cast(_dequantized_by_steps(c, x), asked)
        _note_blocks(c, x, floats)
        return [floats]
    c.dequantized(c.coded(x, _at_axis(c, codes.quantization, c.shape(x))))
    return [None]


def _note_blocks(c: NodeConversion, x: int, floats: int) -> None:
    """Note how a constant matrix in blocks along its first axis is stored, for a product with it."""
    tensors, size = c.builder.tensors, int(c.attribute("block_size", 0))
    operands = [x, c.real("scale"), *([c.real("zero_point")] if c.has("zero_point") else [])]
    data = [tensors[number].array for number in operands]
    if size <= 0 or int(c.attribute("axis", 1)) % 2 or any(array is None for array in data):
        return
    bits = c.bits("x") or c.builder.type(x).element.bits
    zeros = data[2] if len(data) > 2 else None
    if c.builder.type(floats).dtype == c.builder.type(operands[1]).dtype:
        weights = packed(data[0], data[1], zeros, bits, size)
        if weights is not None:
            c.packed[floats] = weights


def as_floats(c: NodeConversion, tensor: int) -> int:
    """Return integers converted to float32; floats are returned as they are."""
    kind = c.builder.type(tensor)
    return tensor if kind.real else c.node("cast", [c.plainly(tensor)], unshaped("float32"))


# Several nodes, for scales that depend on data, have blocks, or are not float32


def _quantized_by_steps(c: NodeConversion, x: int) -> int:
    """Quantize in the precision that the node states, or that of its scale."""
    scale, zero = _spread(c, "scale", x), _optional(c, "zero_point", x)
    precision = _real_type(c, "precision")
    ratio = c.node("div", [c.cast(x, precision), c.cast(scale, precision)], unshaped(precision))
    return steps_of(c, ratio, zero, *_asked_type(c))


def _real_type(c: NodeConversion, attribute: str) -> str:
    """Return the element type that an attribute states, otherwise that of the scale."""
    type_code = int(c.attribute(attribute, 0))
    dtype = held_type(type_code)[0] if type_code else c.builder.type(c.real("scale")).dtype
    c.require(
        is_element(dtype) and element(dtype).kind == "real", f"npusim has no floating-point type {dtype} here"
    )
    return dtype


def steps_of(c: NodeConversion, ratio: int, zero: int | None, dtype: str, bits: int = 0) -> int:
    """Return integers rint(ratio) + zero, clipped to a type: what QuantizeLinear does after its division."""
    wide = unshaped("float32")
    ratio = ratio if c.builder.type(ratio).dtype == "float32" else c.node("cast", [ratio], wide)
    known = None if zero is None else c.builder.tensors[zero].array
    first = 0 if known is None or known.size > 1 else int(known.reshape(-1)[0])
    if zero is not None and (known is None or known.size > 1):
        ratio = c.node("add", [c.node("round", [ratio], wide), as_floats(c, zero)], wide)
    counted = unshaped(dtype, Quantization((1.0,), (first,)))
    return c.plainly(c.node("quantize", [ratio], counted, rescale="float32", bits=bits))


def _dequantized_by_steps(c: NodeConversion, x: int) -> int:
    steps = c.plainly(x)
    scale = _spread(c, "scale", x)
    zero = _optional(c, "zero_point", x)
    if zero is not None:
        whole = unshaped("int32")
        steps = c.node("sub", [c.node("cast", [value], whole) for value in (steps, c.plainly(zero))], whole)
    kind = unshaped(c.builder.type(scale).dtype)
    return c.node("mul", [c.node("cast", [steps], kind), scale], kind)


def _asked_type(c: NodeConversion) -> tuple[str, int]:
    if c.has("zero_point"):
        _require_codes(c, dtype := c.builder.type(c.real("zero_point")).dtype)
        return dtype, c.bits("zero_point")
    type_code = int(c.attribute("output_dtype", 0))
    dtype, bits = held_type(type_code) if type_code else ("uint8", 0)
    _require_codes(c, dtype)
    return dtype, bits


def _require_codes(c: NodeConversion, dtype: str) -> None:
    c.require(is_element(dtype) and element(dtype).codes, f"npusim has no quantized values of type {dtype}")


def _optional(c: NodeConversion, name: str, x: int) -> int | None:
    return _spread(c, name, x) if c.has(name) else None


def _spread(c: NodeConversion, name: str, x: int) -> int:
    """Return scales or zero points in a shape that broadcasts with the tensor."""
    number, shape = c.plainly(c.real(name)), c.shape(x)
    own = c.shape(number)
    if len(own) == 0 or own == (1,):
        return c.reshaped(number, ())
    axis = c.axis(int(c.attribute("axis", 1)), len(shape))
    if len(own) == 1:
        c.require(own[0] == shape[axis], f"{name} has {own[0]} elements for the {shape[axis]} of axis {axis}")
        return c.reshaped(number, (*own, *(1,) * (len(shape) - 1 - axis)))
    return _repeated(c, name, number, axis, shape)


def _repeated(c: NodeConversion, name: str, number: int, axis: int, shape: Sequence[int]) -> int:
    """Repeat one value per block along an axis; the last block may be shorter."""
    own, size = c.shape(number), int(c.attribute("block_size", 0))
    blocks = -(-shape[axis] // size) if size > 0 else 0
    fitting = (*shape[:axis], blocks, *shape[axis + 1 :])
    c.require(
        own == fitting, f"{name} {list(own)} does not fit {list(shape)} in blocks of {size} along axis {axis}"
    )
    split = c.reshaped(number, (*own[: axis + 1], 1, *own[axis + 1 :]))
    times = tuple(size if place == axis + 1 else 1 for place in range(len(own) + 1))
    dtype = unshaped(c.builder.type(number).dtype)
    tiled = c.node("tile", [split], dtype, multiples=times)
    whole = c.reshaped(tiled, (*own[:axis], blocks * size, *own[axis + 1 :]))
    if blocks * size == shape[axis]:
        return whole
    rank = len(shape)
    return c.node("slice", [whole], dtype, begin=(0,) * rank, size=tuple(shape), strides=(1,) * rank)


# Scales that depend on the quantized data


def dynamically(c: NodeConversion, x: int) -> tuple[int, ...]:
    """Add DynamicQuantizeLinear: uint8 values, scale and zero point."""
    kinds = [unshaped("uint8"), unshaped("float32"), unshaped("uint8")]
    return c.nodes("dynamic_quantize", [x], kinds)


ROWS: tuple[Row, ...] = (
    Row("QuantizeLinear", "x scale zero_point?", _quantize, "quantize div round add cast", groups=False),
    Row(
        "DequantizeLinear",
        "x scale zero_point?",
        _dequantize,
        "dequantize cast sub mul tile slice",
        groups=False,
    ),
    Row(
        "DynamicQuantizeLinear", "x", lambda c: dynamically(c, c.real("x")), "dynamic_quantize", groups=False
    ),
)
