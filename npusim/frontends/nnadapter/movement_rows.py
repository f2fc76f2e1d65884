"""NNAdapter operations that move elements without computing any, and those whose results follow from shapes alone.

Moved elements keep the input's scale; if the output has another one, a requantization follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.frontends.forms import moves
from npusim.frontends.nnadapter.nnadapter_codes import OperationType, PadMode
from npusim.frontends.nnadapter.operation_conversion import Conversion, Row, plain

_T = OperationType

MOST_BYTES = 1 << 28
"""Size of the largest result that becomes a constant of the program."""

# Other shapes


def _under(c: Conversion, shape: Sequence[int]) -> int:
    """Return the input under another shape."""
    return c.node("reshape", [c.tensor("input")], shape=tuple(shape))


def _assign(c: Conversion) -> int:
    return _under(c, c.shape("input"))


def _reshape(c: Conversion) -> int:
    sizes = c.shape("input")
    shape = c.wholes("shape")
    for place, size in enumerate(shape):
        c.require(size >= -1, f"shape is {shape}, sizes are -1 (what is left over), 0 (as the input) or more")
        if size == 0:
            c.require(place < len(sizes), f"shape is {shape}, and the input has no dimension {place} to keep")
            shape[place] = sizes[place]
    return _under(c, shape)


def _flatten(c: Conversion) -> int:
    if not c.shape("input"):
        return _under(c, (1,))
    return moves.flattened(c, c.tensor("input"), c.axis_of("start_axis"), c.axis_of("end_axis"))


def _squeeze(c: Conversion) -> int:
    sizes, axes = c.shape("input"), c.axes_of()
    for axis in axes:
        c.require(sizes[axis] == 1, f"axes: dimension {axis} has size {sizes[axis]}, must be 1")
    gone = axes or [axis for axis, size in enumerate(sizes) if size == 1]
    return _under(c, [size for axis, size in enumerate(sizes) if axis not in gone])


def _unsqueeze(c: Conversion) -> int:
    return moves.with_ones(c, c.tensor("input"), c.wholes("axes"))


def _transpose(c: Conversion) -> int:
    return moves.permuted(c, c.tensor("input"), c.axes_of("perm"))


# Several tensors


def _concat(c: Conversion) -> int:
    """Concatenate; the operator itself requantizes inputs of other scales, by LiteRT's rule."""
    return c.node("concatenation", c.tensors("inputs"), axis=c.axis_of(of="inputs"))


def _stack(c: Conversion) -> int:
    tensors = [c.in_type(tensor, c.result()) for tensor in c.tensors("inputs")]
    return c.node("pack", tensors, axis=c.axis_of(of="inputs", more=1))


def _unstack(c: Conversion) -> Sequence[int]:
    axis, count = c.axis_of(), c.whole("num")
    size, outputs = c.shape("input")[axis], len(c.outputs)
    c.require(count == size, f"num is {count}, dimension {axis} of the input has size {size}")
    c.require(outputs == count, f"num is {count}, and there are {outputs} outputs")
    return c.nodes("unpack", [c.tensor("input")], c.results(), axis=axis)


def _split(c: Conversion) -> Sequence[int]:
    axis, sizes = c.axis_of(), c.wholes("split")
    size, outputs = c.shape("input")[axis], len(c.outputs)
    c.require(
        min(sizes, default=0) >= 0 and sum(sizes) == size,
        f"split is {sizes}, must be 0 or more each and add up to {size}, the size of dimension {axis}",
    )
    c.require(outputs == len(sizes), f"split is {sizes}, and there are {outputs} outputs")
    return c.nodes("split", [c.tensor("input")], c.results(), axis=axis, sizes=tuple(sizes))


def _meshgrid(c: Conversion) -> Sequence[int]:
    """Repeat each one-dimensional input along the axes of all others."""
    tensors, outputs = c.tensors("inputs"), c.results()
    shapes = [c.shape(tensor) for tensor in tensors]
    c.require(
        all(len(shape) < 2 for shape in shapes), f"inputs have shapes {[*map(list, shapes)]}, must be lists"
    )
    c.require(len(outputs) == len(tensors), f"has {len(tensors)} inputs and {len(outputs)} outputs")
    kinds = {(kind.dtype, kind.quantized) for kind in map(c.builder.type, tensors)}
    c.require(len(kinds) == 1, "inputs have different precisions, must have one")
    return moves.on_grid(c, tensors, outputs)


