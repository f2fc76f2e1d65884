"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from npusim.frontends.forms import convolutions as forms
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row
from npusim.frontends.forms.windows import Window
from npusim.frontends.onnx.operations.windows import paddings, steps, window_of


def _conv(c: NodeConversion) -> Sequence[int]:
    image, weights, bias = c.tensor("X"), c.tensor("W"), c.optional("B")
    return [convolved(c, image, weights, bias)]


def convolved(c: NodeConversion, image: int, weights: int, bias: int | None, **more: Any) -> int:
    """A convolution with the attributes of Conv."""
    groups = int(c.attribute("group", 1))
    forms.check_filter(c, image, weights, groups)
    _check_kernel(c, weights)
    window = window_of(c, c.shape(image)[2:], c.shape(weights)[2:])
    return forms.convolution(c, image, weights, bias, window, groups, **more)


def _check_kernel(c: NodeConversion, weights: int) -> None:
    filter_, said = c.shape(weights), c.attribute("kernel_shape")
    c.require(
        said is None or list(said) == list(filter_[2:]), f"kernel_shape {said} is not that of {list(filter_)}"
    )


def _transposed(c: NodeConversion) -> Sequence[int]:
    image, weights, bias = c.tensor("X"), c.tensor("W"), c.optional("B")
    groups = int(c.attribute("group", 1))
    forms.check_transposed_filter(c, image, weights, groups)
    _check_kernel(c, weights)
    extents, window = _unwound(c, c.shape(image)[2:], c.shape(weights)[2:])
    return [forms.transposed(c, image, weights, bias, window, extents, groups)]


def _unwound(c: NodeConversion, shape: Sequence[int], size: Sequence[int]) -> tuple[list[int], Window]:
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
    return extents, Window(tuple(size), stride, dilation, tuple(padding), tuple(padding))


def _deformable(c: NodeConversion) -> Sequence[int]:
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
    Row("Conv", "X W B?", _conv, forms.OPERATORS),
    Row("ConvTranspose", "X W B?", _transposed, forms.TRANSPOSED),
    Row("DeformConv", "X W offset B? mask?", _deformable, ("deformable_conv_2d",), groups=False),
)
