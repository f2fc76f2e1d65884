"""Normalizations: elements brought to a mean and a variance, or divided by a measure of those around them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row

_EPSILON = 1e-6
"""An epsilon up to this is nothing beside a norm of codes."""


def _channels(c: Conversion) -> int:
    """How many channels the input has."""
    shape = c.shape("input")
    c.require(len(shape) >= 2, f"input has shape {list(shape)}, must have 2 dimensions or more")
    return shape[1]


def _vector(c: Conversion, name: str, shape: Sequence[int]) -> int:
    """An argument with as many elements as a shape, under that shape and in the type of an input of reals."""
    given = c.shape(name)
    c.require(prod(given) == prod(shape), f"{name} has shape {list(given)}, must have shape {list(shape)}")
    return c.in_type_of_input(c.tensor(name) if given == tuple(shape) else c.reshaped(c.tensor(name), shape))


def _vectors(c: Conversion, *names: str) -> list[int]:
    """The input, and arguments with an element for each channel."""
    shape = (_channels(c),)
    return [c.tensor("input"), *(_vector(c, name, shape) for name in names)]


def _batch(c: Conversion) -> Sequence[int]:
    operands = _vectors(c, "scale", "bias", "mean", "variance")
    return c.node("batch_normalization", operands, axis=1, epsilon=c.real("epsilon"))


def _instance(c: Conversion) -> Sequence[int]:
    """Every channel is a group."""
    operands = _vectors(c, "scale", "bias")
    how = {"axis": 1, "groups": max(_channels(c), 1), "epsilon": c.real("epsilon")}
    return c.node("group_normalization", operands, **how)


def _group(c: Conversion) -> Sequence[int]:
    groups = c.whole("groups")
    c.require(groups > 0, f"groups is {groups}, must be 1 or more")
    operands = _vectors(c, "scale", "bias")
    return c.node("group_normalization", operands, axis=1, groups=groups, epsilon=c.real("epsilon"))


def _layer(c: Conversion) -> Sequence[int]:
    begin = c.axis("begin_norm_axis")
    shape = c.shape("input")[begin:]
    operands = [c.tensor("input"), *(_vector(c, name, shape) for name in ("scale", "bias"))]
    return c.node("layer_normalization", operands, begin_axis=begin, epsilon=c.real("epsilon"))


def _lp(c: Conversion) -> Sequence[int]:
    """Codes in LiteRT's arithmetic where it has that: unit length along one axis, in steps of 1/128."""
    axes, p, epsilon = sorted(set(c.axes("axis"))), c.whole("p"), c.real("epsilon")
    c.require(p in (1, 2), f"p is {p}, must be 1 or 2")
    c.require(bool(axes), "axis is empty, must name one or more")
    kind = c.result()
    scaling = kind.quantization if kind.quantized8 else None
    if scaling is not None and p == 2 and len(axes) == 1 and epsilon <= _EPSILON and scaling.scale == 1 / 128:
        return c.node("l2_normalization", [c.tensor("input")], axis=axes[0])
    return c.node("lp_normalization", [c.tensor("input")], axes=tuple(axes), p=p, epsilon=epsilon)


def _lrn(c: Conversion) -> Sequence[int]:
    """A window of an even size reaches one further behind."""
    size = c.whole("size")
    c.require(size > 0, f"size is {size}, must be 1 or more")
    _channels(c)
    reals = {name: c.real(name) for name in ("bias", "alpha", "beta")}
    window = {"radius": (size - 1) // 2, "one_more": size % 2 == 0}
    return c.node("local_response_normalization", [c.tensor("input")], axis=1, **window, **reals)


ROWS: tuple[Row, ...] = (
    Row(
        OperationType.BATCH_NORMALIZATION,
        "input scale bias mean variance epsilon:f=1e-5 > output=input",
        _batch,
        ("batch_normalization",),
    ),
    Row(
        OperationType.INSTANCE_NORMALIZATION,
        "input scale bias epsilon:f=1e-5 > output=input",
        _instance,
        ("group_normalization",),
    ),
    Row(
        OperationType.GROUP_NORMALIZATION,
        "input scale bias epsilon:f=1e-5 groups:i > output=input",
        _group,
        ("group_normalization",),
    ),
    Row(
        OperationType.LAYER_NORMALIZATION,
        "input scale bias begin_norm_axis:i epsilon:f=1e-5 > output=input",
        _layer,
        ("layer_normalization",),
    ),
    Row(
        OperationType.LP_NORMALIZATION,
        "input axis:I=1 p:i=2 epsilon:f=1e-5 > output=input",
        _lp,
        ("lp_normalization", "l2_normalization"),
    ),
    Row(
        OperationType.LRN,
        "input size:i=5 bias:f=1.0 alpha:f=1e-4 beta:f=0.75 > output=input",
        _lrn,
        ("local_response_normalization",),
    ),
)