# Parts, repetitions, borders


def _slice(c: Conversion) -> int:
    """Cut ranges as Python does: negative ends count from the back, ends beyond a dimension are cut off."""
    x, starts, ends = c.tensor("input"), c.wholes("starts"), c.wholes("ends")
    steps = c.wholes("steps") or [1] * len(starts)
    axes = c.wholes("axes") if c.has("axes") else list(range(len(starts)))
    return c.node("strided_slice", [x], **moves.part(c, x, axes, starts, ends, steps))


def _expand(c: Conversion) -> int:
    x = c.tensor("input")
    sizes = moves.with_kept_sizes(c, x, c.wholes("shape"))
    c.require(min(sizes, default=1) > 0, f"shape is {sizes}, sizes are 1 or more")
    return c.node("broadcast_to", [x], shape=tuple(sizes))


def _tile(c: Conversion) -> int:
    return moves.tiled(c, c.tensor("input"), c.wholes("repeats"))


def _roll(c: Conversion) -> int:
    sizes, shifts = c.shape("input"), c.wholes("shifts")
    if not c.has("axes"):
        c.require(len(shifts) == 1, f"shifts is {shifts}, must be one number where there are no axes")
        flat = c.reshaped(c.tensor("input"), (prod(sizes),))
        turned = c.node("roll", [flat], c.like(flat), shifts=_within(shifts, (prod(sizes),)))
        return c.node("reshape", [turned], shape=sizes)
    axes = c.axes_of()
    c.require(
        len(axes) == len(shifts), f"shifts has {len(shifts)} numbers, axes {len(axes)}, must be as many"
    )
    total = [0] * len(sizes)
    for axis, shift in zip(axes, shifts, strict=True):
        total[axis] += shift
    return c.node("roll", [c.tensor("input")], shifts=_within(total, sizes))


