"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from npusim.frontends.forms.network import MICROSOFT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row


def _batch(c: NodeConversion) -> Sequence[int]:
    x, shape = c.tensor("X"), c.shape("X")
    c.require(not c.flag("training_mode"), "npusim infers; training_mode must be 0")
    c.require(len(shape) >= 2, f"the input has shape {list(shape)}, must have 2 axes or more")
    vectors = [c.real(name) for name in ("scale", "B", "input_mean", "input_var")]
    return [c.node("batch_normalization", [x, *vectors], axis=1, epsilon=_epsilon(c))]


def _epsilon(c: NodeConversion, default: float = 1e-5) -> float:
    return float(c.attribute("epsilon", default))


def _vector(c: NodeConversion, name: str, shape: Sequence[int], value: float) -> int:
    """A scale or bias under a shape; one that is left out, and one that broadcasts, as a constant of it."""
    if not c.has(name):
        return c.filled(tuple(shape), value, "float32")
    tensor = c.real(name)
    if c.shape(tensor) == tuple(shape):
        return tensor
    c.require(
        len(c.shape(tensor)) <= len(shape) or prod(c.shape(tensor)) == prod(shape),
        f"{name} {list(c.shape(tensor))} does not fit {list(shape)}",
    )
    if prod(c.shape(tensor)) == prod(shape):
        return c.reshaped(tensor, shape)
    return c.step("broadcast_to", [tensor], shape=tuple(shape))


def _layer(c: NodeConversion) -> Sequence[int | None]:
    x, shape = c.tensor("X"), c.shape("X")
    axis = c.axis(int(c.attribute("axis", -1)), len(shape))
    made: list[int | None] = [_normalized(c, x, axis, _epsilon(c), "Scale", "B")]
    return [*made, *_moments(c, c.as_real(x), axis)] if any(c.outputs[1:]) else made


def _moments(c: NodeConversion, x: int, axis: int) -> tuple[int, int]:
    """The mean, and 1 / sqrt(variance + epsilon)."""
    how: dict[str, Any] = {"axes": tuple(range(axis, len(c.shape(x)))), "keep_dims": True}
    mean = c.step("mean", [x], **how)
    variance = c.step("mean", [c.step("square", [c.step("sub", [x, mean])])], **how)
    return mean, c.step("rsqrt", [c.step("add", [variance, c.scalar(_epsilon(c), variance)])])


def _normalized(c: NodeConversion, x: int, axis: int, epsilon: float, scale: str, bias: str) -> int:
    behind = c.shape(x)[axis:]
    operands = [x, _vector(c, scale, behind, 1.0), _vector(c, bias, behind, 0.0)]
    return c.node("layer_normalization", operands, begin_axis=axis, epsilon=epsilon)


def _root_mean_square(c: NodeConversion) -> Sequence[int | None]:
    """scale * x / sqrt(mean(x ** 2) + epsilon)."""
    x = c.real("X")
    axis = c.axis(int(c.attribute("axis", -1)), len(c.shape(x)))
    c.require(not any(c.outputs[1:]), "npusim has the first output alone")
    return [rms_normalized(c, x, axis, _epsilon(c), "scale")]


def rms_normalized(c: NodeConversion, x: int, axis: int, epsilon: float, scale: str) -> int:
    """Elements over the root of the mean of their squares, scaled."""
    axes = tuple(range(axis, len(c.shape(x))))
    mean = c.step("mean", [c.step("square", [x])], axes=axes, keep_dims=True)
    root = c.step("sqrt", [c.step("add", [mean, c.scalar(epsilon, mean)])])
    normal = c.step("div", [x, root])
    return c.node("mul", [normal, _vector(c, scale, c.shape(x)[axis:], 1.0)])


def _skip(c: NodeConversion) -> Sequence[int | None]:
    """The normalization of a sum, which is the fourth output."""
    x, total = c.real("input"), c.step("add", [c.real("input"), c.real("skip")])
    if c.has("bias"):
        total = c.step("add", [total, c.real("bias")])
    c.require(not any(c.outputs[1:3]), "npusim has the first and the fourth output alone")
    axis = len(c.shape(x)) - 1
    if c.source.operation == "SkipSimplifiedLayerNormalization":
        made = rms_normalized(c, total, axis, _epsilon(c, 1e-12), "gamma")
    else:
        made = _normalized(c, total, axis, _epsilon(c, 1e-12), "gamma", "beta")
    return [made, None, None, total]


