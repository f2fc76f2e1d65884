"""Functions of single elements: activations, arithmetic of two tensors, comparisons, conversions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from npusim.frontends.forms.elementwise import converted, limited
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row
from npusim.frontends.paddle.operations.row import channels_first, element_type, op, renamed

_SAME_NAMES = (
    *("abs", "floor", "ceil", "sign", "sqrt", "exp", "log", "erf", "reciprocal", "mish", "relu"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "sigmoid", "softplus", "softsign"),
)


def _relu6(c: NodeConversion) -> Sequence[int]:
    return [limited(c, c.tensor("X"), 0.0, float(c.attribute("threshold", 6.0)))]


def _relu6_role(said: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    return "Clip", {"min": 0.0, "max": float(said.get("threshold", 6.0))}


def _clip(c: NodeConversion) -> Sequence[int]:
    x, kind = c.tensor("X"), c.builder.type(c.tensor("X"))
    least, most = (
        float(c.value(tensor).reshape(-1)[0] if c.has(tensor) else c.attribute(tensor.lower(), 0.0))
        for tensor in ("Min", "Max")
    )
    c.require(least <= most, f"min {least} is above max {most}")
    if kind.real or kind.quantization is not None:
        return [limited(c, x, least, most)]
    return [c.step("minimum", [c.step("maximum", [x, c.scalar(least, x)]), c.scalar(most, x)])]


def _clip_role(said: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    return "Clip", {name: said[name] for name in ("min", "max") if name in said}


def _hard_swish(c: NodeConversion) -> Sequence[int]:
    """x * limited(x + offset, 0, threshold) / scale, which is usually one operator."""
    names = {"threshold": 6.0, "scale": 6.0, "offset": 3.0}
    threshold, scale, offset = (float(c.attribute(*each)) for each in names.items())
    if (threshold, scale, offset) == (6.0, 6.0, 3.0):
        return [c.node("hard_swish", [c.tensor("X")])]
    x = c.real("X")
    gate = c.step("clip", [c.step("add", [x, c.scalar(offset, x)])], least=0.0, most=threshold)
    return [c.node("div", [c.step("mul", [x, gate]), c.scalar(scale, x)])]


def _softplus(c: NodeConversion) -> Sequence[int]:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""
    beta, threshold, x = float(c.attribute("beta", 1.0)), float(c.attribute("threshold", 20.0)), c.tensor("X")
    c.require(beta > 0, f"beta is {beta}, must be above 0")
    if beta == 1 and threshold >= 20:  # beyond it both are the same float32
        return [c.node("softplus", [x])]
    x = c.as_real(x)
    wide = c.step("mul", [x, c.scalar(beta, x)])
    soft = c.step("div", [c.step("softplus", [wide]), c.scalar(beta, x)])
    above = c.step("greater", [wide, c.scalar(threshold, x)], "bool")
    return c.nodes("select_v2", [above, x, soft], [c.kind()])


def _gelu(c: NodeConversion) -> Sequence[int]:
    return [c.node("gelu", [c.tensor("X")], approximate=c.flag("approximate"))]


def _power(c: NodeConversion) -> Sequence[int]:
    x, factor = c.tensor("X"), float(c.attribute("factor", 1.0))
    if factor in (2.0, 0.5):
        return [c.node("square" if factor == 2 else "sqrt", [x])]
    return [c.node("pow", [c.as_real(x), c.scalar(factor, c.as_real(x))])]


def _round(c: NodeConversion) -> Sequence[int]:
    """Halves go away from zero."""
    x = c.real("X")
    size = c.step("floor", [c.step("add", [c.step("abs", [x]), c.scalar(0.5, x)])])
    return [c.node("mul", [c.step("sign", [x]), size])]


def _of_one(name: str) -> list[Row]:
    """A function that ONNX has in several steps."""
    return op(name, "X", lambda c: [c.node(name, [c.tensor("X")])], name, role="Mul")


def _scale(c: NodeConversion) -> Sequence[int]:
    """scale * x + bias, or scale * (x + bias); x itself where that changes nothing."""
    x, scale, bias = c.tensor("X"), float(c.attribute("scale", 1.0)), float(c.attribute("bias", 0.0))
    given = c.real("ScaleTensor") if c.has("ScaleTensor") else None
    if given is None and (scale, bias) == (1.0, 0.0):
        return [x]
    x = c.as_real(x)
    factor = c.scalar(scale, x) if given is None else c.reshaped(given, ())
    steps = [("mul", factor)] if given is not None or scale != 1 else []
    if bias:
        steps.insert(len(steps) if c.flag("bias_after_scale", True) else 0, ("add", c.scalar(bias, x)))
    for name, number in steps[:-1]:
        x = c.step(name, [x, number])
    return [c.node(steps[-1][0], [x, steps[-1][1]])]


def _prelu(c: NodeConversion) -> Sequence[int]:
    """One slope, one for each channel, or one for each element of an image."""
    channels_first(c)
    x, alpha, mode, shape = c.tensor("X"), c.tensor("Alpha"), c.attribute("mode", "all"), c.shape("X")
    c.require(mode in ("all", "channel", "element"), f"mode is {mode!r}")
    c.require(len(shape) > 1 or mode == "all", f"X has shape {list(shape)}, must have channels")
    if mode != "element":
        alpha = c.reshaped(alpha, (shape[1], *(1,) * (len(shape) - 2)) if mode == "channel" else ())
    return [c.node("prelu", [x, alpha])]


def _aligned(c: NodeConversion, x: int, y: int) -> int:
    """Y with ones behind its sizes, where the attribute `axis` says with which axis of X they begin."""
    axis, own = int(c.attribute("axis", -1)), c.shape(y)
    behind = len(c.shape(x)) - axis - len(own)
    if axis == -1 or behind <= 0 or not own:
        return y
    c.require(axis >= 0, f"axis is {axis}, must be -1 or more")
    return c.reshaped(y, (*own, *(1,) * behind))


def _binary(name: str, operator: str, role: str = "") -> list[Row]:
    def convert(c: NodeConversion) -> Sequence[int]:
        x, y = c.tensor("X"), c.tensor("Y")
        return [c.node(operator, [x, _aligned(c, x, y)])]

    return op(name, "X Y", convert, f"{operator} cast reshape", role=role)


def _comparison(name: str, operator: str) -> list[Row]:
    def convert(c: NodeConversion) -> Sequence[int]:
        x, y = c.real("X"), c.real("Y")
        return [c.step(operator, [x, _aligned(c, x, y)], "bool")]

    return op(name, "X Y", convert, f"{operator} cast", groups=False)


def _cast(c: NodeConversion) -> Sequence[int]:
    return [converted(c, c.real("X"), element_type(c, "out_dtype"))]


_BOUNDS = "relu relu6 relu_0_to_1 clip reshape"
_ARITHMETIC = ("add", "sub", "mul", "div", "max", "min", "pow", "mod", "floordiv")
_OTHER_NAMES = {"max": "maximum", "min": "minimum", "mod": "floor_mod", "floordiv": "floor_div"}
_ROLES = ("add", "sub", "mul", "div")

ROWS: tuple[Row, ...] = tuple(
    chain(
        *(renamed(name, name.capitalize()) for name in _SAME_NAMES if name != "softplus"),
        *(_of_one(name) for name in ("rsqrt", "square")),
        op("softplus", "X", _softplus, "softplus mul div greater select_v2", role="Softplus"),
        op("round", "X", _round, "floor add abs sign mul", groups=False),
        op("gelu", "X", _gelu, "gelu", role="Gelu"),
        op("pow", "X", _power, "pow square sqrt", role="Pow"),
        op("hard_swish", "X", _hard_swish, "hard_swish add clip mul div", role="HardSwish"),
        op("relu6", "X", _relu6, _BOUNDS, role=_relu6_role),
        op("clip", "X Min? Max?", _clip, f"{_BOUNDS} maximum minimum", role=_clip_role),
        renamed("silu", "Swish"),
        renamed("swish", "Swish", alpha=("beta", 1.0)),
        renamed("leaky_relu", "LeakyRelu", alpha=("alpha", 0.02)),
        renamed("elu", "Elu", alpha=("alpha", 1.0)),
        renamed("celu", "Celu", alpha=("alpha", 1.0)),
        renamed("selu", "Selu", alpha=("alpha", 1.6732632423543772), gamma=("scale", 1.0507009873554805)),
        renamed("thresholded_relu", "ThresholdedRelu", alpha=("threshold", 1.0)),
        renamed("hard_sigmoid", "HardSigmoid", alpha=("slope", 0.2), beta=("offset", 0.5)),
        op("scale", "X ScaleTensor?", _scale, "mul add", role="Mul"),
        op("prelu", "X Alpha", _prelu, "prelu reshape"),
        *(
            _binary(f"elementwise_{name}", _OTHER_NAMES.get(name, name), name.capitalize() * (name in _ROLES))
            for name in _ARITHMETIC
        ),
        renamed("sum", "Sum", "data_0=X*"),
        *(_comparison(name, name) for name in ("equal", "not_equal", "less_equal", "greater_equal")),
        *(_comparison(f"{name}_than", name) for name in ("less", "greater")),
        *(renamed(f"logical_{name.lower()}", name, "A=X B=Y") for name in ("And", "Or", "Xor")),
        renamed("logical_not", "Not"),
        renamed("where", "Where", "condition=Condition X=X Y=Y"),
        op("cast", "X", _cast, "cast not_equal reshape", groups=False),
    )
)
