"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.frontends.onnx.operations.row import Row
from npusim.frontends.onnx.operations.windows import window_of


def _conv(c: Conversion) -> Sequence[int]:
    image, weights, bias = c.tensor("X"), c.tensor("W"), c.optional("B")
    return [convolved(c, image, weights, bias)]


def convolved(c: Conversion, image: int, weights: int, bias: int | None, **more: Any) -> int:
    """A convolution of an image [N, C, H, W], or of [N, C, W] as one of a row, with the attributes of Conv."""
    shape, filter_ = c.shape(image), c.shape(weights)
    c.require(
        3 <= len(shape) == len(filter_) <= 4, "npusim has convolutions of images [N, C, H, W] and [N, C, W]"
    )
    groups = int(c.attribute("group", 1))
    c.require(
        groups > 0 and filter_[1] * groups == shape[1] and filter_[0] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups",
    )
    window = window_of(c, shape[2:], filter_[2:])
    how: dict[str, Any] = {"strides": window.stride, "dilations": window.dilation, "padding": window.padding}
    row = len(shape) == 3
    if row:
        image, weights = (c.reshaped(each, _as_image(c.shape(each))) for each in (image, weights))
        how = {"strides": (1, *window.stride), "dilations": (1, *window.dilation)}
        how["padding"] = ((0, 0), *window.padding)
    op = "conv_2d"
    if filter_[1] == 1 < groups:
        op, how["depth_multiplier"] = "depthwise_conv_2d", filter_[0] // groups
    made = c.node(op, [image, weights, bias], **how, **more)
    return c.reshaped(made, _as_row(c.shape(made))) if row else made


def _as_image(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:2], 1, *shape[2:])


def _as_row(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:2], *shape[3:])


ROWS: tuple[Row, ...] = (Row("Conv", "X W B?", _conv, ("conv_2d", "depthwise_conv_2d")),)
