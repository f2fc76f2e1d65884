"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nnadapter.codes import AutoPad, OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.kernels.operator.geometry import same_padding
from npusim.kernels.operator.parameters import NO_BORDERS, Borders


def _pair(c: Conversion, name: str) -> tuple[int, int]:
    """Of height and width."""
    numbers = c.wholes(name)
    c.require(len(numbers) == 2, f"{name} is {numbers}, must be of height and width")
    return numbers[0], numbers[1]


def _borders(
    c: Conversion,
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Borders:
    """((top, bottom), (left, right)) around an image."""
    scheme = c.code("auto_pad", AutoPad)
    if scheme is AutoPad.AUTO_PAD_VALID:
        return NO_BORDERS
    if scheme is AutoPad.AUTO_PAD_SAME:
        rows, columns = (same_padding(*axis) for axis in zip(image, kernel, strides, dilations, strict=True))
        return rows, columns
    pads = c.wholes("pads")
    c.require(len(pads) == 4, f"pads is {pads}, must be top, bottom, left, right")
    top, bottom, left, right = pads
    return (top, bottom), (left, right)


def _conv_2d(c: Conversion) -> Sequence[int]:
    image, filter_ = c.shape("input"), c.shape("filter")
    c.require(len(image) == 4 and len(filter_) == 4, "input and filter must have 4 dimensions")
    strides, dilations = _pair(c, "strides"), _pair(c, "dilations")
    steps = {"strides": strides, "dilations": dilations}
    steps["padding"] = _borders(c, image[2:], filter_[2:], strides, dilations)  # type: ignore[assignment]
    operands = [c.tensor("input"), c.tensor("filter"), c.tensor("bias")]
    if c.whole("group") == image[1] == filter_[0] > 1:
        return c.node("depthwise_conv_2d", operands, activation=c.activation(), depth_multiplier=1, **steps)
    return c.node("conv_2d", operands, activation=c.activation(), **steps)


ROWS: tuple[Row, ...] = (
    Row(
        OperationType.CONV_2D,
        "input filter bias auto_pad:i=0 pads:I?=(0,0,0,0) strides:I=(1,1) group:i=1 dilations:I=(1,1) fuse_code:i=0"
        " > output=input",
        _conv_2d,
        ("conv_2d", "depthwise_conv_2d"),
    ),
)
