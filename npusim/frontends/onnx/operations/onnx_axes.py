"""Operations of ONNX along axes: reductions, positions, softmax, normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.axes import response, without
from npusim.frontends.forms.networks import MICROSOFT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Convert, Row
from npusim.kernels.graph.builder import unshaped


def axes_of(c: NodeConversion, rank: int, name: str = "axes") -> list[int]:
    """Return the axes that an attribute or input states; [] for all."""
    stated_axes = c.attribute(name)
    if stated_axes is None and c.has(name):
        stated_axes = c.wholes(name)
    axes = [c.axis(int(axis), rank, name) for axis in stated_axes or ()]
    c.require(len(set(axes)) == len(axes), f"{name} {list(stated_axes or ())} name an axis twice")
    return sorted(axes)


def _combined(c: NodeConversion, rank: int) -> list[int] | None:
    """Return the axes that a reduction combines; None if the operation changes nothing."""
    axes = axes_of(c, rank)
    if c.flag("noop_with_empty_axes") and not axes:
        return None
    return axes or list(range(rank))


REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "reduce_prod": "ReduceProd",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
}
POSITIONS = {"arg_max": "ArgMax", "arg_min": "ArgMin"}
"""The ONNX operation of each reduction, in two tables that the reader and the writer share."""


def _reduction(op: str, name: str) -> Row:
    def convert(c: NodeConversion) -> Sequence[int]:
        x = c.tensor("data")
        axes = _combined(c, len(c.shape(x)))
        if axes is None or not c.shape(x):
            return [c.node("reshape", [x], shape=c.shape(x))]
        return [c.node(op, [x], axes=tuple(axes), keep_dims=c.flag("keepdims", True))]

    return Row(name, "data axes?", convert, f"{op} cast reshape")


def _composed(name: str, before: str, after: str) -> Row:
    """Return the row of a sum with a function applied before and after it."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x = c.real("data")
        axes = _combined(c, len(c.shape(x)))
        terms = c.step(before, [x]) if before else x
        if axes is not None and c.shape(x):
            terms = c.step("sum", [terms], axes=tuple(axes), keep_dims=c.flag("keepdims", True))
        return [c.node(after, [terms]) if after else c.node("reshape", [terms], shape=c.shape(terms))]

    return Row(name, "data axes?", convert, " ".join(filter(None, ("sum", before, after, "reshape"))))


def _log_sum_exp(c: NodeConversion) -> Sequence[int]:
    """Subtract the largest element before the exponential and add it to the logarithm, so that nothing overflows."""
    x = c.real("data")
    axes = _combined(c, len(c.shape(x)))
    if axes is None or not c.shape(x):
        return [c.node("reshape", [x], shape=c.shape(x))]
    parameters: dict[str, Any] = {"axes": tuple(axes), "keep_dims": True}
    most = c.step("reduce_max", [x], **parameters)
    sums = c.step("sum", [c.step("exp", [c.step("sub", [x, most])])], **parameters)
    result = c.step("add", [c.step("log", [sums]), most])
    kept = c.shape(result)
    if not c.flag("keepdims", True):
        kept = tuple(size for axis, size in enumerate(kept) if axis not in axes)
    return [c.node("reshape", [result], shape=kept)]


