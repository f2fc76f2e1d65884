"""Convolutions and pools of ONNX: their attributes, and the forms that add their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms import convolutions as forms
from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.forms.pools import MOVES, pooled
from npusim.frontends.forms.windows import NO_BORDER, Window, fitted, positive, rounded_up, same, unwound
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.parameters import Border


def window_of(
    c: NodeConversion, extents: Sequence[int], size: Sequence[int], *, ceil: bool = False
) -> Window:
    """Return the window of a node over these extents. Raises GraphError for impossible attributes.

    ceil: whether a last window that is cut off counts, if it begins within the image or the padding before it.
    """
    rank = len(extents)
    stride, dilation = per_axis(c, "strides", rank), per_axis(c, "dilations", rank)
    padding = paddings(c, extents, size, stride, dilation)
    window = Window(tuple(size), stride, dilation, padding, padding)
    return fitted(c, extents, rounded_up(extents, window) if ceil else window)


def paddings(
    c: NodeConversion,
    extents: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[Border, ...]:
    """Return the padding that the attributes `pads` and `auto_pad` state."""
    rank = len(extents)
    pads = [int(number) for number in c.attribute("pads", ()) or (0,) * (2 * rank)]
    c.require(len(pads) == 2 * rank and min(pads) >= 0, f"pads {pads} are not {2 * rank} numbers, 0 or more")
    automatic = c.attribute("auto_pad", "NOTSET")
    c.require(automatic in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"), f"auto_pad is {automatic!r}")
    if automatic == "VALID":
        return (NO_BORDER,) * rank
    if not automatic.startswith("SAME"):
        return tuple(zip(pads[:rank], pads[rank:], strict=True))
    padding = same(extents, size, stride, dilation)
    return padding if automatic == "SAME_UPPER" else tuple((more, less) for less, more in padding)


def per_axis(c: NodeConversion, name: str, rank: int) -> tuple[int, ...]:
    """Return an attribute with a number of 1 or more for each axis; ones if it is left out."""
    numbers = tuple(int(number) for number in c.attribute(name, ()) or (1,) * rank)
    c.require(
        len(numbers) == rank and min(numbers, default=1) > 0,
        f"{name} {list(numbers)} are not {rank} numbers, 1 or more",
    )
    return numbers


def _conv(c: NodeConversion) -> Sequence[int]:
    image, weights, bias = c.tensor("X"), c.tensor("W"), c.optional("B")
    return [convolved(c, image, weights, bias)]


def convolved(c: NodeConversion, image: int, weights: int, bias: int | None, **more: Any) -> int:
    """Add a convolution with the attributes of Conv."""
    groups = int(c.attribute("group", 1))
    forms.check_filter(c, c.shape(image), c.shape(weights), groups)
    _check_kernel(c, weights)
    window = window_of(c, c.shape(image)[2:], c.shape(weights)[2:])
    return forms.convolution(c, image, weights, bias, window, groups, **more)


def _check_kernel(c: NodeConversion, weights: int) -> None:
    filter_, kernel = c.shape(weights), c.attribute("kernel_shape")
    c.require(
        kernel is None or list(kernel) == list(filter_[2:]),
        f"kernel_shape {kernel} is not that of {list(filter_)}",
    )


def _transposed(c: NodeConversion) -> Sequence[int]:
    image, weights, bias = c.tensor("X"), c.tensor("W"), c.optional("B")
    groups = int(c.attribute("group", 1))
    forms.check_transposed_filter(c, c.shape(image), c.shape(weights), groups)
    _check_kernel(c, weights)
    extents, window = _unwound(c, c.shape(image)[2:], c.shape(weights)[2:])
    positive(c, extents)
    c.small([*c.shape(image)[:1], *extents])
    return [forms.transposed(c, image, weights, bias, window, extents, groups)]


def _unwound(c: NodeConversion, shape: Sequence[int], size: Sequence[int]) -> tuple[list[int], Window]:
    """Return the extents of a transposed convolution's result, and its window."""
    rank = len(shape)
    stride, dilation = per_axis(c, "strides", rank), per_axis(c, "dilations", rank)
    more = [int(number) for number in c.attribute("output_padding") or (0,) * rank]
    output_shape = [int(number) for number in c.attribute("output_shape") or ()]
    c.require(len(more) == rank and min(more) >= 0, f"output_padding {more} is not {rank} numbers, 0 or more")
    if len(output_shape) == rank + 2:
        output_shape = output_shape[2:]
    c.require(len(output_shape) in (0, rank), f"output_shape {output_shape} is not {rank} numbers")
    automatic = c.attribute("auto_pad", "NOTSET")
    explicit = not output_shape and automatic in ("NOTSET", "", "VALID")
    padding = paddings(c, shape, size, stride, dilation) if explicit else ()
    window, less_first = Window(tuple(size), stride, dilation, padding, padding), automatic == "SAME_UPPER"
    return unwound(shape, window, extents=output_shape, more=more, less_first=less_first)


def _deformable(c: NodeConversion) -> Sequence[int]:
    """Add DeformConv: taps are shifted by offsets and weighted by an optional mask."""
    x, weights, offsets = c.real("X"), c.real("W"), c.real("offset")
    shape, filter_ = c.shape(x), c.shape(weights)
    c.require(len(shape) == len(filter_) == 4, "npusim moves taps in images [N, C, H, W]")
    groups, parts = int(c.attribute("group", 1)), int(c.attribute("offset_group", 1))
    forms.check_filter(c, shape, filter_, groups)
    window = window_of(c, shape[2:], filter_[2:])
    taps, sizes = parts * prod(filter_[2:]), window.positions(shape[2:])
    c.require(parts > 0 and shape[1] % parts == 0, f"{shape[1]} channels are no {parts} offset groups")
    wanted = (shape[0], 2 * taps, *sizes)
    c.require(
        c.shape(offsets) == wanted, f"offset has shape {list(c.shape(offsets))}, must have {list(wanted)}"
    )
    mask = c.real("mask") if c.has("mask") else c.filled((shape[0], taps, *sizes), 1.0, "float32")
    operands = [x, offsets, mask, weights, c.real("B") if c.has("B") else None]
    return [c.node("deformable_conv_2d", operands, **window.steps, parts=parts)]


