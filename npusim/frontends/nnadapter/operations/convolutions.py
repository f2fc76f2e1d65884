"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.images import filters_by_group
from npusim.frontends.nnadapter.codes import AutoPad, OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.frontends.nnadapter.operations.windows import borders, image_size, pads, pair, scheme
from npusim.kernels.operator.geometry import positions
from npusim.kernels.operator.parameters import Borders

_ONES = (1, 1)


def _kernel(c: Conversion) -> tuple[int, int]:
    """Height and width of the filter."""
    shape = c.shape("filter")
    c.require(
        len(shape) == 4 and 0 not in shape, f"filter has shape {list(shape)}, must have 4 sizes above 0"
    )
    return shape[2], shape[3]


def _steps(c: Conversion) -> dict[str, Any]:
    """Padding, strides and dilations; padding that is SAME is for taps side by side, so dilations are 1 then."""
    image, kernel, how = image_size(c), _kernel(c), scheme(c)
    strides, dilations = pair(c, "strides"), pair(c, "dilations")
    if how is AutoPad.AUTO_PAD_SAME:
        dilations = _ONES
    padding = borders(c, image, kernel, strides, how)
    return {"padding": padding, "strides": strides, "dilations": dilations}


def _groups(c: Conversion, channels_of_group: int) -> int:
    """Into how many groups the channels fall, `channels_of_group` being what the filter says of the input's."""
    group, depth, filter_ = c.whole("group"), c.shape("input")[1], c.shape("filter")
    c.require(
        group >= 1 and depth == group * channels_of_group and filter_[0] % group == 0,
        f"group is {group}, must divide the {depth} channels of the input and fit the filter {list(filter_)}",
    )
    return group


def _require_window(c: Conversion, steps: dict[str, Any]) -> None:
    """Raises InvalidParameter where the window does not fit into the padded image once."""
    axes = zip(image_size(c), _kernel(c), steps["strides"], steps["dilations"], steps["padding"], strict=True)
    sizes = [positions(*axis) for axis in axes]
    c.require(min(sizes) > 0, f"the filter does not fit into the padded input: the output would be {sizes}")


def _conv_2d(c: Conversion) -> Sequence[int]:
    steps = _steps(c)
    filters, depth = c.shape("filter")[:2]
    group = _groups(c, depth)
    _require_window(c, steps)
    operands = [c.tensor("input"), c.tensor("filter"), c.bias()]
    if depth == 1 < group:
        multiplier = filters // group
        return c.node(
            "depthwise_conv_2d", operands, activation=c.activation(), depth_multiplier=multiplier, **steps
        )
    return c.node("conv_2d", operands, activation=c.activation(), **steps)


def _deformable(c: Conversion) -> Sequence[int]:
    steps = {"padding": pads(c), "strides": pair(c, "strides"), "dilations": pair(c, "dilations")}
    image_size(c)
    _groups(c, c.shape("filter")[1])
    _require_window(c, steps)
    operands = [c.tensor(name) for name in ("input", "offset", "mask", "filter")]
    parts = c.whole("deformable_group")
    return c.node(
        "deformable_conv_2d", [*operands, c.bias()], activation=c.activation(), parts=parts, **steps
    )


# Transposed


def _transposed(c: Conversion) -> Sequence[int]:
    steps = _steps(c)
    group = c.whole("group")
    depth, filters = c.shape("input")[1], c.shape("filter")
    c.require(
        group >= 1 and depth == filters[0] and depth % group == 0,
        f"group is {group}, must divide the {depth} input channels, with which the filter {list(filters)} begins",
    )
    size = _size(c, steps)
    operands = [c.tensor("input"), filters_by_group(c, c.tensor("filter"), group), c.bias()]
    return c.node("transpose_conv", operands, size=size, activation=c.activation(), **steps)


def _size(c: Conversion, steps: dict[str, Any]) -> tuple[int, int]:
    """Height and width of the output."""
    said = c.wholes("output_shape")
    more = c.wholes("output_padding") or [0, 0]
    c.require(len(said) in (0, 2), f"output_shape is {said}, must be height and width")
    c.require(len(more) == 2 and min(more) >= 0, f"output_padding is {more}, must be of height and width")
    padding: Borders = steps["padding"]
    axes = zip(image_size(c), _kernel(c), steps["strides"], steps["dilations"], padding, more, strict=True)
    height, width = said or (
        (size - 1) * stride - sum(border) + dilation * (kernel - 1) + 1 + extra
        for size, kernel, stride, dilation, border, extra in axes
    )
    c.require(min(height, width) > 0, f"the output would be {height} high and {width} wide")
    return height, width


_WINDOW = "auto_pad:i=0 pads:I?=(0,0,0,0) strides:I=(1,1) group:i=1 dilations:I=(1,1)"

ROWS: tuple[Row, ...] = (
    Row(
        OperationType.CONV_2D,
        f"input filter bias? {_WINDOW} fuse_code:i=0 > output=input",
        _conv_2d,
        ("conv_2d", "depthwise_conv_2d"),
    ),
    Row(
        OperationType.CONV_2D_TRANSPOSE,
        f"input filter bias? {_WINDOW} output_padding:I? output_shape:I? fuse_code:i=0 > output=input",
        _transposed,
        ("transpose_conv",),
    ),
    Row(
        OperationType.DEFORMABLE_CONV_2D,
        "input offset mask filter bias? pads:I?=(0,0,0,0) strides:I=(1,1) group:i=1 deformable_group:i=1"
        " dilations:I=(1,1) fuse_code:i=0 > output=input",
        _deformable,
        ("deformable_conv_2d",),
    ),
)
