"""NNAdapter operations with windows over images [N, C, H, W]: convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.forms import convolutions as forms
from npusim.frontends.forms.pools import in_bins, pooled
from npusim.frontends.forms.windows import NO_BORDER, Window, fitted, rounded_up, same, unwound
from npusim.frontends.nnadapter.nnadapter_codes import AutoPad, OperationType
from npusim.frontends.nnadapter.operation_conversion import Conversion, Row
from npusim.kernels.operator.parameters import Border

_T = OperationType

Pair = tuple[int, int]

_ONES = (1, 1)


def pair(c: Conversion, name: str, least: int = 1) -> Pair:
    """Return an argument that holds two numbers, of height and width."""
    numbers = c.wholes(name)
    fits = len(numbers) == 2 and min(numbers) >= least
    c.require(fits, f"{name} is {numbers}, must be of height and width, each {least} or more")
    return numbers[0], numbers[1]


def image_size(c: Conversion, name: str = "input") -> Pair:
    """Return height and width of an image [N, C, H, W]."""
    shape = c.shape(name)
    c.require(len(shape) == 4, f"{name} has shape {list(shape)}, must be [N, C, H, W]")
    return shape[2], shape[3]


def _pads(c: Conversion) -> tuple[Border, Border]:
    """Return the argument `pads` (top, bottom, left, right) by axis; zeros if it is omitted."""
    numbers = c.wholes("pads") if c.has("pads") else [0] * 4
    fits = len(numbers) == 4 and min(numbers) >= 0
    c.require(fits, f"pads is {numbers}, must be top, bottom, left, right, each 0 or more")
    top, bottom, left, right = numbers
    return (top, bottom), (left, right)


def window_of(c: Conversion, size: Pair) -> Window:
    """Return the window of an operation. Automatic padding assumes a dilation of 1, so dilations are ignored then."""
    image = image_size(c)
    auto_pad = c.code("auto_pad", AutoPad) if c.has("auto_pad") else AutoPad.AUTO_PAD_NONE
    stride = pair(c, "strides")
    dilation = pair(c, "dilations") if c.has("dilations") else _ONES
    padding: tuple[Border, ...]
    if auto_pad is AutoPad.AUTO_PAD_SAME:
        dilation = _ONES
        padding = same(image, size, stride, dilation)
    else:
        padding = (NO_BORDER, NO_BORDER) if auto_pad is AutoPad.AUTO_PAD_VALID else _pads(c)
    return Window(size, stride, dilation, padding, padding)


# Convolutions


def _kernel(c: Conversion) -> Pair:
    """Return height and width of the filter."""
    _, _, height, width = c.shape("filter")
    return height, width


def _filter_window(c: Conversion) -> tuple[Window, int]:
    """Return the window of a convolution that fits into the image, and the number of groups."""
    image, groups = image_size(c), c.whole("group")
    forms.check_filter(c, c.shape("input"), c.shape("filter"), groups)
    return fitted(c, image, window_of(c, _kernel(c))), groups


def _conv_2d(c: Conversion) -> int:
    window, groups = _filter_window(c)
    operands = c.tensor("input"), c.tensor("filter"), c.bias()
    return forms.convolution(c, *operands, window, groups, activation=c.activation)


def _deformable(c: Conversion) -> int:
    window, _ = _filter_window(c)
    operands = [c.tensor(name) for name in ("input", "offset", "mask", "filter")]
    return c.node(
        "deformable_conv_2d",
        [*operands, c.bias()],
        activation=c.activation,
        parts=c.whole("deformable_group"),
        **window.steps,
    )


def _transposed(c: Conversion) -> int:
    image_size(c)
    group = c.whole("group")
    forms.check_transposed_filter(c, c.shape("input"), c.shape("filter"), group)
    window = window_of(c, _kernel(c))
    size = _transposed_size(c, window)
    operands = c.tensor("input"), c.tensor("filter"), c.bias()
    return forms.transposed(c, *operands, window, size, group, activation=c.activation)


def _transposed_size(c: Conversion, window: Window) -> Sequence[int]:
    """Return height and width of the output of a transposed convolution."""
    extents = c.wholes("output_shape")
    more = c.wholes("output_padding") or [0, 0]
    c.require(len(extents) in (0, 2), f"output_shape is {extents}, must be height and width")
    c.require(len(more) == 2 and min(more) >= 0, f"output_padding is {more}, must be of height and width")
    (height, width), _ = unwound(image_size(c), window, extents=extents, more=more)
    c.require(min(height, width) > 0, f"the output would be {height} high and {width} wide")
    return height, width


# Pools


def _pool_window(c: Conversion) -> Window:
    """Return the window of a pool; one that covers the whole image ignores strides and padding."""
    image, size = image_size(c), pair(c, "kernel_shape")
    if size == image:
        pair(c, "strides")
        borders = (NO_BORDER, NO_BORDER)
        return Window(size, _ONES, _ONES, borders, borders)
    window = window_of(c, size)
    return rounded_up(image, window, within=False) if c.flag("ceil_mode") else window


def _average_pool(c: Conversion) -> int:
    window, counted = _pool_window(c), c.flag("count_include_pad")
    return pooled(c, "average_pool_2d", c.tensor("input"), window, counted=counted, activation=c.activation)


def _max_pool(c: Conversion) -> Sequence[int]:
    return _largest(c, "max_pool_2d", {**_pool_window(c).pool, "activation": c.activation})


def _adaptive_average_pool(c: Conversion) -> int:
    op, bins = _bins(c, "average_pool_2d")
    return c.node(op, [c.tensor("input")], **bins)


def _adaptive_max_pool(c: Conversion) -> Sequence[int]:
    return _largest(c, *_bins(c, "max_pool_2d"))


def _bins(c: Conversion, pool: str) -> tuple[str, dict[str, Any]]:
    return in_bins(pool, image_size(c), pair(c, "output_shape"))


def _largest(c: Conversion, op: str, parameters: dict[str, Any]) -> Sequence[int]:
    """Add a maximum pool, with the positions of the maxima if the operation has an output for them."""
    image = c.tensor("input")
    c.require(
        c.flag("return_indices") or not c.has("indices"),
        "there is an output for indices, and return_indices is false",
    )
    return c.nodes(f"{op}_with_positions" if c.has("indices") else op, [image], c.results(), **parameters)


_FILTER = "auto_pad:i=0 pads:I?=(0,0,0,0) strides:I=(1,1) group:i=1 dilations:I=(1,1)"
_POOL = "auto_pad:i=0 pads:I?=(0,0,0,0) kernel_shape:I strides:I=(1,1) ceil_mode:b=False"
_INDICES = "return_indices:b=False return_indices_dtype:i=5"

ROWS: tuple[Row, ...] = (
    Row(_T.CONV_2D, f"input filter bias? {_FILTER} fuse_code:i=0", _conv_2d, "conv_2d depthwise_conv_2d"),
    Row(
        _T.CONV_2D_TRANSPOSE,
        f"input filter bias? {_FILTER} output_padding:I? output_shape:I? fuse_code:i=0",
        _transposed,
        "transpose_conv",
    ),
    Row(
        _T.DEFORMABLE_CONV_2D,
        "input offset mask filter bias? pads:I?=(0,0,0,0) strides:I=(1,1) group:i=1 deformable_group:i=1"
        " dilations:I=(1,1) fuse_code:i=0",
        _deformable,
        "deformable_conv_2d",
    ),
    Row(
        _T.AVERAGE_POOL_2D,
        f"input {_POOL} count_include_pad:b=False fuse_code:i=0",
        _average_pool,
        "average_pool_2d",
    ),
    Row(
        _T.MAX_POOL_2D,
        f"input {_POOL} {_INDICES} fuse_code:i=0 > output=input indices?(return_indices)@return_indices_dtype",
        _max_pool,
        "max_pool_2d max_pool_2d_with_positions quantize",
    ),
    Row(
        _T.ADAPTIVE_AVERAGE_POOL_2D,
        "input output_shape:I",
        _adaptive_average_pool,
        "adaptive_average_pool_2d average_pool_2d",
    ),
    Row(
        _T.ADAPTIVE_MAX_POOL_2D,
        f"input output_shape:I {_INDICES} > output=input indices?(return_indices)@return_indices_dtype",
        _adaptive_max_pool,
        "adaptive_max_pool_2d max_pool_2d adaptive_max_pool_2d_with_positions max_pool_2d_with_positions quantize",
    ),
)
