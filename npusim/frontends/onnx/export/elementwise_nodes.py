"""Elementwise operators, selections and reductions as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.frontends.onnx.export.onnx_export import FIRST_AXIS, OPSET, Convert, Export
from npusim.frontends.rewriting import there
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Node

Steps = Callable[[Export, Node, list[str]], str]
"""The function that adds the operations of a node on operands that are floats already, and returns the result."""

NAMES = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "prelu": "PRelu",
    "add_n": "Sum",
    "maximum": "Max",
    "minimum": "Min",
    "equal": "Equal",
    "greater": "Greater",
    "less": "Less",
    "greater_equal": "GreaterOrEqual",
    "less_equal": "LessOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "logical_not": "Not",
    "select_v2": "Where",
    "abs": "Abs",
    "neg": "Neg",
    "exp": "Exp",
    "log": "Log",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "sqrt": "Sqrt",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sign": "Sign",
    "tanh": "Tanh",
    "logistic": "Sigmoid",
    "relu": "Relu",
    "erf": "Erf",
    "mish": "Mish",
    "reciprocal": "Reciprocal",
}
"""ONNX's names of operators that it has under the same definition."""


def elementwise(steps: Steps) -> Convert:
    """Return the conversion of an elementwise operator; images stay channels-first if an operand is so."""

    def convert(e: Export, node: Node) -> None:
        numbers = [number for number in node.inputs if number is not None]
        is_first = len(e.shape(node.outputs[0])) == 4 and _follow(e, numbers)
        names = [e.real(number, is_first and len(e.shape(number)) == 4) for number in numbers]
        e.result(node, steps(e, node, names), is_first)

    return convert


def _follow(e: Export, numbers: list[int]) -> bool:
    """Return whether an operand is channels-first and the others can be: images and single numbers."""
    return any(map(e.is_first, numbers)) and all(
        len(e.shape(number)) == 4 or e.kind(number).elements == 1 for number in numbers
    )


def on_codes(steps: Steps) -> Convert:
    """Return the conversion of operators that LiteRT computes on the integers of quantized values."""
    in_reals = elementwise(steps)

    def convert(e: Export, node: Node) -> None:
        kind = e.kind(there(node, 0))
        if kind.quantization is None or node.parameters.rescale == "float32":
            in_reals(e, node)
            return
        names = [e.last(number) for number in node.inputs if number is not None]
        e.settle(node.outputs[0], steps(e, node, names))

    return convert


def _quotient(e: Export, node: Node, x: list[str]) -> str:
    """Return LiteRT's quotient of integers, which differs from ONNX's where it is small and negative."""
    if e.kind(there(node, 0)).quantization is not None and node.parameters.rescale != "float32":
        raise GraphError("ONNX divides quantized values as floating-point values, TFLite does not")
    return e.op("Div", *x)


def _sum(e: Export, node: Node, x: list[str]) -> str:
    """Return the sum of integers, one after the other."""
    if e.real_type(there(node, 0)).startswith("float"):
        return e.op("Sum", *x)
    name = x[0] if len(x) > 1 else e.op("Identity", *x)
    for other in x[1:]:
        name = e.op("Add", name, other)
    return name


def _chosen(e: Export, node: Node, x: list[str]) -> str:
    """Return Where for booleans, which it lacks: (condition and first) or (second and not condition)."""
    if e.kind(there(node, 1)).dtype != "bool":
        return e.op("Where", *x)
    return e.op("Or", e.op("And", x[0], x[1]), e.op("And", e.op("Not", x[0]), x[2]))


def with_fused(operation: str, otherwise: Convert) -> Convert:
    """Return the conversion of a two-operand operator that ONNX Runtime computes on quantized values by its own
    formula.
    """

    def convert(e: Export, node: Node) -> None:
        if node.parameters.rescale != "fused":
            otherwise(e, node)
            return
        first, second = there(node, 0), there(node, 1)
        is_first = e.follows(first, second)
        operands = (*e.coded(first, is_first), *e.coded(second, is_first), *e.scale_of(node.outputs[0]))
        e.settle(node.outputs[0], e.op(operation, *operands), is_first)

    return convert


