"""Elementwise operations of NNEF, and activations that another operation can take in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from math import log

import numpy as np

from npusim.frontends.nnef.call_network import Call
from npusim.frontends.nnef.operations.call_conversion import DTYPES, CallConversion, Convert, Row
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.parameters import Activation

FUNCTIONS = {
    **{
        name: name for name in ("relu", "softplus", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{name: name for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "abs", "sign", "neg")},
    **{name: name for name in ("floor", "ceil", "sqrt", "rsqrt")},
    "swish": "silu",
    "logistic": "sigmoid",
    "logical_not": "not",
    "square": "sqr",
}
ARITHMETIC = {name: name for name in ("add", "sub", "mul", "div")}
EXTREMA = {"minimum": "min", "maximum": "max"}
COMPARISONS = {
    "less": "lt",
    "greater": "gt",
    "less_equal": "le",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
}
LOGIC = {"logical_and": "and", "logical_or": "or"}
"""The NNEF operation of each operator, in five tables that the reader and the writer share."""

_BY_LIMITS: Mapping[tuple[float, float], Activation] = {(0.0, 6.0): "relu6", (-1.0, 1.0): "relu_n1_to_1"}


def activation_of(call: Call) -> Activation | None:
    """Return the activation that a call is, if operators can fuse it; None for other calls."""
    if call.operation == "relu":
        return "relu"
    limits = call.tensors.get("a"), call.tensors.get("b")
    if call.operation == "clamp" and all(isinstance(limit, float) for limit in limits):
        return _BY_LIMITS.get(limits)  # type: ignore[arg-type]  # both are float
    return None


def _clamp(c: CallConversion) -> Sequence[int]:
    """Add clamp: limits that are literals become parameters, and others operands."""
    least, most = c.number("a"), c.number("b")
    if least is None or most is None:
        x, low, high = c.aligned([c.tensor("x"), c.tensor("a"), c.tensor("b")])
        return [c.node("maximum", [c.apply("min", x, high), low], by_value=True)]
    c.require(least <= most, f"a is {least:g}, above b, which is {most:g}")
    named = {(0.0, 1.0): "relu_0_to_1", **_BY_LIMITS}.get((least, most))
    if named is not None:
        return [c.node(named, [c.tensor("x")])]
    return [c.node("clip", [c.tensor("x")], least=least, most=most)]


def _with_alpha(name: str) -> Row:
    def convert(c: CallConversion) -> Sequence[int]:
        return [c.node(name, [c.tensor("x")], alpha=float(c.value("alpha")))]

    return Row(name, convert, name)


def _prelu(c: CallConversion) -> Sequence[int]:
    return [c.node("prelu", c.aligned([c.tensor("x"), c.tensor("alpha")]))]


def _selu(c: CallConversion) -> Sequence[int]:
    bent = c.apply("elu", c.tensor("x"), alpha=c.value("alpha"))
    return [c.node("mul", [bent, c.literal(c.value("lambda"), bent)])]


def _gelu(c: CallConversion) -> Sequence[int]:
    """Add x * sigmoid(1.702 * x), which is NNEF's definition of gelu."""
    x = c.as_real(c.tensor("x"))
    gate = c.apply("sigmoid", c.apply("mul", x, c.literal(1.702, x)))
    return [c.node("mul", [x, gate])]


def _softabs(c: CallConversion) -> Sequence[int]:
    square = c.apply("sqr", c.tensor("x"))
    return [c.node("sqrt", [c.apply("add", square, c.literal(c.value("epsilon"), square))])]


def _softmax(c: CallConversion) -> Sequence[int]:
    """Add a softmax; several axes are flattened to one."""
    x = c.tensor("x")
    shape = c.shape(x)
    axes = c.axes("axes", len(shape))
    if len(axes) == 1:
        return [c.node("softmax", [x], axis=axes[0])]
    if not axes:
        return [c.node("div", [x, x])]
    others = [axis for axis in range(len(shape)) if axis not in axes]
    order = [*others, *axes]
    turned = c.transposed(x, order)
    flat = c.reshaped(turned, (*(shape[axis] for axis in others), -1))
    result = c.reshaped(c.node("softmax", [flat], axis=len(others)), [shape[axis] for axis in order])
    return [c.transposed(result, [order.index(axis) for axis in range(len(shape))])]


def _function(op: str, name: str) -> Row:
    return Row(name, lambda c: [c.node(op, [c.tensor("x")])], op)


def _pair(c: CallConversion) -> list[int]:
    return c.aligned([c.tensor("x"), c.tensor("y")])


def _sum(name: str) -> Row:
    """Return the row of a two-operand operator that can fuse an activation."""

    def convert(c: CallConversion) -> Sequence[int]:
        return [c.node(name, _pair(c), activation=c.activation)]

    return Row(name, convert, name, activated=True)