def _within(shifts: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return shifts modulo the sizes of their axes."""
    return tuple(shift % size if size else 0 for shift, size in zip(shifts, sizes, strict=True))


def _pad(c: Conversion) -> int:
    sizes, pads, mode = c.shape("input"), c.wholes("pads"), c.code("mode", PadMode)
    c.require(
        len(pads) == 2 * len(sizes) and min(pads, default=0) >= 0,
        f"pads is {pads}, must have two numbers of 0 or more for each dimension of {list(sizes)}",
    )
    if not sizes:
        return _assign(c)
    borders = tuple(zip(pads[::2], pads[1::2], strict=True))
    tensor = c.tensor("input")
    if mode is PadMode.PAD_MODE_NONE:
        c.require(not any(pads), f"mode is PAD_MODE_NONE and pads is {pads}, must be zeros")
        return _assign(c)
    if mode is PadMode.PAD_MODE_CONSTANT:
        return c.node("pad", [tensor], paddings=borders, pad_value=_pad_value(c, tensor))
    if mode is PadMode.PAD_MODE_REFLECT:
        c.require(
            all(max(border) < max(size, 1) for size, border in zip(sizes, borders, strict=True)),
            f"pads is {pads}, what mirrors the input must be less than its sizes {list(sizes)}",
        )
        return c.node("mirror_pad", [tensor], paddings=borders, mode="reflect")
    return c.node("edge_pad", [tensor], paddings=borders)


def _pad_value(c: Conversion, tensor: int) -> int | float | None:
    """Return the value of borders, requantized if its scale is not the input's; None for 0."""
    if not c.has("value"):
        return None
    kind, own = c.builder.type(tensor), c.given("value").type
    number: int | float = c.number("value") if kind.element.kind == "real" else c.whole("value")
    if kind.quantization is None or own.quantization in (None, kind.quantization):
        return number
    value = (number - own.quantization.zero_point) * own.quantization.scale
    least, most = kind.element.limits
    return min(max(round(value / kind.quantization.scale) + kind.quantization.zero_point, least), most)


# Results that follow from shapes and parameters


def _shape(c: Conversion) -> int:
    wanted = c.result()
    c.require(wanted.dtype in ("int32", "int64"), f"dtype is {c.whole('dtype')}, must be INT32 or INT64")
    return c.constant(np.array(c.shape("input"), wanted.numpy_dtype))


def _range(c: Conversion) -> int:
    """Make the constant start + i * step for each i from 0 on, as long as it is before the end (Paddle's arange)."""
    kind = c.result()
    precisions = {c.given(name).type.precision for name in ("start", "end", "step")}
    c.require(len(precisions) == 1, "start, end and step have different precisions, must have one")
    start, end, step = (c.number(name) for name in ("start", "end", "step"))
    c.require(bool(np.isfinite([start, end]).all()), f"start and end are {start} and {end}, must be finite")
    c.require(bool(np.isfinite(step)) and step != 0, f"step is {step}, must be finite and not 0")
    if kind.element.kind == "real":  # in the elements' own type, as Paddle divides
        number = kind.numpy_dtype.type
        count = max(int(np.ceil(np.divide(number(end - start), number(step)))), 0)
    else:
        count = len(range(int(start), int(end), int(step)))
    c.require(
        count * kind.numpy_dtype.itemsize <= MOST_BYTES,
        f"has {count} results, may have {MOST_BYTES // kind.numpy_dtype.itemsize}",
    )
    return c.constant((start + np.arange(count) * step).astype(kind.numpy_dtype))


def _filled(c: Conversion, shape: Sequence[int]) -> int:
    c.require(min(shape, default=0) >= 0, f"shape is {list(shape)}, sizes are 0 or more")
    value = c.tensor("value")
    own = c.shape(value)
    c.require(prod(own) == 1, f"value has shape {list(own)}, must have one element")
    return c.node("fill", [value if len(own) < 2 else c.reshaped(value, (1,))], shape=tuple(shape))


def _fill(c: Conversion) -> int:
    return _filled(c, c.wholes("shape"))


def _fill_like(c: Conversion) -> int:
    return _filled(c, c.shape("input"))


ROWS: tuple[Row, ...] = (
    Row(_T.ASSIGN, "input", _assign, "reshape"),
    Row(_T.CONCAT, "inputs+ axis:i > output=inputs", _concat, "concatenation"),
    Row(_T.EXPAND, "input shape:I", _expand, "broadcast_to"),
    Row(_T.FLATTEN, "input start_axis:i=1 end_axis:i=-1", _flatten, "reshape"),
    plain(_T.GATHER, "input indices axis:i=0"),
    Row(_T.MESHGRID, "inputs+ > outputs+=inputs", _meshgrid, "broadcast_to reshape"),
    Row(_T.PAD, "input pads:I mode:i=1 value:v?", _pad, "pad mirror_pad edge_pad"),
    Row(_T.RESHAPE, "input shape:I", _reshape, "reshape"),
    Row(_T.ROLL, "input shifts:I axes:I?", _roll, "roll reshape"),
    Row(_T.SLICE, "input axes:I? starts:I ends:I steps:I?", _slice, "strided_slice"),
    Row(_T.SPLIT, "input axis:i split:I > outputs+=input", _split, "split"),
    Row(_T.SQUEEZE, "input axes:I?", _squeeze, "reshape"),
    Row(_T.STACK, "inputs+ axis:i=0 > output=inputs", _stack, "pack"),
    Row(_T.TILE, "input repeats:I", _tile, "tile"),
    Row(_T.TRANSPOSE, "input perm:I", _transpose, "transpose"),
    Row(_T.UNSQUEEZE, "input axes:I", _unsqueeze, "reshape"),
    Row(_T.UNSTACK, "input axis:i num:i > outputs+=input", _unstack, "unpack"),
    Row(_T.FILL, "shape:I value > output=value", _fill, "fill"),
    Row(_T.FILL_LIKE, "input:s value > output=value", _fill_like, "fill"),
    Row(_T.RANGE, "start:v end:v step:v > output=start", _range, ""),
    Row(_T.SHAPE, "input:s dtype:i=5 > output@dtype", _shape, ""),
)
