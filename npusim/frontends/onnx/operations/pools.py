"""Pools along one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.images import by_pairs, on_images
from npusim.frontends.onnx.operations.conversion import MOST_CONSTANT, Conversion
from npusim.frontends.onnx.operations.row import Row
from npusim.frontends.onnx.operations.windows import NO_BORDER, Window, window_of
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.builder import unshaped

_MOST_TAPS = 1024

LOWEST = -3.4028234663852886e38
"""Of float32."""


def _window(c: Conversion) -> Window:
    shape, size = c.shape("X"), [int(number) for number in c.attribute("kernel_shape", ())]
    c.require(3 <= len(shape) <= 5, f"the input has shape {list(shape)}; npusim has pools along 1 to 3 axes")
    c.require(
        len(size) == len(shape) - 2,
        f"kernel_shape {size} is not one number for each of {len(shape) - 2} axes",
    )
    return window_of(c, shape[2:], size, ceil=c.flag("ceil_mode"))


def _pooled(c: Conversion, op: str, x: int, window: Window, *, counted: bool = False) -> int:
    """The mean or the maximum of each window: along the last two axes, then along those before them.

    Means of codes along three axes are not means of means: these would be rounded twice.
    """
    apart = any(size > 1 and far > 1 for size, far in zip(window.size, window.dilation, strict=True))
    averages = op == "average_pool_2d"
    if apart or (averages and len(window.size) > 2 and c.builder.type(x).quantization is not None):
        x = c.as_real(x)
        if not averages:
            return _largest_by_taps(c, x, window)
        sums = sums_by_taps(c, x, window, by_columns=_by_columns(c, window))
        seen = elements_seen(window, c.shape(x)[2:], counted)
        return c.node("div", [sums, c.constant(seen.astype(c.builder.type(x).numpy_dtype))])
    pairs = by_pairs(range(2, 2 + len(window.size)))
    for axes in pairs:
        own = (1,) * (2 - len(axes))
        places = [axis - 2 for axis in axes]
        borders = (NO_BORDER,) * len(own)
        how: dict[str, Any] = {
            "filter": (*own, *(window.size[place] for place in places)),
            "strides": (*own, *(window.stride[place] for place in places)),
            "padding": (*borders, *(window.padding[place] for place in places)),
        }
        if counted:
            how["counted"] = (*borders, *(_counted(window, place) for place in places))
        if averages and c.builder.type(x).quantization and _by_columns(c, window):
            how["by_columns"] = True
        last = axes is pairs[-1]

        def pool(image: int, how: dict[str, Any] = how, last: bool = last) -> int:
            return c.node(op, [image], None if last else c.like(image), **how)

        x = on_images(c, x, axes, pool)
    return x


def _by_columns(c: Conversion, window: Window) -> bool:
    """Whether ONNX Runtime adds the columns of a window up first: before version 19, with small steps."""
    return c.opset < 19 and window.stride[-1] <= 2


def _counted(window: Window, axis: int) -> tuple[int, int]:
    """How much of the border counts: what the file says of it."""
    before, behind = zip(window.said[axis], window.padding[axis], strict=True)
    return min(before), min(behind)


def sums_by_taps(c: Conversion, x: int, window: Window, *, by_columns: bool = False) -> int:
    """The float32 sums of real numbers in windows, one tap of all windows after the other: row by row, or each column
    and then the columns.
    """
    taps = _taps(c, x, window, 0)
    if by_columns:
        across = window.size[-1]
        taps = [_summed(c, taps[column::across]) for column in range(across)]
    return _summed(c, taps)


def _summed(c: Conversion, terms: Sequence[int]) -> int:
    return reduce(lambda total, term: c.step("add", [total, term]), terms)


def _largest_by_taps(c: Conversion, x: int, window: Window) -> int:
    kind = c.builder.type(x)
    taps = _taps(c, x, window, LOWEST if kind.real else kind.element.limits[0])
    largest = reduce(lambda most, tap: c.step("maximum", [most, tap]), taps)
    return c.node("reshape", [largest], shape=c.shape(largest))


def _taps(c: Conversion, x: int, window: Window, around: float) -> list[int]:
    """What each tap sees in all windows, row by row; `around` is what lies around the image."""
    c.require(
        prod(window.size) <= _MOST_TAPS, f"kernel_shape {list(window.size)} has more than {_MOST_TAPS} taps"
    )
    borders = (NO_BORDER, NO_BORDER, *window.padding)
    wide = c.step("pad", [x], paddings=borders, pad_value=around)
    size = c.small((*c.shape(x)[:2], *window.positions(c.shape(x)[2:])))
    strides = (1, 1, *window.stride)
    begins = (
        (0, 0, *(place * far for place, far in zip(tap, window.dilation, strict=True)))
        for tap in product(*map(range, window.size))
    )
    return [c.step("strided_slice", [wide], begin=begin, size=size, strides=strides) for begin in begins]


def elements_seen(window: Window, extents: Sequence[int], counted: bool) -> Array:
    """How many elements each window has, of the image and of what counts around it: [1, 1, ...]."""
    seen = np.ones((1, 1, *(1 for _ in extents)))
    for axis, (extent, count) in enumerate(zip(extents, window.positions(extents), strict=True)):
        before, behind = _counted(window, axis) if counted else NO_BORDER
        places = np.arange(count) * window.stride[axis] - window.padding[axis][0]
        first = np.maximum(-((places + before) // window.dilation[axis]), 0)
        last = np.minimum((extent + behind - 1 - places) // window.dilation[axis], window.size[axis] - 1)
        inside = np.maximum(last - first + 1, 0)
        seen = seen * inside.reshape([-1 if place == axis + 2 else 1 for place in range(seen.ndim)])
    return seen


def _average(c: Conversion) -> Sequence[int]:
    window = _window(c)
    counted = c.flag("count_include_pad")
    return [_pooled(c, "average_pool_2d", c.tensor("X"), window, counted=counted)]


def _largest(c: Conversion) -> Sequence[int]:
    window = _window(c)
    if len(c.outputs) > 1 and c.outputs[1]:
        return _with_indices(c, window)
    return [_pooled(c, "max_pool_2d", c.tensor("X"), window)]


def _with_indices(c: Conversion, window: Window) -> Sequence[int]:
    """Positions count through the whole tensor, so those in a plane get the place where it begins."""
    x, shape = c.real("X"), c.shape("X")
    c.require(len(shape) == 4 and set(window.dilation) == {1}, "npusim has Indices of pools of [N, C, H, W]")
    c.require(not c.flag("storage_order"), "npusim has Indices row by row, not storage_order 1")
    c.small(shape[:2], MOST_CONSTANT)
    how = {"filter": window.size, "strides": window.stride, "padding": window.padding}
    kinds = [c.like(x), unshaped("int64")]
    largest, positions = c.nodes("max_pool_2d_with_positions", [x], kinds, **how)
    begin = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(*shape[:2], 1, 1) * (shape[2] * shape[3])
    return [largest, c.step("add", [positions, c.constant(begin)])]


def _norm(c: Conversion) -> Sequence[int]:
    """The p-th root of sums of p-th powers, what lies around the image being 0: means, times their number."""
    x, window, p = c.real("X"), _window(c), int(c.attribute("p", 2))
    c.require(p > 0, f"p is {p}, must be 1 or more")
    around = (NO_BORDER, NO_BORDER, *window.padding)
    if any(border != NO_BORDER for border in around):
        x = c.step("pad", [x], paddings=around)
    window = window._replace(padding=(NO_BORDER,) * len(window.size), said=(NO_BORDER,) * len(window.size))
    powers = _power(c, x, p)
    means = _pooled(c, "average_pool_2d", powers, window)
    return [_root(c, c.step("mul", [means, c.scalar(prod(window.size), means)]), p)]


def _power(c: Conversion, x: int, p: int) -> int:
    if p == 2:
        return c.step("square", [x])
    size = c.step("abs", [x])
    return size if p == 1 else c.step("pow", [size, c.scalar(p, size)])


def _root(c: Conversion, sums: int, p: int) -> int:
    if p == 1:
        return sums
    return c.node("sqrt", [sums]) if p == 2 else c.node("pow", [sums, c.scalar(1 / p, sums)])


def _space(c: Conversion) -> tuple[int, ...]:
    rank = len(c.shape("X"))
    c.require(rank > 2, f"the input has shape {list(c.shape('X'))}, must have 3 axes or more")
    return tuple(range(2, rank))


def _whole(op: str):  # type: ignore[no-untyped-def]
    def convert(c: Conversion) -> Sequence[int]:
        return [c.node(op, [c.tensor("X")], axes=_space(c), keep_dims=True)]

    return convert


def _whole_norm(c: Conversion) -> Sequence[int]:
    x, p, axes = c.real("X"), int(c.attribute("p", 2)), _space(c)
    c.require(p > 0, f"p is {p}, must be 1 or more")
    return [_root(c, c.step("sum", [_power(c, x, p)], axes=axes, keep_dims=True), p)]


_POWERS = ("square", "abs", "pow", "sqrt")
_MOVES = ("pad", "transpose", "reshape", "strided_slice")

ROWS: tuple[Row, ...] = (
    Row("AveragePool", "X", _average, ("average_pool_2d", "add", "div", *_MOVES)),
    Row("MaxPool", "X", _largest, ("max_pool_2d", "max_pool_2d_with_positions", "maximum", "add", *_MOVES)),
    Row("LpPool", "X", _norm, ("average_pool_2d", "mul", *_POWERS, *_MOVES)),
    Row("GlobalAveragePool", "X", _whole("mean"), ("mean",)),
    Row("GlobalMaxPool", "X", _whole("reduce_max"), ("reduce_max",)),
    Row("GlobalLpPool", "X", _whole_norm, ("sum", *_POWERS)),
)
