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
    """A convolution of an image [N, C, H, W] with the attributes of Conv."""
    shape, filter_ = c.shape(image), c.shape(weights)
    c.require(len(shape) == len(filter_) == 4, "npusim has convolutions of images [N, C, H, W]")
    groups = int(c.attribute("group", 1))
    c.require(
        groups > 0 and filter_[1] * groups == shape[1] and filter_[0] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups",
    )
    window = window_of(c, shape[2:], filter_[2:])
    how: dict[str, Any] = {"strides": window.stride, "dilations": window.dilation, "padding": window.padding}
    if filter_[1] == 1 < groups:
        multiplier = filter_[0] // groups
        operands = [image, weights, bias]
        return c.node("depthwise_conv_2d", operands, depth_multiplier=multiplier, **how, **more)
    return c.node("conv_2d", [image, weights, bias], **how, **more)


ROWS: tuple[Row, ...] = (Row("Conv", "X W B?", _conv, ("conv_2d", "depthwise_conv_2d")),)