def fused_softmax(e: Export, node: Node) -> None:
    """Add ONNX Runtime's softmax on quantized values, or Softmax of floats."""
    how: Any = node.parameters
    if how.rescale != "fused":
        ELEMENTS["softmax"](e, node)
        return
    number = there(node, 0)
    axis = how.axis % len(e.shape(number))
    name = e.op("QLinearSoftmax", *e.coded(number), *e.scale_of(node.outputs[0]), axis=axis, opset=OPSET)
    e.settle(node.outputs[0], name)


def mean(e: Export, node: Node) -> None:
    """Add ReduceMean, or ONNX Runtime's mean of images on quantized values."""
    how: Any = node.parameters
    if how.rescale != "fused":
        reduction("ReduceMean")(e, node)
        return
    number = there(node, 0)
    is_last = tuple(how.axes) == (1, 2)
    if not (how.keep_dims and len(e.shape(number)) == 4 and (is_last or tuple(how.axes) == (2, 3))):
        raise GraphError("ONNX Runtime's mean of quantized values is over height and width of images")
    operands = (*e.coded(number, first=is_last), *e.scale_of(node.outputs[0]))
    e.settle(node.outputs[0], e.op("QLinearGlobalAveragePool", *operands), first=is_last)


def named(e: Export, node: Node, x: list[str]) -> str:
    """Return the conversion to a single operation of ONNX."""
    return e.op(NAMES[node.op], *x)


def _limits(least: float, most: float) -> Steps:
    def steps(e: Export, node: Node, x: list[str]) -> str:
        return e.op("Clip", x[0], *(e.number(limit, there(node, 0)) for limit in (least, most)))

    return steps


def _clip(e: Export, node: Node, x: list[str]) -> str:
    how: Any = node.parameters
    number = there(node, 0)
    if how.least is None and how.most is None:
        return e.op("Identity", *x)
    limits = ["" if limit is None else e.number(limit, number) for limit in (how.least, how.most)]
    return e.op("Clip", *x, *(limits if how.most is not None else limits[:1]))


def _not_equal(e: Export, node: Node, x: list[str]) -> str:
    return e.op("Not", e.op("Equal", *x))


def _reciprocal_root(e: Export, node: Node, x: list[str]) -> str:
    return e.op("Reciprocal", e.op("Sqrt", *x))


def _negative(e: Export, node: Node, x: list[str]) -> str:
    return e.op("Neg", *x)


def _square(e: Export, node: Node, x: list[str]) -> str:
    return e.op("Mul", x[0], x[0])


def _squared_difference(e: Export, node: Node, x: list[str]) -> str:
    difference = e.op("Sub", *x)
    return e.op("Mul", difference, difference)


def _floor_div(e: Export, node: Node, x: list[str]) -> str:
    """Return integers divided in float64, which holds all int32."""
    dtype = e.kind(there(node, 0)).dtype
    if node.parameters.rescale == "float32":
        dtype = e.real_type(there(node, 0))
    if dtype.startswith("float"):
        return e.op("Floor", e.op("Div", *x))
    if dtype == "int64":
        raise GraphError("npusim writes no quotients of int64 as ONNX that are rounded downwards")
    wide = [_cast(e, name, "float64") for name in x]
    return _cast(e, e.op("Floor", e.op("Div", *wide)), dtype)


def _floor_mod(e: Export, node: Node, x: list[str]) -> str:
    """Return the remainder with the divisor's sign, which ONNX has for integers only."""
    is_whole = not e.kind(there(node, 0)).real and node.parameters.rescale != "float32"
    if is_whole:
        return e.op("Mod", *x)
    zero = e.number(0.0, there(node, 0))
    rest = e.op("Mod", *x, fmod=1)
    is_apart = e.op("Less", e.op("Mul", e.op("Sign", rest), e.op("Sign", x[1])), zero)
    return e.op("Where", is_apart, e.op("Add", rest, x[1]), rest)


def _cast(e: Export, name: str, dtype: str) -> str:
    from onnx import helper

    return e.op("Cast", name, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))


def _selected(e: Export, node: Node, x: list[str]) -> str:
    """Add Where; a condition per row applies to the whole row."""
    condition, rank = e.shape(there(node, 0)), len(e.shape(there(node, 1)))
    if len(condition) == 1 and rank > 1:
        x = [e.op("Reshape", x[0], e.whole(*condition, *(1,) * (rank - 1))), *x[1:]]
    return _chosen(e, node, x)