def _position(op: str, name: str) -> Row:
    """Return the row of an arg-extremum: the first of equal elements, or the last by reversing the axis."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x, shape = c.real("data"), c.shape(c.real("data"))
        axis = c.axis(int(c.attribute("axis", 0)), len(shape))
        last = c.flag("select_last_index")
        if last:
            x = c.step("reverse_v2", [x], axes=(axis,))
        position = c.step(op, [x], "int64", axis=axis)
        if last:
            position = c.step("sub", [c.scalar(shape[axis] - 1, position), position])
        if c.flag("keepdims", True):
            position = c.reshaped(position, without(shape, axis))
        return [position]

    return Row(name, "data", convert, f"{op} reverse_v2 sub reshape", groups=False)


def _top(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    axis, [k] = c.axis(int(c.attribute("axis", -1)), len(c.shape(x))), c.wholes("K")
    c.require(0 <= k <= c.shape(x)[axis], f"K is {k}, axis {axis} has {c.shape(x)[axis]} elements")
    parameters: dict[str, Any] = {"k": k, "axis": axis, "smallest": not c.flag("largest", True)}
    return c.nodes("topk_v2", [x], [c.like(x), unshaped("int64")], **parameters)


def _running(c: NodeConversion) -> Sequence[int]:
    x = c.real("x")
    [axis] = c.wholes("axis")
    parameters: dict[str, Any] = {
        "exclusive": c.flag("exclusive"),
        "reverse": c.flag("reverse"),
    }
    return [c.node("cumsum", [x], axis=c.axis(axis, len(c.shape(x))), **parameters)]


def _along(op: str) -> Convert:
    """Return the function that adds a softmax; before version 13 it goes over all axes from one on, flattened."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x, shape = c.tensor("input"), c.shape("input")
        older = c.opset < 13
        axis = c.axis(int(c.attribute("axis", 1 if older else -1)), max(len(shape), 1))
        if not older or axis == len(shape) - 1:
            return [c.node(op, [x], axis=axis)]
        flat = c.reshaped(x, (prod(shape[:axis]), prod(shape[axis:])))
        return [c.reshaped(c.node(op, [flat], axis=1), shape)]

    return convert


def _hardmax(c: NodeConversion) -> Sequence[int]:
    """Add 1 at the first of the largest elements, 0 elsewhere."""
    x, shape = c.real("input"), c.shape(c.real("input"))
    axis = c.axis(int(c.attribute("axis", 1 if c.opset < 13 else -1)), max(len(shape), 1))
    flat = c.reshaped(x, (prod(shape[:axis]), prod(shape[axis:]))) if c.opset < 13 else x
    axis = 1 if c.opset < 13 else axis
    sizes = c.shape(flat)
    place = c.step("arg_max", [flat], "int64", axis=axis)
    place = c.reshaped(place, [1 if at == axis else size for at, size in enumerate(sizes)])
    along = np.arange(sizes[axis], dtype=np.int64).reshape(
        [-1 if at == axis else 1 for at in range(len(sizes))]
    )
    is_largest = c.step("equal", [place, c.constant(along)], "bool")
    return [c.reshaped(c.step("cast", [is_largest], c.builder.type(x).dtype), shape)]


def _batch(c: NodeConversion) -> Sequence[int]:
    x, shape = c.tensor("X"), c.shape("X")
    c.require(not c.flag("training_mode"), "npusim infers; training_mode must be 0")
    c.require(len(shape) >= 2, f"the input has shape {list(shape)}, must have 2 axes or more")
    vectors = [c.real(name) for name in ("scale", "B", "input_mean", "input_var")]
    return [c.node("batch_normalization", [x, *vectors], axis=1, epsilon=_epsilon(c))]


def _epsilon(c: NodeConversion, default: float = 1e-5) -> float:
    return float(c.attribute("epsilon", default))


def _vector(c: NodeConversion, name: str, shape: Sequence[int], value: float) -> int:
    """Return a scale or bias under a shape; one that is left out or broadcasts becomes a constant."""
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
    results: list[int | None] = [_normalized(c, x, axis, _epsilon(c), "Scale", "B")]
    return [*results, *_moments(c, c.as_real(x), axis)] if any(c.outputs[1:]) else results


def _moments(c: NodeConversion, x: int, axis: int) -> tuple[int, int]:
    """Return the mean, and 1 / sqrt(variance + epsilon)."""
    parameters: dict[str, Any] = {"axes": tuple(range(axis, len(c.shape(x)))), "keep_dims": True}
    mean = c.step("mean", [x], **parameters)
    variance = c.step("mean", [c.step("square", [c.step("sub", [x, mean])])], **parameters)
    return mean, c.step("rsqrt", [c.step("add", [variance, c.scalar(_epsilon(c), variance)])])


