"""Elementwise operators, selections and reductions as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from npusim.frontends.onnx.export.onnx_export import FIRST_AXIS, OPSET, Convert, Export
from npusim.frontends.onnx.operations import onnx_elementwise as reader
from npusim.frontends.written_layers import LIMITS, Layer
from npusim.isa.base.errors import GraphError

Steps = Callable[[Export, Layer, list[str]], str]
"""The function that adds the operations of a node on operands that are floats already, and returns the result."""

NAMES = {
    **reader.FUNCTIONS,
    **reader.ARITHMETIC,
    **reader.EXTREMA,
    **reader.COMPARISONS,
    **reader.LOGIC,
    **reader.OTHERS,
}
"""The ONNX operation of each operator that ONNX defines in the same way."""


def elementwise(steps: Steps) -> Convert:
    """Return the conversion of an elementwise operator; images stay channels-first if an operand is so."""

    def convert(e: Export, n: Layer) -> None:
        is_first = len(e.shape(n.result)) == 4 and _follow(e, n.given)
        names = [e.real(number, is_first and len(e.shape(number)) == 4) for number in n.given]
        e.result(n, steps(e, n, names), is_first)

    return convert


def _follow(e: Export, numbers: Sequence[int]) -> bool:
    """Return whether an operand is channels-first and the others can be: images and single numbers."""
    return any(map(e.is_first, numbers)) and all(
        len(e.shape(number)) == 4 or e.kind(number).elements == 1 for number in numbers
    )


def on_codes(steps: Steps) -> Convert:
    """Return the conversion of operators that LiteRT computes on the integers of quantized values."""
    in_floats = elementwise(steps)

    def convert(e: Export, n: Layer) -> None:
        kind = e.kind(n[0])
        if kind.quantization is None or n.params.rescale == "float32":
            in_floats(e, n)
            return
        names = [e.last(number) for number in n.given]
        e.settle(n.result, steps(e, n, names))

    return convert


def _quotient(e: Export, n: Layer, x: list[str]) -> str:
    """Return LiteRT's quotient of integers, which differs from ONNX's where it is small and negative."""
    if e.kind(n[0]).quantization is not None and n.params.rescale != "float32":
        raise GraphError("ONNX divides quantized values as floating-point values, TFLite does not")
    return e.op("Div", *x)


def _sum(e: Export, n: Layer, x: list[str]) -> str:
    """Return the sum of integers, one after the other."""
    if e.real_type(n[0]).startswith("float"):
        return e.op("Sum", *x)
    name = x[0] if len(x) > 1 else e.op("Identity", *x)
    for other in x[1:]:
        name = e.op("Add", name, other)
    return name


def _chosen(e: Export, n: Layer, x: list[str]) -> str:
    """Return Where for booleans, which it lacks: (condition and first) or (second and not condition)."""
    if e.kind(n[1]).dtype != "bool":
        return e.op("Where", *x)
    return e.op("Or", e.op("And", x[0], x[1]), e.op("And", e.op("Not", x[0]), x[2]))


def with_fused(operation: str, otherwise: Convert) -> Convert:
    """Return the conversion of a two-operand operator that ONNX Runtime computes on quantized values by its own
    formula.
    """

    def convert(e: Export, n: Layer) -> None:
        if n.params.rescale != "fused":
            otherwise(e, n)
            return
        is_first = e.follows(n[0], n[1])
        operands = (*e.coded(n[0], is_first), *e.coded(n[1], is_first), *e.scale_of(n.result))
        e.settle(n.result, e.op(operation, *operands), is_first)

    return convert


def fused_softmax(e: Export, n: Layer) -> None:
    """Add ONNX Runtime's softmax on quantized values, or Softmax of floats."""
    if n.params.rescale != "fused":
        ELEMENTS["softmax"](e, n)
        return
    name = e.op("QLinearSoftmax", *e.coded(n[0]), *e.scale_of(n.result), axis=n.axis, opset=OPSET)
    e.settle(n.result, name)


def mean(e: Export, n: Layer) -> None:
    """Add ReduceMean, or ONNX Runtime's mean of images on quantized values."""
    if n.params.rescale != "fused":
        reduction("ReduceMean")(e, n)
        return
    is_last = tuple(n.params.axes) == (1, 2)
    if not (n.params.keep_dims and len(n.shape) == 4 and (is_last or tuple(n.params.axes) == (2, 3))):
        raise GraphError("ONNX Runtime's mean of quantized values is over height and width of images")
    operands = (*e.coded(n[0], first=is_last), *e.scale_of(n.result))
    e.settle(n.result, e.op("QLinearGlobalAveragePool", *operands), first=is_last)


def named(e: Export, n: Layer, x: list[str]) -> str:
    """Return the conversion to a single operation of ONNX."""
    return e.op(NAMES[n.op], *x)


