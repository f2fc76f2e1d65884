"""Pools: sums, means and maxima of windows along any axes, and where maxima lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from npusim.frontends.images import by_pairs, on_images
from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.frontends.nnef.operations.convolutions import unwound
from npusim.frontends.nnef.operations.row import Row
from npusim.frontends.nnef.operations.windows import LOWEST, NO_BORDER, Window, padded, sized, window_of
from npusim.kernels.graph.builder import unshaped

_REAL = unshaped("float32")

_MOST_TAPS = 1024


def _window(c: CallConversion) -> Window:
    extents = c.shape("input")
    return window_of(c, extents, sized(c, extents))


def _surrounded(c: CallConversion, x: int, window: Window) -> tuple[int, Window]:
    """The input with its border, unless it is to be ignored, and the window that has none then."""
    border = c.value("border")
    if border == "ignore":
        return x, window
    none = (NO_BORDER,) * len(window.size)
    return padded(c, x, window.padding, border), replace(window, padding=none)


def _pooled(c: CallConversion, op: str, x: int, window: Window) -> int:
    """The mean or the maximum of each window: along two axes after two others, which gives the same."""
    x, window = _surrounded(c, x, window)
    if any(size > 1 and step > 1 for size, step in zip(window.size, window.dilation, strict=True)):
        return _by_taps(c, op, x, window)
    pairs = by_pairs(window.axes())
    averages = op == "average_pool_2d"
    if averages and (len(pairs) > 1 or c.builder.type(x).quantization != c.kind().quantization):
        x = c.as_real(x)
    if not pairs:
        return x
    for index, axes in enumerate(pairs):
        own, missing = [0] * (2 - len(axes)), 2 - len(axes)
        how = {
            "filter": (*(1 for _ in own), *(window.size[axis] for axis in axes)),
            "strides": (*(1 for _ in own), *(window.stride[axis] for axis in axes)),
            "padding": (*(NO_BORDER,) * missing, *(window.padding[axis] for axis in axes)),
            "activation": c.activation if index == len(pairs) - 1 else "none",
        }
        x = on_images(c, x, axes, lambda image, how=how: c.moved(op, [image], **how)[0])  # type: ignore[misc]
    return x


def _by_taps(c: CallConversion, op: str, x: int, window: Window) -> int:
    """The same of windows whose taps lie apart: one tap of all windows after the other."""
    x, extents = c.as_real(x), c.shape(x)
    _limit(c, window.size)
    counts = window.positions(extents)
    outside = LOWEST if op == "max_pool_2d" else 0.0
    wide = padded(c, x, window.padding, "constant", outside)
    total: int | None = None
    for tap in product(*map(range, window.size)):
        begin = tuple(place * step for place, step in zip(tap, window.dilation, strict=True))
        [one] = c.moved("strided_slice", [wide], begin=begin, size=tuple(counts), strides=window.stride)
        both = "maximum" if op == "max_pool_2d" else "add"
        total = one if total is None else c.node(both, [total, one], _REAL)
    assert total is not None
    if op != "max_pool_2d":
        total = c.node("div", [total, c.constant(_elements_seen(window, extents))], _REAL)
    return c.node(c.activation, [total], _REAL) if c.activation != "none" else total


def _limit(c: CallConversion, size: Sequence[int]) -> None:
    """Raises DocumentError for a window of more taps than are computed one after the other."""
    c.require(
        prod(size) <= _MOST_TAPS, f"size {list(size)} has more than the {_MOST_TAPS} taps that are computed"
    )


def _elements_seen(
    window: Window, extents: Sequence[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """How many elements of the tensor each window has."""
    seen = np.ones((1,) * len(extents), np.float32)
    for axis, (extent, count) in enumerate(zip(extents, window.positions(extents), strict=True)):
        places = np.arange(count)[:, None] * window.stride[axis] - window.padding[axis][0]
        taps = places + np.arange(window.size[axis]) * window.dilation[axis]
        inside = ((taps >= 0) & (taps < extent)).sum(1).astype(np.float32)
        seen = seen * inside.reshape([-1 if place == axis else 1 for place in range(len(extents))])
    return seen


def _average(c: CallConversion) -> Sequence[int]:
    return [_pooled(c, "average_pool_2d", c.tensor("input"), _window(c))]


def _largest(c: CallConversion) -> Sequence[int]:
    return [_pooled(c, "max_pool_2d", c.tensor("input"), _window(c))]


def _box(c: CallConversion) -> Sequence[int]:
    """Sums are means of all elements of a window, those outside being zero, times their number."""
    x, window = c.tensor("input"), _window(c)
    if c.value("normalize"):
        return [_pooled(c, "average_pool_2d", x, window)]
    x = c.as_real(x)
    if not window.axes():
        return [x]
    if c.value("border") == "ignore":
        x = padded(c, x, window.padding, "constant")
        window = replace(window, padding=(NO_BORDER,) * len(window.size))
    mean = _pooled(c, "average_pool_2d", x, window)
    return [c.node("mul", [mean, c.literal(float(prod(window.size)), mean)])]


def _rms(c: CallConversion) -> Sequence[int]:
    square = c.apply("sqr", c.tensor("input"))
    mean = c.apply("avg_pool", square, **{name: c.value(name) for name in c.call.attributes})
    return [c.node("sqrt", [mean])]


# Positions: in the plane of the two axes of a window, row by row; with a border that is not ignored in the plane that
# has it.


def _plane(c: CallConversion, window: Window, rank: int) -> None:
    """Raises DocumentError for windows along other axes than the last two."""
    fits = rank == 4 and set(window.axes()) <= {2, 3} and set(window.dilation) == {1}
    c.require(fits, "npusim has positions along the last two of four axes, in windows without dilation")


def _with_positions(c: CallConversion) -> Sequence[int]:
    window = _window(c)
    _plane(c, window, len(window.size))
    x, window = _surrounded(c, c.tensor("input"), window)
    how = {"filter": window.size[2:], "strides": window.stride[2:], "padding": window.padding[2:]}
    return c.nodes("max_pool_2d_with_positions", [x], [c.like(x), unshaped("int32")], **how)


def _positions(c: CallConversion) -> Sequence[int]:
    return _with_positions(c)[1:]


def _sample(c: CallConversion) -> Sequence[int]:
    window = _window(c)
    _plane(c, window, len(window.size))
    x, window = _surrounded(c, c.tensor("input"), window)
    shape, index = c.shape(x), c.tensor("index")
    wanted = (*shape[:2], *window.positions(shape)[2:])
    c.require(c.shape(index) == wanted, f"index has shape {list(c.shape(index))}, the windows {list(wanted)}")
    flat = c.reshaped(x, (*shape[:2], prod(shape[2:])))
    places = c.reshaped(index, (*shape[:2], prod(wanted[2:])))
    [chosen] = c.nodes("gather", [flat, places], [c.like(flat)], axis=2, batch_dims=2)
    return [c.reshaped(chosen, wanted)]


def _desample(c: CallConversion) -> Sequence[int]:
    """Each value at its position: a transposed convolution of one channel for each tap that it may lie at."""
    x, index = c.as_real(c.tensor("input")), c.tensor("index")
    shape, said = c.shape(x), c.wholes("output_shape")
    c.require(len(shape) == 4 and c.shape(index) == shape, "input and index are of one shape, of four axes")
    size = sized(c, shape)
    _limit(c, size)
    extents, window = unwound(c, shape, size, said)
    _plane(c, window, 4)
    before = [0, 0] if c.value("border") == "ignore" else [window.padding[2][0], window.padding[3][0]]
    width = extents[3] + (0 if c.value("border") == "ignore" else sum(window.padding[3]))
    taps = []
    for row, column in product(range(size[2]), range(size[3])):
        rows = np.arange(shape[2]) * window.stride[2] - window.padding[2][0] + before[0] + row
        columns = np.arange(shape[3]) * window.stride[3] - window.padding[3][0] + before[1] + column
        place = c.constant((rows[:, None] * width + columns).astype(np.int32)[None, None])
        there = c.node("equal", [index, place], unshaped("bool"))
        taps.append(c.node("select_v2", [there, x, c.literal(0.0, x)], _REAL))
    count = len(taps)
    [stacked] = c.moved("pack", taps, axis=2)
    channels = shape[1] * count
    image = c.reshaped(stacked, (shape[0], channels, *shape[2:]))
    ones = np.zeros((shape[1], count, 1, size[2], size[3]), np.float32)
    for tap, (row, column) in enumerate(product(range(size[2]), range(size[3]))):
        ones[:, tap, 0, row, column] = 1
    filter_ = c.constant(ones.reshape(channels, 1, size[2], size[3]))
    return [
        c.apply(
            "deconv",
            image,
            filter_,
            padding=[*window.padding[2:]],
            stride=[*window.stride[2:]],
            output_shape=[shape[0], shape[1], *extents[2:]],
            groups=shape[1],
        )
    ]


def _debox(c: CallConversion) -> Sequence[int]:
    """A transposed convolution of every channel with ones; `normalize` changes nothing, as in Khronos' runtime."""
    x = c.as_real(c.tensor("input"))
    shape, said = c.shape(x), c.wholes("output_shape")
    size = sized(c, shape)
    extents, window = unwound(c, shape, size, said)
    for axes in by_pairs(window.axes()):

        def spread(image: int, axes: Sequence[int] = axes) -> int:
            channels, missing = c.shape(image)[1], 2 - len(axes)
            ones = c.filled((channels, 1, *(1,) * missing, *(size[axis] for axis in axes)), 1.0)
            return c.apply(
                "deconv",
                image,
                ones,
                padding=[*(NO_BORDER,) * missing, *(window.padding[axis] for axis in axes)],
                stride=[*(1,) * missing, *(window.stride[axis] for axis in axes)],
                dilation=[*(1,) * missing, *(window.dilation[axis] for axis in axes)],
                output_shape=[*c.shape(image)[:2], *(1,) * missing, *(extents[axis] for axis in axes)],
                groups=channels,
            )

        x = on_images(c, x, axes, spread)
    return [x]


_MEAN = ("average_pool_2d", "pad", "mul", "transpose", "reshape")

ROWS: tuple[Row, ...] = (
    Row("avg_pool", _average, ("average_pool_2d", "pad", "transpose", "reshape"), activated=True),
    Row("max_pool", _largest, ("max_pool_2d", "pad", "transpose", "reshape"), activated=True),
    Row("box", _box, _MEAN),
    Row("rms_pool", _rms, ("square", "average_pool_2d", "sqrt")),
    Row("max_pool_with_index", _with_positions, ("max_pool_2d_with_positions",)),
    Row("argmax_pool", _positions, ("max_pool_2d_with_positions",)),
    Row("sample", _sample, ("gather", "reshape")),
    Row("desample", _desample, ("equal", "select_v2", "pack", "transpose_conv")),
    Row("debox", _debox, ("transpose_conv",)),
)