def _normalized(
    c: NodeConversion, x: int, axis: int, epsilon: float, scale: str, bias: str, centred: bool = True
) -> int:
    behind = c.shape(x)[axis:]
    operands = [x, _vector(c, scale, behind, 1.0), _vector(c, bias, behind, 0.0)]
    return c.node("layer_normalization", operands, begin_axis=axis, epsilon=epsilon, centred=centred)


def _root_mean_square(c: NodeConversion) -> Sequence[int | None]:
    """Return scale * x / sqrt(mean(x ** 2) + epsilon): quantized values in one step, others in parts."""
    axis = c.axis(int(c.attribute("axis", -1)), len(c.shape("X")))
    c.require(not any(c.outputs[1:]), "npusim has the first output alone")
    if c.builder.type(c.tensor("X")).quantized8:
        return [_normalized(c, c.tensor("X"), axis, _epsilon(c), "scale", "B", centred=False)]
    x = c.real("X")
    return [rms_normalized(c, x, axis, _epsilon(c), "scale")]


def rms_normalized(c: NodeConversion, x: int, axis: int, epsilon: float, scale: str) -> int:
    """Return elements divided by the root of the mean of their squares, and scaled."""
    axes = tuple(range(axis, len(c.shape(x))))
    mean = c.step("mean", [c.step("square", [x])], axes=axes, keep_dims=True)
    root = c.step("sqrt", [c.step("add", [mean, c.scalar(epsilon, mean)])])
    normal = c.step("div", [x, root])
    return c.node("mul", [normal, _vector(c, scale, c.shape(x)[axis:], 1.0)])


def _skip(c: NodeConversion) -> Sequence[int | None]:
    """Add a normalization of a sum, which is also the fourth output."""
    x, total = c.real("input"), c.step("add", [c.real("input"), c.real("skip")])
    if c.has("bias"):
        total = c.step("add", [total, c.real("bias")])
    c.require(not any(c.outputs[1:3]), "npusim has the first and the fourth output alone")
    axis = len(c.shape(x)) - 1
    if c.source.operation == "SkipSimplifiedLayerNormalization":
        normalized = rms_normalized(c, total, axis, _epsilon(c, 1e-12), "gamma")
    else:
        normalized = _normalized(c, total, axis, _epsilon(c, 1e-12), "gamma", "beta")
    return [normalized, None, None, total]


def _instance(c: NodeConversion) -> Sequence[int]:
    """Add InstanceNormalization as a group normalization with one channel per group."""
    x, shape = c.tensor("input"), c.shape("input")
    c.require(len(shape) > 2, f"the input has shape {list(shape)}, must have 3 axes or more")
    operands = [x, c.real("scale"), c.real("B")]
    return [c.node("group_normalization", operands, axis=1, groups=shape[1], epsilon=_epsilon(c))]


