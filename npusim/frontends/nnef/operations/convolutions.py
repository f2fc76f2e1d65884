"""Convolutions, along one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.images import filters_by_group
from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.frontends.nnef.operations.products import bias_of
from npusim.frontends.nnef.operations.row import Row
from npusim.frontends.nnef.operations.windows import NO_BORDER, Window, padded, per_axis, window_of
from npusim.kernels.operator.parameters import Border


def _operands(c: CallConversion) -> tuple[int, int]:
    image, weights = c.tensor("input"), c.tensor("filter")
    shapes = c.shape(image), c.shape(weights)
    c.require(
        len(shapes[0]) == len(shapes[1]) and 3 <= len(shapes[0]) <= 5 and 0 not in shapes[1],
        f"input {list(shapes[0])} and filter {list(shapes[1])} are not of one rank, 3 to 5",
    )
    return image, weights


def _groups(c: CallConversion, channels: int) -> int:
    """Into how many groups the channels fall; 0 says into one each."""
    groups = int(c.value("groups")) or channels
    c.require(groups > 0 and channels % groups == 0, f"groups {groups} do not divide {channels} channels")
    return groups


def _convolution(c: CallConversion) -> Sequence[int]:
    image, weights = _operands(c)
    shape, filter_ = c.shape(image), c.shape(weights)
    groups = _groups(c, shape[1])
    c.require(
        filter_[1] * groups == shape[1] and filter_[0] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups",
    )
    window = window_of(c, shape[2:], filter_[2:])
    border = c.value("border")
    if border not in ("constant", "ignore"):
        image = padded(c, image, (NO_BORDER, NO_BORDER, *window.padding), border)
        window = Window(window.size, window.stride, window.dilation, (NO_BORDER,) * len(window.size))
    image, weights, window = _deep(c, image, weights, window)
    bias = bias_of(c, filter_[0], image, weights)
    made = _convolved(c, image, weights, bias, window, groups)
    sizes = [filter_[0], *c.shape(made)[2:]]
    return [_shallow(c, made, shape, sizes)]


def _convolved(
    c: CallConversion, image: int, weights: int, bias: int | None, window: Window, groups: int
) -> int:
    """A convolution of an image [N, C, H, W]."""
    filters, depth = c.shape(weights)[:2]
    how: dict[str, Any] = {
        "strides": window.stride[-2:],
        "dilations": window.dilation[-2:],
        "padding": window.padding[-2:],
        "activation": c.activation,
    }
    if depth == 1 < groups:
        multiplier = filters // groups
        return c.node("depthwise_conv_2d", [image, weights, bias], depth_multiplier=multiplier, **how)
    return c.node("conv_2d", [image, weights, bias], **how)


def _deep(c: CallConversion, image: int, weights: int, window: Window) -> tuple[int, int, Window]:
    """Operands with two axes in space: a row for one axis; for three, taps along the first one as channels."""
    shape, filter_ = c.shape(image), c.shape(weights)
    if len(shape) == 3:
        flat = Window(
            (1, *window.size), (1, *window.stride), (1, *window.dilation), (NO_BORDER, *window.padding)
        )
        return (
            c.reshaped(image, (*shape[:2], 1, shape[2])),
            c.reshaped(weights, (*filter_[:2], 1, filter_[2])),
            flat,
        )
    if len(shape) == 4:
        return image, weights, window
    wide = padded(c, image, (NO_BORDER, NO_BORDER, window.padding[0], NO_BORDER, NO_BORDER), "constant")
    count = window.positions(shape[2:])[0]
    taps = []
    for tap in range(filter_[2]):
        begin, size = (0, 0, tap * window.dilation[0], 0, 0), (*shape[:2], count, *shape[3:])
        strides = (1, 1, window.stride[0], 1, 1)
        taps += c.moved("strided_slice", [wide], begin=begin, size=size, strides=strides)
    [stacked] = c.moved("pack", taps, axis=2)  # [N, C, taps, D, H, W]
    turned = c.transposed(stacked, (0, 3, 1, 2, 4, 5))
    image = c.reshaped(turned, (shape[0] * count, shape[1] * filter_[2], *shape[3:]))
    return image, c.reshaped(weights, (filter_[0], filter_[1] * filter_[2], *filter_[3:])), window


def _shallow(c: CallConversion, made: int, shape: Sequence[int], sizes: Sequence[int]) -> int:
    """The result of such a convolution with its own axes in space."""
    if len(shape) == 3:
        return c.reshaped(made, (shape[0], sizes[0], sizes[-1]))
    if len(shape) == 4:
        return made
    apart = c.reshaped(made, (shape[0], c.shape(made)[0] // shape[0], *sizes))
    return c.transposed(apart, (0, 2, 1, 3, 4))


# Transposed


def unwound(
    c: CallConversion, shape: Sequence[int], size: Sequence[int], said: Sequence[int]
) -> tuple[list[int], Window]:
    """The extents that windows of a size gave these of, and the windows (rule S4, the other way)."""
    rank = len(shape)
    stride, dilation = per_axis(c, "stride", rank), per_axis(c, "dilation", rank)
    borders: list[Border] = [tuple(pair) for pair in c.value("padding")]
    c.require(
        len(borders) in (0, rank) and min((min(pair) for pair in borders), default=0) >= 0,
        f"padding {borders} is not a pair of numbers, 0 or more, for each of {rank} axes",
    )
    c.require(len(said) in (0, rank), f"output_shape {list(said)} has not {rank} extents")
    extents = []
    padding: list[Border] = []
    for axis in range(rank):
        reach = (size[axis] - 1) * dilation[axis] + 1
        most = (shape[axis] - 1) * stride[axis] + reach
        extent = said[axis] if said else most - sum(borders[axis]) if borders else shape[axis] * stride[axis]
        over = max(most - extent, 0)
        border = borders[axis] if borders else (over // 2, over - over // 2)
        c.require(extent > 0, f"the output would have extent {extent} along axis {axis} of the window")
        extents.append(extent)
        padding.append(border)
    window = Window(tuple(size), tuple(stride), tuple(dilation), tuple(padding))
    if said:
        fits = window.positions(extents) == list(shape)
        c.require(
            fits, f"output_shape {list(said)} has windows {window.positions(extents)}, not {list(shape)}"
        )
    return extents, window


def _transposed(c: CallConversion) -> Sequence[int]:
    image, weights = _operands(c)
    shape, filter_ = c.shape(image), c.shape(weights)
    c.require(len(shape) < 5, "npusim has transposed convolutions along one or two axes")
    c.require(c.value("border") in ("constant", "ignore"), f"border is {c.value('border')!r}, not 'constant'")
    said = c.wholes("output_shape")
    groups = int(c.value("groups")) or (said[1] if len(said) > 1 else shape[1])
    c.require(
        groups > 0 and filter_[0] == shape[1] and shape[1] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups",
    )
    channels = filter_[1] * groups
    c.require(
        not said or (len(said) == len(shape) and list(said[:2]) == [shape[0], channels]),
        f"output_shape is {said}, must begin with [{shape[0]},{channels}] and have rank {len(shape)}",
    )
    extents, window = unwound(c, shape[2:], filter_[2:], said[2:])
    ones = (1,) * (4 - len(shape))
    image = c.reshaped(image, (*shape[:2], *ones, *shape[2:]))
    weights = c.reshaped(weights, (*filter_[:2], *ones, *filter_[2:]))
    bias = bias_of(c, channels, image, weights)
    made = c.node(
        "transpose_conv",
        [image, filters_by_group(c, weights, groups), bias],
        size=(*ones, *extents),
        strides=(*ones, *window.stride),
        dilations=(*ones, *window.dilation),
        padding=(*(NO_BORDER for _ in ones), *window.padding),
        activation=c.activation,
    )
    return [c.reshaped(made, (shape[0], channels, *extents))]


# In two steps


def _separable(c: CallConversion) -> Sequence[int]:
    """Planes first, each channel for itself; then points."""
    steps = {name: c.value(name) for name in ("border", "padding", "stride", "dilation")}
    filters = [c.tensor(name) for name in ("plane_filter", "point_filter")]
    zero = c.literal(0.0, filters[0])
    planes = c.apply("conv", c.tensor("input"), filters[0], c.reshaped(zero, (1,)), groups=0, **steps)
    return [c.apply("conv", planes, filters[1], c.tensor("bias"), groups=c.value("groups"))]


def _separable_transposed(c: CallConversion) -> Sequence[int]:
    """Points first, then planes."""
    steps = {name: c.value(name) for name in ("border", "padding", "stride", "dilation")}
    filters = [c.tensor(name) for name in ("plane_filter", "point_filter")]
    zero = c.reshaped(c.literal(0.0, filters[0]), (1,))
    points = c.apply("deconv", c.tensor("input"), filters[1], zero, groups=c.value("groups"))
    said = c.wholes("output_shape")
    return [c.apply("deconv", points, filters[0], c.tensor("bias"), output_shape=said, groups=0, **steps)]


_CONVOLUTIONS = ("conv_2d", "depthwise_conv_2d")

ROWS: tuple[Row, ...] = (
    Row("conv", _convolution, (*_CONVOLUTIONS, "pad", "pack", "transpose", "reshape"), activated=True),
    Row("deconv", _transposed, ("transpose_conv",), activated=True),
    Row("separable_conv", _separable, _CONVOLUTIONS),
    Row("separable_deconv", _separable_transposed, ("transpose_conv",)),
)
