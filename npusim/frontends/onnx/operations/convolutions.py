"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from npusim.frontends.images import filters_by_group
from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.frontends.onnx.operations.row import Row
from npusim.frontends.onnx.operations.windows import NO_BORDER, Window, paddings, steps, window_of


def _conv(c: Conversion) -> Sequence[int]:
    image, weights, bias = c.tensor("X"), c.tensor("W"), c.optional("B")
    return [convolved(c, image, weights, bias)]


def convolved(c: Conversion, image: int, weights: int, bias: int | None, **more: Any) -> int:
    """A convolution of [N, C, H, W], of [N, C, W] as an image of one row, or of [N, C, D, H, W] as images of which
    each has the taps along D as channels; with the attributes of Conv.
    """
    shape, filter_ = c.shape(image), c.shape(weights)
    c.require(
        3 <= len(shape) == len(filter_) <= 5 and 0 not in filter_,
        f"X {list(shape)} and W {list(filter_)} are not of one rank, 3 to 5",
    )
    groups = int(c.attribute("group", 1))
    c.require(
        groups > 0 and filter_[1] * groups == shape[1] and filter_[0] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups",
    )
    said = c.attribute("kernel_shape")
    c.require(
        said is None or list(said) == list(filter_[2:]), f"kernel_shape {said} is not that of {list(filter_)}"
    )
    window = window_of(c, shape[2:], filter_[2:])
    if len(shape) == 3:
        image, weights = (c.reshaped(each, _as_image(c.shape(each))) for each in (image, weights))
        window = window.after(Window((1,), (1,), (1,), (NO_BORDER,), (NO_BORDER,)))
    elif len(shape) == 5:
        image, weights = _by_taps(c, image, weights, window)
    how: dict[str, Any] = {
        "strides": window.stride[-2:],
        "dilations": window.dilation[-2:],
        "padding": window.padding[-2:],
    }
    op, kind = "conv_2d", more.get("kind")
    sums = kind is not None and kind.dtype == "int32"  # which leave the array of whole groups only
    if c.shape(weights)[1] == 1 < groups and not sums:
        op, how["depth_multiplier"] = "depthwise_conv_2d", filter_[0] // groups
    made = c.node(op, [image, weights, bias], **how, **more)
    if len(shape) == 4:
        return made
    if len(shape) == 3:
        return c.reshaped(made, _as_row(c.shape(made)))
    apart = c.reshaped(made, (shape[0], c.shape(made)[0] // shape[0], *c.shape(made)[1:]))
    return c.transposed(apart, (0, 2, 1, 3, 4))


def _as_image(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:2], 1, *shape[2:])


def _as_row(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:2], *shape[3:])


def _by_taps(c: Conversion, image: int, weights: int, window: Window) -> tuple[int, int]:
    """[N, C, D, H, W] and its filter as images [N * positions, C * taps, H, W] and a filter of these."""
    shape, filter_ = c.shape(image), c.shape(weights)
    kind = c.like(image)
    borders = (NO_BORDER, NO_BORDER, window.padding[0], NO_BORDER, NO_BORDER)
    if window.padding[0] != NO_BORDER:
        [image] = c.nodes("pad", [image], [kind], paddings=borders)
    count = window.positions(shape[2:])[0]
    taps: list[int] = []
    for tap in range(filter_[2]):
        how: dict[str, Any] = {"begin": (0, 0, tap * window.dilation[0], 0, 0)}
        how |= {"size": (*shape[:2], count, *shape[3:]), "strides": (1, 1, window.stride[0], 1, 1)}
        taps += c.nodes("strided_slice", [image], [kind], **how)
    [stacked] = c.nodes("pack", taps, [kind], axis=2)  # [N, C, taps, D, H, W]
    turned = c.transposed(stacked, (0, 3, 1, 2, 4, 5))
    image = c.reshaped(turned, (shape[0] * count, shape[1] * filter_[2], *shape[3:]))
    return image, c.reshaped(weights, (filter_[0], filter_[1] * filter_[2], *filter_[3:]))


