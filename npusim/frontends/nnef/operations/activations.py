"""Activations: functions of one tensor that follow a sum or a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.frontends.nnef.network import Call
from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.frontends.nnef.operations.row import Row
from npusim.kernels.operator.parameters import Activation

_BY_LIMITS: Mapping[tuple[float, float], Activation] = {(0.0, 6.0): "relu6", (-1.0, 1.0): "relu_n1_to_1"}


def activation_of(call: Call) -> Activation | None:
    """The activation that a call is, if the operators have it as one of theirs."""
    if call.operation == "relu":
        return "relu"
    limits = call.tensors.get("a"), call.tensors.get("b")
    if call.operation == "clamp" and all(isinstance(limit, float) for limit in limits):
        return _BY_LIMITS.get(limits)  # type: ignore[arg-type]  # both are float
    return None


def _clamp(c: CallConversion) -> Sequence[int]:
    """Limits that are literals are parameters; others are operands."""
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

    return Row(name, convert, (name,))


def _prelu(c: CallConversion) -> Sequence[int]:
    return [c.node("prelu", c.aligned([c.tensor("x"), c.tensor("alpha")]))]


def _selu(c: CallConversion) -> Sequence[int]:
    bent = c.apply("elu", c.tensor("x"), alpha=c.value("alpha"))
    return [c.node("mul", [bent, c.literal(c.value("lambda"), bent)])]


def _gelu(c: CallConversion) -> Sequence[int]:
    """x * sigmoid(1.702 * x), which is how NNEF defines it."""
    x = c.as_real(c.tensor("x"))
    gate = c.apply("sigmoid", c.apply("mul", x, c.literal(1.702, x)))
    return [c.node("mul", [x, gate])]


def _softabs(c: CallConversion) -> Sequence[int]:
    square = c.apply("sqr", c.tensor("x"))
    return [c.node("sqrt", [c.apply("add", square, c.literal(c.value("epsilon"), square))])]


def _softmax(c: CallConversion) -> Sequence[int]:
    """Over several axes as over one that they are side by side."""
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
    made = c.reshaped(c.node("softmax", [flat], axis=len(others)), [shape[axis] for axis in order])
    return [c.transposed(made, [order.index(axis) for axis in range(len(shape))])]


ROWS: tuple[Row, ...] = (
    Row("relu", lambda c: [c.node("relu", [c.tensor("x")])], ("relu",)),
    Row("clamp", _clamp, ("clip", "relu6", "relu_n1_to_1", "relu_0_to_1", "maximum", "minimum")),
    _with_alpha("leaky_relu"),
    _with_alpha("elu"),
    Row("prelu", _prelu, ("prelu",)),
    Row("selu", _selu, ("elu", "mul")),
    Row("gelu", _gelu, ("logistic", "mul")),
    Row("silu", lambda c: [c.node("swish", [c.tensor("x")])], ("swish",)),
    Row("softabs", _softabs, ("square", "add", "sqrt")),
    Row("softplus", lambda c: [c.node("softplus", [c.tensor("x")])], ("softplus",)),
    Row("sigmoid", lambda c: [c.node("logistic", [c.tensor("x")])], ("logistic",)),
    Row("softmax", _softmax, ("softmax", "transpose", "reshape")),
)
