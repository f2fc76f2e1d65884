"""Pools along any number of axes, two at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.axes import by_pairs, on_images
from npusim.frontends.forms.conversion import Conversion
from npusim.frontends.forms.windows import NO_BORDER, Window
from npusim.isa.base.tensor import Array, TensorType

MOVES = "pad transpose reshape strided_slice"
"""The operators that move elements before and behind pools."""

_MOST_TAPS = 1024
"""Taps of a window that becomes one node per tap."""

LOWEST = -3.4028234663852886e38
"""The lowest finite float32."""


def pooled(
    c: Conversion,
    op: str,
    x: int,
    window: Window,
    axes: Sequence[int] = (),
    *,
    kind: TensorType | None = None,
    counted: bool = False,
    by_columns: bool = False,
    **more: Any,
) -> int:
    """Add a pool and return its result, the mean or the maximum of each window.

    It goes along the last two axes first, then along those before them. Means of quantized values along three axes are
    computed in float32: means of rounded means would be rounded twice.

    op:         "average_pool_2d" or "max_pool_2d".
    axes:       those that the window slides along; all behind the first two if not stated.
    kind:       the type of the result, if it is not that of the operation's result.
    counted:    whether padding is a part of averages, as far as `window.counted_padding` contains it.
    by_columns: whether averages add up each column of a window first, then the columns.
    more:       parameters of the last node, like its activation.
    """
    activation = more.get("activation", "none")
    axes = axes or range(2, 2 + len(window.size))
    averages = op == "average_pool_2d"
    if window.dilated or (averages and len(axes) > 2 and c.builder.type(x).quantization is not None):
        x = c.as_real(x)
        if not averages:
            return _activated(c, _largest_by_taps(c, x, window, axes, kind), kind, activation)
        sums = sums_by_taps(c, x, window, axes, by_columns=by_columns, always=kind is None)
        seen = elements_seen(window, c.shape(x), axes, counted)
        if kind is not None:
            seen = np.broadcast_to(seen, c.shape(sums))
        mean = c.node("div", [sums, c.constant(seen.astype(c.builder.type(x).numpy_dtype))], kind)
        return _activated(c, mean, kind, activation)
    pairs = by_pairs(range(len(axes)))
    for places in pairs:
        missing = 2 - len(places)
        own, borders = (1,) * missing, (NO_BORDER,) * missing
        parameters: dict[str, Any] = {
            "filter": (*own, *(window.size[place] for place in places)),
            "strides": (*own, *(window.stride[place] for place in places)),
            "padding": (*borders, *(window.padding[place] for place in places)),
        }
        if counted:
            parameters["counted"] = (*borders, *(_counted(window, place) for place in places))
        if averages and c.builder.type(x).quantization and by_columns:
            parameters["by_columns"] = True
        last = places is pairs[-1]
        if last:
            parameters |= more

        def pool(image: int, parameters: dict[str, Any] = parameters, last: bool = last) -> int:
            return c.node(op, [image], kind if last else c.like(image), **parameters)

        x = on_images(c, x, [axes[place] for place in places], pool)
    return x


def in_bins(op: str, image: Sequence[int], bins: Sequence[int]) -> tuple[str, dict[str, Any]]:
    """Return the operator and parameters of a pool into bins: a plain one if equal windows cover the image exactly."""
    if any(pixels % count for pixels, count in zip(image, bins, strict=True)):
        return f"adaptive_{op}", {"size": tuple(bins)}
    size = tuple([pixels // count for pixels, count in zip(image, bins, strict=True)])
    return op, {"filter": size, "strides": size}


def _activated(c: Conversion, x: int, kind: TensorType | None, activation: str) -> int:
    return x if activation == "none" else c.node(activation, [x], kind)


def _counted(window: Window, axis: int) -> tuple[int, int]:
    """Return how much of the padding of an axis counts in averages."""
    before, behind = zip(window.counted_padding[axis], window.padding[axis], strict=True)
    return min(before), min(behind)


def sums_by_taps(
    c: Conversion,
    x: int,
    window: Window,
    axes: Sequence[int] = (),
    *,
    by_columns: bool = False,
    always: bool = True,
) -> int:
    """Return the float32 sums of windows, added one tap after the other.

    Taps are added row by row; by columns, each column is summed first, then the columns.

    always: as in `_taps`.
    """
    taps = _taps(c, x, window, axes or range(2, 2 + len(window.size)), 0, always)
    if by_columns:
        across, taps = window.size[-1], list(taps)
        taps = [_summed(c, taps[column::across]) for column in range(across)]
    return _summed(c, taps)


def _summed(c: Conversion, terms: Iterable[int]) -> int:
    return reduce(lambda total, term: c.step("add", [total, term]), terms)


def _largest_by_taps(
    c: Conversion, x: int, window: Window, axes: Sequence[int], kind: TensorType | None
) -> int:
    own = c.builder.type(x)
    taps = _taps(c, x, window, axes, LOWEST if own.real else own.element.limits[0], kind is None)
    largest = reduce(lambda most, tap: c.step("maximum", [most, tap]), taps)
    return c.node("reshape", [largest], shape=c.shape(largest)) if kind is None else largest


def _taps(
    c: Conversion, x: int, window: Window, axes: Sequence[int], around: float, always: bool
) -> Iterable[int]:
    """Return what each tap sees in all windows, row by row. The tensor is padded with the number `around`.

    always: whether to pad even without a border, and to add the nodes of all taps before the first is used.
    """
    limit_taps(c, window.size)
    shape = c.shape(x)

    def whole(along: Sequence[Any], other: Sequence[Any]) -> tuple[Any, ...]:
        """Return numbers for all axes: those of the window's axes, and others."""
        numbers = dict(zip(axes, along, strict=True))
        return tuple([numbers.get(axis, number) for axis, number in enumerate(other)])

    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    borders = whole(window.padding, (NO_BORDER,) * len(shape))
    wide = c.step("pad", [x], paddings=borders, pad_value=around) if always or any(map(any, borders)) else x
    size = c.small(whole(window.positions([shape[axis] for axis in axes]), shape))
    strides = whole(window.stride, ones)
    begins = (
        whole([place * step for place, step in zip(tap, window.dilation, strict=True)], zeros)
        for tap in product(*map(range, window.size))
    )
    taps = (c.step("strided_slice", [wide], begin=begin, size=size, strides=strides) for begin in begins)
    return list(taps) if always else taps


def limit_taps(c: Conversion, size: Sequence[int]) -> None:
    """Raise the front end's error for a window of more taps than are computed one after the other."""
    c.require(prod(size) <= _MOST_TAPS, f"the window {list(size)} has more than {_MOST_TAPS} taps")


def elements_seen(
    window: Window, shape: Sequence[int], axes: Sequence[int] = (), counted: bool = False
) -> Array:
    """Return how many elements each window has, those of the tensor and of padding that counts.

    The result has as many axes as the shape, of extent 1 unless the window slides along them.
    """
    axes = axes or range(2, len(shape))
    extents, seen = [shape[axis] for axis in axes], np.ones((1,) * len(shape))
    for place, (extent, count) in enumerate(zip(extents, window.positions(extents), strict=True)):
        before, behind = _counted(window, place) if counted else NO_BORDER
        begins = np.arange(count) * window.stride[place] - window.padding[place][0]
        first = np.maximum(-((begins + before) // window.dilation[place]), 0)
        last = np.minimum((extent + behind - 1 - begins) // window.dilation[place], window.size[place] - 1)
        inside = np.maximum(last - first + 1, 0)
        seen = seen * inside.reshape([-1 if axis == axes[place] else 1 for axis in range(len(shape))])
    return seen