def _with(operation: str, *names: str) -> Steps:
    """Return the conversion to an operation with parameters of the same names."""

    def steps(e: Export, node: Node, x: list[str]) -> str:
        chosen: dict[str, Any] = {name: float(getattr(node.parameters, name)) for name in names}
        return e.op(operation, *x, **chosen)

    return steps


def _gelu(e: Export, node: Node, x: list[str]) -> str:
    how: Any = node.parameters
    return e.op("Gelu", *x, approximate="tanh" if how.approximate else "none")


_hard_sigmoid = _with("HardSigmoid", "alpha", "beta")


def _hard_swish(e: Export, node: Node, x: list[str]) -> str:
    return e.op("Mul", x[0], _hard_sigmoid(e, node, x))


def _swish(e: Export, node: Node, x: list[str]) -> str:
    return e.op("Mul", x[0], e.op("Sigmoid", *x))


def _softplus(e: Export, node: Node, x: list[str]) -> str:
    """Add Softplus; a threshold of 20 or more changes nothing in float32."""
    how: Any = node.parameters
    if how.threshold < 20:
        raise GraphError(f"ONNX's Softplus has no threshold {how.threshold}")
    if how.beta == 1.0:
        return e.op("Softplus", *x)
    beta = e.number(how.beta, there(node, 0))
    return e.op("Div", e.op("Softplus", e.op("Mul", *x, beta)), beta)


def _softmax(operation: str) -> Steps:
    def steps(e: Export, node: Node, x: list[str]) -> str:
        how: Any = node.parameters
        number = there(node, 0)
        axis = how.axis % len(e.shape(number))
        is_first = e.follows(number)
        x = [e.op("Mul", *x, e.number(how.beta, number))] if how.beta != 1.0 else x
        return e.op(operation, *x, axis=FIRST_AXIS[axis] if is_first else axis)

    return steps


def cast(e: Export, node: Node) -> None:
    """Add Cast; quantized values are cast as the integers that they are."""
    how: Any = node.parameters
    source, result = e.kind(there(node, 0)), e.kind(node.outputs[0])
    if how.saturating or how.wrapping:
        raise GraphError("ONNX does not say what becomes of numbers that a type does not hold")
    if source.real and result.element.kind in ("signed", "unsigned") and result.element.bits < 32:
        raise GraphError(
            f"ONNX does not say which {result.dtype} floating-point values become that are too large"
        )
    is_first = e.is_first(there(node, 0))
    e.settle(node.outputs[0], _cast(e, e.at(there(node, 0), is_first), result.dtype), is_first)


def requantised(e: Export, node: Node) -> None:
    """Requantize quantized values, quantize floats, or dequantize."""
    how: Any = node.parameters
    if getattr(how, "truncate", False):
        raise GraphError("ONNX rounds quantized values, it does not truncate")
    if getattr(how, "bits", 0):
        raise GraphError(f"npusim writes no quantized values of {how.bits} bits as ONNX")
    number, result = there(node, 0), node.outputs[0]
    is_first = e.is_first(number)
    name = e.real(number, is_first)
    want = e.real_type(result)
    if e.real_type(number) != want:
        name = _cast(e, name, want)
    elif e.kind(number).quantization is None or node.op == "dequantize":
        # the result needs at least one operation, to get its own name
        name = name if e.kind(result).quantization is not None else e.op("Identity", name)
    e.result(node, name, is_first)


def dynamic_codes(e: Export, node: Node) -> None:
    """Add DynamicQuantizeLinear: quantized values, and the scale and zero point that the data give."""
    names = e.ops("DynamicQuantizeLinear", [e.last(there(node, 0))], len(node.outputs))
    for number, name in zip(node.outputs, names, strict=True):
        e.settle(number, name)


# Reductions and other operations along axes


