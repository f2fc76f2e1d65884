"""Functions of the elements of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.forms.network import MICROSOFT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row, unary

_SAME_NAMES = (
    *("Abs", "Neg", "Sign", "Floor", "Ceil", "Sqrt", "Exp", "Log", "Tanh", "Softplus"),
    *("Erf", "Mish", "Reciprocal", "Round"),
    *("Sin", "Cos", "Tan", "Sinh", "Cosh", "Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh"),
)


def _with(name: str, op: str, domain: str = "", **attributes: float) -> Row:
    """A function with parameters that are attributes of the same names, and their defaults."""

    def convert(c: NodeConversion) -> Sequence[int]:
        values: dict[str, Any] = {
            key: float(c.attribute(key, default)) for key, default in attributes.items()
        }
        return [c.node(op, [c.tensor("X")], **values)]

    return Row(name, "X", convert, (op,), domain=domain)


def _relu(c: NodeConversion) -> Sequence[int]:
    x = c.tensor("X")
    kind = c.builder.type(x)
    if kind.real or kind.quantization is not None:
        return [c.node("relu", [x])]
    return [c.step("maximum", [x, c.scalar(0, x)])]


def _gelu(c: NodeConversion) -> Sequence[int]:
    how = c.attribute("approximate", "none")
    c.require(how in ("none", "tanh"), f"approximate is {how!r}, must be 'none' or 'tanh'")
    return [c.node("gelu", [c.tensor("X")], approximate=how == "tanh")]


def _fast_gelu(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    if c.has("bias"):
        x = c.step("add", [x, c.real("bias")])
    return [c.node("gelu", [x], approximate=True)]


def _bias_gelu(c: NodeConversion) -> Sequence[int]:
    return [c.node("gelu", [c.step("add", [c.real("A"), c.real("B")])], approximate=False)]


def _softsign(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    return [c.node("div", [x, c.step("add", [c.step("abs", [x]), c.scalar(1, x)])])]


def _shrunk(c: NodeConversion) -> Sequence[int]:
    """Less a bias beyond a limit on either side, 0 between."""
    x = c.real("input")
    bias, limit = float(c.attribute("bias", 0.0)), float(c.attribute("lambd", 0.5))
    parts = []
    for op, edge, step in (("greater", limit, -bias), ("less", -limit, bias)):
        there = c.cast(c.step(op, [x, c.scalar(edge, x)], "bool"), c.builder.type(x).dtype)
        parts.append(c.step("mul", [there, c.step("add", [x, c.scalar(step, x)])]))
    return [c.node("add", parts)]


def _swish(c: NodeConversion) -> Sequence[int]:
    return [c.node("swish", [c.tensor("X")], beta=float(c.attribute("alpha", 1.0)))]


def _quick_gelu(c: NodeConversion) -> Sequence[int]:
    return [c.node("swish", [c.tensor("X")], beta=float(c.attribute("alpha", 1.702)))]


def _dropped(c: NodeConversion) -> Sequence[int | None]:
    """In inference the data as they are; the mask is all true."""
    c.require(
        not c.has("training_mode") or not c.value("training_mode").any(),
        "npusim infers; training_mode must be false",
    )
    x = c.tensor("data")
    made = [c.node("reshape", [x], shape=c.shape(x))]
    if len(c.outputs) > 1 and c.outputs[1]:
        made.append(c.filled(c.shape(x), True, "bool"))
    return made


ROWS: tuple[Row, ...] = (
    Row("Relu", "X", _relu, ("relu", "maximum")),
    *(unary(name) for name in _SAME_NAMES),
    unary("Sigmoid", "logistic"),
    _with("LeakyRelu", "leaky_relu", alpha=0.01),
    _with("Elu", "elu", alpha=1.0),
    _with("HardSigmoid", "hard_sigmoid", alpha=0.2, beta=0.5),
    unary("HardSwish", "hard_swish"),
    _with("Celu", "celu", alpha=1.0),
    _with("Selu", "selu", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    _with("ThresholdedRelu", "thresholded_relu", alpha=1.0),
    Row("Swish", "X", _swish, ("swish",)),
    Row("QuickGelu", "X", _quick_gelu, ("swish",), domain=MICROSOFT),
    Row("Gelu", "X", _gelu, ("gelu",)),
    Row("Gelu", "X", _gelu, ("gelu",), domain=MICROSOFT),
    Row("FastGelu", "X bias?", _fast_gelu, ("gelu", "add"), domain=MICROSOFT),
    Row("BiasGelu", "A B", _bias_gelu, ("gelu", "add"), domain=MICROSOFT),
    Row("Softsign", "X", _softsign, ("abs", "add", "div")),
    Row("Shrink", "input", _shrunk, ("greater", "less", "cast", "add", "mul")),
    Row("Dropout", "data ratio? training_mode?", _dropped, ("reshape",)),
)