def _instance(c: NodeConversion) -> Sequence[int]:
    """Groups of one channel each."""
    x, shape = c.tensor("input"), c.shape("input")
    c.require(len(shape) > 2, f"the input has shape {list(shape)}, must have 3 axes or more")
    operands = [x, c.real("scale"), c.real("B")]
    return [c.node("group_normalization", operands, axis=1, groups=shape[1], epsilon=_epsilon(c))]


def _group(c: NodeConversion) -> Sequence[int]:
    """Before version 21 one scale for each group."""
    x, shape, groups = c.tensor("X"), c.shape("X"), int(c.attribute("num_groups", 1))
    c.require(
        len(shape) > 1 and groups > 0 and shape[1] % groups == 0,
        f"num_groups {groups} do not fit {list(shape)}",
    )
    vectors = []
    for name in ("scale", "bias"):
        vector = c.real(name)
        if c.shape(vector) == (groups,) != (shape[1],):
            each = c.reshaped(vector, (groups, 1))
            wide = c.step("broadcast_to", [each], shape=(groups, shape[1] // groups))
            vector = c.reshaped(wide, (shape[1],))
        vectors.append(vector)
    return [c.node("group_normalization", [x, *vectors], axis=1, groups=groups, epsilon=_epsilon(c))]


_LEAST = 2.0**-149
"""Of float32: it changes no norm but 0, beside which everything is 0."""


def _length(c: NodeConversion) -> Sequence[int]:
    x = c.real("input")
    axis, p = c.axis(int(c.attribute("axis", -1)), len(c.shape(x))), int(c.attribute("p", 2))
    c.require(p in (1, 2), f"p is {p}, must be 1 or 2")
    return [c.node("lp_normalization", [x], axes=(axis,), p=p, epsilon=_LEAST)]


def _response(c: NodeConversion) -> Sequence[int]:
    """A window of `size` channels, the middle one rounded down."""
    x, size = c.real("X"), int(c.attribute("size", 1))
    c.require(size > 0, f"size is {size}, must be 1 or more")
    how: dict[str, Any] = {
        "alpha": float(c.attribute("alpha", 0.0001)) / size,
        "beta": float(c.attribute("beta", 0.75)),
        "bias": float(c.attribute("bias", 1.0)),
    }
    radius = (size - 1) // 2
    return [c.node("local_response_normalization", [x], axis=1, radius=radius, one_more=size % 2 == 0, **how)]


def _mean_variance(c: NodeConversion) -> Sequence[int]:
    """(x - mean) / (deviation + 1e-9) over the axes."""
    x = c.real("X")
    rank = len(c.shape(x))
    axes = tuple(sorted(c.axis(int(axis), rank) for axis in c.attribute("axes", (0, 2, 3))))
    how: dict[str, Any] = {"axes": axes, "keep_dims": True}
    centred = c.step("sub", [x, c.step("mean", [x], **how)])
    deviation = c.step("sqrt", [c.step("mean", [c.step("square", [centred])], **how)])
    return [c.node("div", [centred, c.step("add", [deviation, c.scalar(1e-9, deviation)])])]


_ROOT = ("square", "mean", "sqrt", "div", "mul", "add")
_SKIP = "input skip gamma beta? bias?"

ROWS: tuple[Row, ...] = (
    Row("BatchNormalization", "X scale B input_mean input_var", _batch, ("batch_normalization",)),
    Row(
        "LayerNormalization",
        "X Scale B?",
        _layer,
        ("layer_normalization", "broadcast_to", "mean", "sub", "square", "rsqrt"),
    ),
    Row("RMSNormalization", "X scale", _root_mean_square, _ROOT),
    Row("SimplifiedLayerNormalization", "X scale", _root_mean_square, _ROOT),
    Row("SkipLayerNormalization", _SKIP, _skip, ("layer_normalization", "add"), domain=MICROSOFT),
    Row("SkipSimplifiedLayerNormalization", "input skip gamma bias?", _skip, _ROOT, domain=MICROSOFT),
    Row("InstanceNormalization", "input scale B", _instance, ("group_normalization",)),
    Row("GroupNormalization", "X scale bias", _group, ("group_normalization", "broadcast_to", "reshape")),
    Row("LpNormalization", "input", _length, ("lp_normalization",)),
    Row("LRN", "X", _response, ("local_response_normalization",)),
    Row("MeanVarianceNormalization", "X", _mean_variance, ("mean", "sub", "square", "sqrt", "add", "div")),
)