def reduction(operation: str) -> Convert:
    """Return the conversion of a reduction; the remaining axes keep their order."""

    def convert(e: Export, node: Node) -> None:
        how: Any = node.parameters
        number, result = there(node, 0), node.outputs[0]
        rank, kept = len(e.shape(number)), bool(how.keep_dims)
        axes = sorted({axis % rank for axis in how.axes}) if rank else []
        left = [axis for axis in range(rank) if axis not in axes]
        is_first = e.is_first(number) and (kept or sorted(left, key=FIRST_AXIS.__getitem__) == left)
        x = e.real(number, is_first)
        is_truth = e.kind(number).dtype == "bool"
        x = _cast(e, x, "int32") if is_truth else x
        where = [FIRST_AXIS[axis] for axis in axes] if is_first else axes
        name = e.op(operation, x, e.whole(*where), keepdims=int(kept)) if axes else e.op("Identity", x)
        name = _cast(e, name, "bool") if is_truth else name
        e.result(node, name, is_first and kept)
        if e.shape(result) and not axes and rank != len(e.shape(result)):
            raise GraphError("reduces no axis")

    return convert


def position(operation: str) -> Convert:
    """Return the conversion of ArgMax and ArgMin, of quantized values by their dequantized value."""

    def convert(e: Export, node: Node) -> None:
        how: Any = node.parameters
        number, result = there(node, 0), node.outputs[0]
        x, rank = e.real(number), len(e.shape(number))
        x = _cast(e, x, "int32") if e.kind(number).dtype == "bool" else x
        name = e.op(operation, x, axis=how.axis % rank, keepdims=0)
        if e.kind(result).dtype != "int64":
            name = _cast(e, name, e.kind(result).dtype)
        e.settle(result, name)

    return convert


def top(e: Export, node: Node) -> None:
    """Add TopK, in which the first of equal elements comes first."""
    how: Any = node.parameters
    if how.last_first:
        raise GraphError("of equal elements ONNX's TopK has the first, not the last")
    number, (values, places) = there(node, 0), node.outputs
    axis = how.axis % len(e.shape(number))
    found, at = e.ops(
        "TopK", [e.real(number), e.whole(how.k)], 2, axis=axis, largest=int(not how.smallest), sorted=1
    )
    if e.kind(values).quantization is None:
        e.settle(values, found)
        if e.kind(places).dtype == "int64":
            e.settle(places, at)
            return
    else:
        e.settle(values, e.quantised(found, e.kind(values)))
    e.settle(places, _cast(e, at, e.kind(places).dtype))


def running_sum(e: Export, node: Node) -> None:
    """Add CumSum."""
    how: Any = node.parameters
    number = there(node, 0)
    axis = e.constant(np.array(how.axis % len(e.shape(number))), "int64", "axis")
    name = e.op("CumSum", e.real(number), axis, exclusive=int(how.exclusive), reverse=int(how.reverse))
    e.result(node, name)


ELEMENTS: dict[str, Convert] = {
    **dict.fromkeys(NAMES, elementwise(named)),
    "not_equal": elementwise(_not_equal),
    "relu6": elementwise(_limits(0.0, 6.0)),
    "relu_n1_to_1": elementwise(_limits(-1.0, 1.0)),
    "relu_0_to_1": elementwise(_limits(0.0, 1.0)),
    "clip": elementwise(_clip),
    "rsqrt": elementwise(_reciprocal_root),
    "square": elementwise(_square),
    "squared_difference": elementwise(_squared_difference),
    "add_n": elementwise(_sum),
    "div": elementwise(_quotient),
    "floor_div": on_codes(_floor_div),
    "floor_mod": on_codes(_floor_mod),
    "neg": on_codes(_negative),
    "select_v2": elementwise(_chosen),
    "select": elementwise(_selected),
    "leaky_relu": elementwise(_with("LeakyRelu", "alpha")),
    "elu": elementwise(_with("Elu", "alpha")),
    "celu": elementwise(_with("Celu", "alpha")),
    "selu": elementwise(_with("Selu", "alpha", "gamma")),
    "thresholded_relu": elementwise(_with("ThresholdedRelu", "alpha")),
    "gelu": elementwise(_gelu),
    "hard_sigmoid": elementwise(_hard_sigmoid),
    "hard_swish": elementwise(_hard_swish),
    "swish": elementwise(_swish),
    "softplus": elementwise(_softplus),
    "softmax": elementwise(_softmax("Softmax")),
    "log_softmax": elementwise(_softmax("LogSoftmax")),
}
"""The conversions of operators whose result has an element for each of the operands'."""
