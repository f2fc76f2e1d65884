"""Pools along one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import Conversion
from npusim.frontends.forms.windows import NO_BORDER, Window
from npusim.frontends.images import by_pairs, on_images
from npusim.isa.base.tensor import Array

MOVES = ("pad", "transpose", "reshape", "strided_slice")
"""The operators that move elements before and behind pools."""

_MOST_TAPS = 1024

LOWEST = -3.4028234663852886e38
"""Of float32."""


def pooled(
    c: Conversion,
    op: str,
    x: int,
    window: Window,
    *,
    counted: bool = False,
    by_columns: bool = False,
    **more: Any,
) -> int:
    """The mean or the maximum of each window: along the last two axes, then along those before them.

    Means of codes along three axes are not means of means: these would be rounded twice.

    counted:    the padding is a part of averages, as far as `window.said` has it.
    by_columns: averages add up each column of a window first, then the columns.
    """
    apart = any(size > 1 and far > 1 for size, far in zip(window.size, window.dilation, strict=True))
    averages = op == "average_pool_2d"
    if apart or (averages and len(window.size) > 2 and c.builder.type(x).quantization is not None):
        x = c.as_real(x)
        if not averages:
            return _largest_by_taps(c, x, window)
        sums = sums_by_taps(c, x, window, by_columns=by_columns)
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
        if averages and c.builder.type(x).quantization and by_columns:
            how["by_columns"] = True
        last = axes is pairs[-1]
        if last:
            how |= more

        def pool(image: int, how: dict[str, Any] = how, last: bool = last) -> int:
            return c.node(op, [image], None if last else c.like(image), **how)

        x = on_images(c, x, axes, pool)
    return x


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