def _limits(least: float, most: float) -> Steps:
    def steps(e: Export, n: Layer, x: list[str]) -> str:
        return e.op("Clip", x[0], *(e.number(limit, n[0]) for limit in (least, most)))

    return steps


def _clip(e: Export, n: Layer, x: list[str]) -> str:
    if n.params.least is None and n.params.most is None:
        return e.op("Identity", *x)
    limits = ["" if limit is None else e.number(limit, n[0]) for limit in (n.params.least, n.params.most)]
    return e.op("Clip", *x, *(limits if n.params.most is not None else limits[:1]))


def _squared(e: Export, n: Layer, x: list[str]) -> str:
    return e.op("Mul", x[0], x[0])


def _floor_div(e: Export, n: Layer, x: list[str]) -> str:
    """Return integers divided in float64, which holds all int32."""
    dtype = e.kind(n[0]).dtype
    if n.params.rescale == "float32":
        dtype = e.real_type(n[0])
    if dtype.startswith("float"):
        return e.op("Floor", e.op("Div", *x))
    if dtype == "int64":
        raise GraphError("npusim writes no quotients of int64 as ONNX that are rounded downwards")
    wide = [_cast(e, name, "float64") for name in x]
    return _cast(e, e.op("Floor", e.op("Div", *wide)), dtype)


def _floor_mod(e: Export, n: Layer, x: list[str]) -> str:
    """Return the remainder with the divisor's sign, which ONNX has for integers only."""
    is_whole = not e.kind(n[0]).real and n.params.rescale != "float32"
    if is_whole:
        return e.op("Mod", *x)
    zero = e.number(0.0, n[0])
    rest = e.op("Mod", *x, fmod=1)
    is_apart = e.op("Less", e.op("Mul", e.op("Sign", rest), e.op("Sign", x[1])), zero)
    return e.op("Where", is_apart, e.op("Add", rest, x[1]), rest)


def _cast(e: Export, name: str, dtype: str) -> str:
    from onnx import helper

    return e.op("Cast", name, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))


def _selected(e: Export, n: Layer, x: list[str]) -> str:
    """Add Where; a condition per row applies to the whole row."""
    condition, rank = n.shape, len(e.shape(n[1]))
    if len(condition) == 1 and rank > 1:
        x = [e.op("Reshape", x[0], e.whole(*condition, *(1,) * (rank - 1))), *x[1:]]
    return _chosen(e, n, x)


def _with(operation: str, names: Iterable[str]) -> Steps:
    """Return the conversion to an operation with parameters of the same names."""

    def steps(e: Export, n: Layer, x: list[str]) -> str:
        chosen: dict[str, Any] = {name: float(getattr(n.params, name)) for name in names}
        return e.op(operation, *x, **chosen)

    return steps


_WITH = {op: _with(*parameters) for op, parameters in reader.PARAMETERS.items()}


def _softplus(e: Export, n: Layer, x: list[str]) -> str:
    """Add Softplus; a threshold of 20 or more changes nothing in float32."""
    if n.params.threshold < 20:
        raise GraphError(f"ONNX's Softplus has no threshold {n.params.threshold}")
    if n.params.beta == 1.0:
        return e.op("Softplus", *x)
    beta = e.number(n.params.beta, n[0])
    return e.op("Div", e.op("Softplus", e.op("Mul", *x, beta)), beta)


def _softmax(operation: str) -> Steps:
    def steps(e: Export, n: Layer, x: list[str]) -> str:
        axis, is_first = n.axis, e.follows(n[0])
        x = [e.op("Mul", *x, e.number(n.params.beta, n[0]))] if n.params.beta != 1.0 else x
        return e.op(operation, *x, axis=FIRST_AXIS[axis] if is_first else axis)

    return steps


def cast(e: Export, n: Layer) -> None:
    """Add Cast; quantized values are cast as the integers that they are."""
    source, result = e.kind(n[0]), e.kind(n.result)
    if n.params.saturating or n.params.wrapping:
        raise GraphError("ONNX does not say what becomes of numbers that a type does not hold")
    if source.real and result.element.kind in ("signed", "unsigned") and result.element.bits < 32:
        raise GraphError(
            f"ONNX does not say which {result.dtype} floating-point values become that are too large"
        )
    is_first = e.is_first(n[0])
    e.settle(n.result, _cast(e, e.at(n[0], is_first), result.dtype), is_first)


def requantised(e: Export, n: Layer) -> None:
    """Requantize quantized values, quantize floats, or dequantize."""
    if getattr(n.params, "truncate", False):
        raise GraphError("ONNX rounds quantized values, it does not truncate")
    if getattr(n.params, "bits", 0):
        raise GraphError(f"npusim writes no quantized values of {n.params.bits} bits as ONNX")
    is_first = e.is_first(n[0])
    name = e.real(n[0], is_first)
    want = e.real_type(n.result)
    if e.real_type(n[0]) != want:
        name = _cast(e, name, want)
    elif e.kind(n[0]).quantization is None or n.op == "dequantize":
        # the result needs at least one operation, to get its own name
        name = name if e.kind(n.result).quantization is not None else e.op("Identity", name)
    e.result(n, name, is_first)