def _group(c: NodeConversion) -> Sequence[int]:
    """Add GroupNormalization; before version 21 it has one scale per group."""
    x, shape, groups = c.tensor("X"), c.shape("X"), int(c.attribute("num_groups", 1))
    c.require(
        len(shape) > 1 and groups > 0 and shape[1] % groups == 0,
        f"num_groups {groups} do not fit {list(shape)}",
    )
    vectors = []
    for name in ("scale", "bias"):
        vector = c.real(name)
        if c.shape(vector) == (groups,) != (shape[1],):
            column = c.reshaped(vector, (groups, 1))
            wide = c.step("broadcast_to", [column], shape=(groups, shape[1] // groups))
            vector = c.reshaped(wide, (shape[1],))
        vectors.append(vector)
    return [c.node("group_normalization", [x, *vectors], axis=1, groups=groups, epsilon=_epsilon(c))]


_LEAST = 2.0**-149
"""The smallest normal float32: it changes no norm but 0, where all elements are 0."""


def _length(c: NodeConversion) -> Sequence[int]:
    x = c.real("input")
    axis, p = c.axis(int(c.attribute("axis", -1)), len(c.shape(x))), int(c.attribute("p", 2))
    c.require(p in (1, 2), f"p is {p}, must be 1 or 2")
    return [c.node("lp_normalization", [x], axes=(axis,), p=p, epsilon=_LEAST)]


def _response(c: NodeConversion) -> Sequence[int]:
    """Add LRN over `size` channels, whose middle is rounded down."""
    x, size = c.real("X"), int(c.attribute("size", 1))
    c.require(size > 0, f"size is {size}, must be 1 or more")
    parameters: dict[str, Any] = {
        "alpha": float(c.attribute("alpha", 0.0001)) / size,
        "beta": float(c.attribute("beta", 0.75)),
        "bias": float(c.attribute("bias", 1.0)),
    }
    return [response(c, x, size, **parameters)]


def _mean_variance(c: NodeConversion) -> Sequence[int]:
    """Add (x - mean) / (deviation + 1e-9) over the axes."""
    x = c.real("X")
    rank = len(c.shape(x))
    axes = tuple(sorted(c.axis(int(axis), rank) for axis in c.attribute("axes", (0, 2, 3))))
    parameters: dict[str, Any] = {"axes": axes, "keep_dims": True}
    centred = c.step("sub", [x, c.step("mean", [x], **parameters)])
    deviation = c.step("sqrt", [c.step("mean", [c.step("square", [centred])], **parameters)])
    return [c.node("div", [centred, c.step("add", [deviation, c.scalar(1e-9, deviation)])])]


_ROOT = "square mean sqrt div mul add"
_SKIP = "input skip gamma beta? bias?"


ROWS: tuple[Row, ...] = (
    *starmap(_reduction, REDUCTIONS.items()),
    _composed("ReduceL1", "abs", ""),
    _composed("ReduceL2", "square", "sqrt"),
    _composed("ReduceSumSquare", "square", ""),
    _composed("ReduceLogSum", "", "log"),
    Row("ReduceLogSumExp", "data axes?", _log_sum_exp, "sum reduce_max sub exp log add"),
    *starmap(_position, POSITIONS.items()),
    Row("TopK", "X K", _top, "topk_v2", groups=False),
    Row("CumSum", "x axis", _running, "cumsum", groups=False),
    Row("Softmax", "input", _along("softmax"), "softmax reshape"),
    Row("LogSoftmax", "input", _along("log_softmax"), "log_softmax reshape"),
    Row("Hardmax", "input", _hardmax, "arg_max equal cast reshape", groups=False),
    Row("BatchNormalization", "X scale B input_mean input_var", _batch, "batch_normalization"),
    Row("LayerNormalization", "X Scale B?", _layer, "layer_normalization broadcast_to mean sub square rsqrt"),
    Row("RMSNormalization", "X scale", _root_mean_square, f"{_ROOT} layer_normalization"),
    Row("SimplifiedLayerNormalization", "X scale", _root_mean_square, f"{_ROOT} layer_normalization"),
    Row("SkipLayerNormalization", _SKIP, _skip, "layer_normalization add", domain=MICROSOFT),
    Row("SkipSimplifiedLayerNormalization", "input skip gamma bias?", _skip, _ROOT, domain=MICROSOFT),
    Row("InstanceNormalization", "input scale B", _instance, "group_normalization"),
    Row("GroupNormalization", "X scale bias", _group, "group_normalization broadcast_to reshape"),
    Row("LpNormalization", "input", _length, "lp_normalization"),
    Row("LRN", "X", _response, "local_response_normalization"),
    Row("MeanVarianceNormalization", "X", _mean_variance, "mean sub square sqrt add div"),
)