def _window(c: NodeConversion) -> Window:
    shape, size = c.shape("X"), [int(number) for number in c.attribute("kernel_shape", ())]
    c.require(3 <= len(shape) <= 5, f"the input has shape {list(shape)}; npusim has pools along 1 to 3 axes")
    c.require(
        len(size) == len(shape) - 2,
        f"kernel_shape {size} is not one number for each of {len(shape) - 2} axes",
    )
    return window_of(c, shape[2:], size, ceil=c.flag("ceil_mode"))


def _by_columns(c: NodeConversion, window: Window) -> bool:
    """Return whether ONNX Runtime sums the columns of a window first: before version 19, with small strides."""
    return c.opset < 19 and window.stride[-1] <= 2


def _averaged(c: NodeConversion, x: int, window: Window, *, counted: bool = False) -> int:
    by_columns = _by_columns(c, window)
    return pooled(c, "average_pool_2d", x, window, counted=counted, by_columns=by_columns)


def _average(c: NodeConversion) -> Sequence[int]:
    window = _window(c)
    counted = c.flag("count_include_pad")
    return [_averaged(c, c.tensor("X"), window, counted=counted)]


def _largest(c: NodeConversion) -> Sequence[int]:
    window = _window(c)
    if len(c.outputs) > 1 and c.outputs[1]:
        return _with_indices(c, window)
    return [pooled(c, "max_pool_2d", c.tensor("X"), window)]


def _with_indices(c: NodeConversion, window: Window) -> Sequence[int]:
    """Add MaxPool with Indices, which count through the whole tensor: those of a plane, plus where it begins."""
    x, shape = c.real("X"), c.shape("X")
    c.require(len(shape) == 4 and set(window.dilation) == {1}, "npusim has Indices of pools of [N, C, H, W]")
    c.require(not c.flag("storage_order"), "npusim has Indices row by row, not storage_order 1")
    c.small(shape[:2], MOST_CONSTANT)
    kinds = [c.like(x), unshaped("int64")]
    largest, positions = c.nodes("max_pool_2d_with_positions", [x], kinds, **window.pool)
    begin = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(*shape[:2], 1, 1) * (shape[2] * shape[3])
    return [largest, c.step("add", [positions, c.constant(begin)])]


def _norm(c: NodeConversion) -> Sequence[int]:
    """Add LpPool: the p-th root of sums of p-th powers, padded with 0, as means times the size of the window."""
    x, window, p = c.real("X"), _window(c), int(c.attribute("p", 2))
    c.require(p > 0, f"p is {p}, must be 1 or more")
    around = (NO_BORDER, NO_BORDER, *window.padding)
    if any(border != NO_BORDER for border in around):
        x = c.step("pad", [x], paddings=around)
    means = _averaged(c, _power(c, x, p), window.unpadded())
    return [_root(c, c.step("mul", [means, c.scalar(prod(window.size), means)]), p)]


def _power(c: NodeConversion, x: int, p: int) -> int:
    if p == 2:
        return c.step("square", [x])
    size = c.step("abs", [x])
    return size if p == 1 else c.step("pow", [size, c.scalar(p, size)])


def _root(c: NodeConversion, sums: int, p: int) -> int:
    if p == 1:
        return sums
    return c.node("sqrt", [sums]) if p == 2 else c.node("pow", [sums, c.scalar(1 / p, sums)])


def _space(c: NodeConversion) -> tuple[int, ...]:
    rank = len(c.shape("X"))
    c.require(rank > 2, f"the input has shape {list(c.shape('X'))}, must have 3 axes or more")
    return tuple(range(2, rank))


def _whole(op: str):  # type: ignore[no-untyped-def]
    def convert(c: NodeConversion) -> Sequence[int]:
        return [c.node(op, [c.tensor("X")], axes=_space(c), keep_dims=True)]

    return convert


def _whole_norm(c: NodeConversion) -> Sequence[int]:
    x, p, axes = c.real("X"), int(c.attribute("p", 2)), _space(c)
    c.require(p > 0, f"p is {p}, must be 1 or more")
    return [_root(c, c.step("sum", [_power(c, x, p)], axes=axes, keep_dims=True), p)]


_POWERS = "square abs pow sqrt"


ROWS: tuple[Row, ...] = (
    Row("Conv", "X W B?", _conv, forms.OPERATORS),
    Row("ConvTranspose", "X W B?", _transposed, forms.TRANSPOSED),
    Row("DeformConv", "X W offset B? mask?", _deformable, "deformable_conv_2d", groups=False),
    Row("AveragePool", "X", _average, f"average_pool_2d add div {MOVES}"),
    Row("MaxPool", "X", _largest, f"max_pool_2d max_pool_2d_with_positions maximum add {MOVES}"),
    Row("LpPool", "X", _norm, f"average_pool_2d mul {_POWERS} {MOVES}"),
    Row("GlobalAveragePool", "X", _whole("mean"), "mean"),
    Row("GlobalMaxPool", "X", _whole("reduce_max"), "reduce_max"),
    Row("GlobalLpPool", "X", _whole_norm, f"sum {_POWERS}"),
)