def dynamic_codes(e: Export, n: Layer) -> None:
    """Add DynamicQuantizeLinear: quantized values, and the scale and zero point that the data give."""
    names = e.ops("DynamicQuantizeLinear", [e.last(n[0])], len(n.outputs))
    for number, name in zip(n.outputs, names, strict=True):
        e.settle(number, name)


# Reductions and other operations along axes


def reduction(operation: str) -> Convert:
    """Return the conversion of a reduction; the remaining axes keep their order."""

    def convert(e: Export, n: Layer) -> None:
        rank, kept = len(n.shape), bool(n.params.keep_dims)
        axes = sorted({axis % rank for axis in n.params.axes}) if rank else []
        left = [axis for axis in range(rank) if axis not in axes]
        is_first = e.is_first(n[0]) and (kept or sorted(left, key=FIRST_AXIS.__getitem__) == left)
        x = e.real(n[0], is_first)
        is_truth = e.kind(n[0]).dtype == "bool"
        x = _cast(e, x, "int32") if is_truth else x
        where = [FIRST_AXIS[axis] for axis in axes] if is_first else axes
        name = e.op(operation, x, e.whole(*where), keepdims=int(kept)) if axes else e.op("Identity", x)
        name = _cast(e, name, "bool") if is_truth else name
        e.result(n, name, is_first and kept)
        if e.shape(n.result) and not axes and rank != len(e.shape(n.result)):
            raise GraphError("reduces no axis")

    return convert


def position(operation: str) -> Convert:
    """Return the conversion of ArgMax and ArgMin, of quantized values by their dequantized value."""

    def convert(e: Export, n: Layer) -> None:
        x = e.real(n[0])
        x = _cast(e, x, "int32") if e.kind(n[0]).dtype == "bool" else x
        name = e.op(operation, x, axis=n.axis, keepdims=0)
        if e.kind(n.result).dtype != "int64":
            name = _cast(e, name, e.kind(n.result).dtype)
        e.settle(n.result, name)

    return convert


def top(e: Export, n: Layer) -> None:
    """Add TopK, in which the first of equal elements comes first."""
    if n.params.last_first:
        raise GraphError("of equal elements ONNX's TopK has the first, not the last")
    values, places = n.outputs
    steps: dict[str, Any] = {"axis": n.axis, "largest": int(not n.params.smallest), "sorted": 1}
    largest, at = e.ops("TopK", [e.real(n[0]), e.whole(n.params.k)], 2, **steps)
    if e.kind(values).quantization is None:
        e.settle(values, largest)
        if e.kind(places).dtype == "int64":
            e.settle(places, at)
            return
    else:
        e.settle(values, e.quantised(largest, e.kind(values)))
    e.settle(places, _cast(e, at, e.kind(places).dtype))


def running_sum(e: Export, n: Layer) -> None:
    """Add CumSum."""
    axis = e.constant(np.array(n.axis), "int64", "axis")
    name = e.op(
        "CumSum", e.real(n[0]), axis, exclusive=int(n.params.exclusive), reverse=int(n.params.reverse)
    )
    e.result(n, name)


ELEMENTS: dict[str, Convert] = {
    **dict.fromkeys(NAMES, elementwise(named)),
    **{op: elementwise(steps) for op, steps in _WITH.items()},
    "not_equal": elementwise(lambda e, n, x: e.op("Not", e.op("Equal", *x))),
    **{op: elementwise(_limits(*limits)) for op, limits in LIMITS.items()},
    "clip": elementwise(_clip),
    "rsqrt": elementwise(lambda e, n, x: e.op("Reciprocal", e.op("Sqrt", *x))),
    "square": elementwise(_squared),
    "squared_difference": elementwise(lambda e, n, x: _squared(e, n, [e.op("Sub", *x)])),
    "add_n": elementwise(_sum),
    "div": elementwise(_quotient),
    "floor_div": on_codes(_floor_div),
    "floor_mod": on_codes(_floor_mod),
    "neg": on_codes(named),
    "select_v2": elementwise(_chosen),
    "select": elementwise(_selected),
    "gelu": elementwise(
        lambda e, n, x: e.op("Gelu", *x, approximate="tanh" if n.params.approximate else "none")
    ),
    "hard_swish": elementwise(lambda e, n, x: e.op("Mul", x[0], _WITH["hard_sigmoid"](e, n, x))),
    "swish": elementwise(lambda e, n, x: e.op("Mul", x[0], e.op("Sigmoid", *x))),
    "softplus": elementwise(_softplus),
    "softmax": elementwise(_softmax("Softmax")),
    "log_softmax": elementwise(_softmax("LogSoftmax")),
}
"""The conversions of operators whose result has an element for each of the operands'."""