def _transposed(c: Conversion) -> Sequence[int]:
    image, weights, bias = c.tensor("X"), c.tensor("W"), c.optional("B")
    shape, filter_ = c.shape(image), c.shape(weights)
    c.require(
        3 <= len(shape) == len(filter_) <= 4 and 0 not in filter_,
        f"X {list(shape)} and W {list(filter_)} are not of one rank, 3 or 4: npusim has transposed convolutions along "
        "one or two axes",
    )
    groups = int(c.attribute("group", 1))
    c.require(
        groups > 0 and filter_[0] == shape[1] and shape[1] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups",
    )
    said = c.attribute("kernel_shape")
    c.require(
        said is None or list(said) == list(filter_[2:]), f"kernel_shape {said} is not that of {list(filter_)}"
    )
    extents, window = _unwound(c, shape[2:], filter_[2:])
    if len(shape) == 3:
        image, weights = (c.reshaped(each, _as_image(c.shape(each))) for each in (image, weights))
        extents, window = [1, *extents], window.after(Window((1,), (1,), (1,), (NO_BORDER,), (NO_BORDER,)))
    made = c.node(
        "transpose_conv",
        [image, filters_by_group(c, weights, groups), bias],
        size=tuple(extents),
        strides=window.stride,
        dilations=window.dilation,
        padding=window.padding,
    )
    return [c.reshaped(made, _as_row(c.shape(made))) if len(shape) == 3 else made]


def _unwound(c: Conversion, shape: Sequence[int], size: Sequence[int]) -> tuple[list[int], Window]:
    """The extents of the output, and the windows that lead back from it."""
    rank = len(shape)
    stride, dilation = steps(c, "strides", rank), steps(c, "dilations", rank)
    more = [int(number) for number in c.attribute("output_padding") or (0,) * rank]
    said = [int(number) for number in c.attribute("output_shape") or ()]
    c.require(len(more) == rank and min(more) >= 0, f"output_padding {more} is not {rank} numbers, 0 or more")
    if len(said) == rank + 2:
        said = said[2:]
    c.require(len(said) in (0, rank), f"output_shape {said} is not {rank} numbers")
    automatic = c.attribute("auto_pad", "NOTSET")
    pads = paddings(c, shape, size, stride, dilation) if automatic in ("NOTSET", "", "VALID") else ()
    extents, padding = [], []
    for axis in range(rank):
        most = (shape[axis] - 1) * stride[axis] + (size[axis] - 1) * dilation[axis] + 1 + more[axis]
        if said:
            extent, over = said[axis], most - said[axis]
        elif pads:
            extent, over = most - sum(pads[axis]), sum(pads[axis])
        else:
            extent, over = shape[axis] * stride[axis], most - shape[axis] * stride[axis]
        c.require(extent > 0, f"the output would have {extent} elements along axis {axis + 2}")
        before = max(over, 0) // 2 if automatic == "SAME_UPPER" else max(over, 0) - max(over, 0) // 2
        border = pads[axis] if pads and not said else (before, max(over, 0) - before)
        extents.append(extent)
        padding.append(border)
    c.small([*shape[:1], *extents])
    return extents, Window(tuple(size), stride, dilation, tuple(padding), tuple(padding))


_MOVES = ("reshape", "transpose", "pad", "pack", "strided_slice")


def _deformable(c: Conversion) -> Sequence[int]:
    """Taps are moved by offsets and weighted by a mask, which may be left out."""
    x, weights, offsets = c.real("X"), c.real("W"), c.real("offset")
    shape, filter_ = c.shape(x), c.shape(weights)
    c.require(len(shape) == len(filter_) == 4, "npusim moves taps in images [N, C, H, W]")
    groups, parts = int(c.attribute("group", 1)), int(c.attribute("offset_group", 1))
    c.require(
        groups > 0 and filter_[1] * groups == shape[1] and filter_[0] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups",
    )
    window = window_of(c, shape[2:], filter_[2:])
    taps, sizes = parts * prod(filter_[2:]), window.positions(shape[2:])
    c.require(parts > 0 and shape[1] % parts == 0, f"{shape[1]} channels are no {parts} offset groups")
    wanted = (shape[0], 2 * taps, *sizes)
    c.require(
        c.shape(offsets) == wanted, f"offset has shape {list(c.shape(offsets))}, must have {list(wanted)}"
    )
    mask = c.real("mask") if c.has("mask") else c.filled((shape[0], taps, *sizes), 1.0, "float32")
    return [
        c.node(
            "deformable_conv_2d",
            [x, offsets, mask, weights, c.real("B") if c.has("B") else None],
            strides=window.stride,
            dilations=window.dilation,
            padding=window.padding,
            parts=parts,
        )
    ]


ROWS: tuple[Row, ...] = (
    Row("Conv", "X W B?", _conv, ("conv_2d", "depthwise_conv_2d", *_MOVES)),
    Row("ConvTranspose", "X W B?", _transposed, ("transpose_conv", "reshape", "transpose")),
    Row("DeformConv", "X W offset B? mask?", _deformable, ("deformable_conv_2d",), groups=False),
)