def _choice(op: str, name: str) -> Row:
    """Return the row of a two-operand operator that compares dequantized values."""

    def convert(c: CallConversion) -> Sequence[int]:
        return [c.node(op, _pair(c), by_value=True)]

    return Row(name, convert, op)


def _comparison(op: str, name: str) -> Row:
    def convert(c: CallConversion) -> Sequence[int]:
        pair = _pair(c)
        alike = {c.builder.type(tensor).dtype for tensor in pair}
        if len(alike) > 1:
            pair = [c.as_real(tensor) for tensor in pair]
        return [c.node(op, pair)]

    return Row(name, convert, op)


def _plain(op: str, name: str) -> Row:
    return Row(name, lambda c: [c.node(op, _pair(c))], op)


def _power(c: CallConversion) -> Sequence[int]:
    """Add a power; exponents with an operator of their own become that one."""
    op = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt"}.get(c.number("y") or 0.0)
    if op is not None and len(c.shape("y")) <= len(c.shape("x")):
        return [c.node(op, [c.tensor("x")])]
    return [c.node("pow", _pair(c))]


def _reciprocal(op: str = "") -> Convert:
    """Return the function that adds 1 / x, or 1 / op(x)."""

    def convert(c: CallConversion) -> Sequence[int]:
        x = c.as_real(c.tensor("x"))
        divisor = c.node(op, [x], unshaped("float32")) if op else x
        return [c.node("div", [c.literal(1.0, divisor), divisor])]

    return convert


def _log2(c: CallConversion) -> Sequence[int]:
    natural = c.apply("log", c.tensor("x"))
    return [c.node("div", [natural, c.literal(log(2.0), natural)])]


def _round(c: CallConversion) -> Sequence[int]:
    """Add round half away from zero; every step is exact in float32."""
    real, x = unshaped("float32"), c.as_real(c.tensor("x"))
    size = c.node("abs", [x], real)
    whole = c.node("floor", [size], real)
    rest = c.node("sub", [size, whole], real)
    half = c.node("floor", [c.node("add", [rest, rest], real)], real)
    nearest = c.node("add", [whole, half], real)
    return [c.node("mul", [c.node("sign", [x], real), nearest])]


def _copy(c: CallConversion) -> Sequence[int]:
    x = c.tensor("x")
    return [x if c.kind().quantization is None else c.in_type(x, c.kind())]


def _select(c: CallConversion) -> Sequence[int]:
    """Add a selection; both choices are requantized as the result is."""
    condition, *values = c.aligned([c.tensor(name) for name in ("condition", "true_value", "false_value")])
    kind = c.kind()
    if kind.real or kind.quantization is not None:
        values = [c.in_type(value, kind) for value in values]
    return [c.node("select_v2", [condition, *values], kind)]


def _copies(c: CallConversion) -> Sequence[int]:
    x = c.tensor("x")
    return [x] * max(int(c.value("times")), 0)


def _added(c: CallConversion) -> Sequence[int]:
    """Add the first two operands, then each of the others, all but the last in float32."""
    first, *others = c.aligned(c.tensors("x"))
    if not others:
        return [first]
    for other in others[:-1]:
        first = c.apply("add", first, other)
    return [c.node("add", [first, others[-1]])]


def _cast(c: CallConversion) -> Sequence[int]:
    x, wanted = c.as_real(c.tensor("input")), unshaped(DTYPES[c.call.item or "scalar"])
    if c.builder.type(x).dtype == wanted.dtype:
        return [x]
    data = c.builder.tensors[x].array
    if data is not None:
        with np.errstate(invalid="ignore"):
            return [c.constant(data.astype(wanted.numpy_dtype))]
    return [c.node("cast", [x], wanted)]


ROWS: tuple[Row, ...] = (
    *starmap(_function, FUNCTIONS.items()),
    *map(_sum, ARITHMETIC),
    *starmap(_choice, EXTREMA.items()),
    *starmap(_comparison, COMPARISONS.items()),
    *starmap(_plain, LOGIC.items()),
    Row("clamp", _clamp, "clip relu6 relu_n1_to_1 relu_0_to_1 maximum minimum"),
    _with_alpha("leaky_relu"),
    _with_alpha("elu"),
    Row("prelu", _prelu, "prelu"),
    Row("selu", _selu, "elu mul"),
    Row("gelu", _gelu, "logistic mul"),
    Row("softabs", _softabs, "square add sqrt"),
    Row("softmax", _softmax, "softmax transpose reshape"),
    Row("pow", _power, "pow square sqrt rsqrt"),
    Row("rcp", _reciprocal(), "div"),
    Row("rsqr", _reciprocal("square"), "square div"),
    Row("log2", _log2, "log div"),
    Row("round", _round, "abs floor sub add sign mul"),
    Row("copy", _copy, "quantize"),
    Row("copy_n", _copies, ""),
    Row("add_n", _added, "add"),
    Row("select", _select, "select_v2"),
    Row("cast", _cast, "cast"),
)
