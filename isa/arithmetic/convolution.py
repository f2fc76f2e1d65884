"""Exact integer convolution at the speed of the floating-point matrix product.

Padding is never stored with the operands. A position outside the feature map contributes zero. Kernel taps that no
window places inside the feature map are skipped, whatever their distance.

The window is given by `strides`, `dilations` and `pads` (rows above, columns on the left), each (height, width), and
by `output_shape` (rows, columns). Positions below and to the right of the feature map are padding too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npusim.isa.base.tensor import Float64Array, Int32Array, IntArray

FloatArray = NDArray[np.floating[Any]]
Number = TypeVar("Number", np.int32, np.float32, np.float64)
Pair = tuple[int, int]

_EXACT = 1 << 24  # float32 represents every integer up to this magnitude
# Bytes of windows gathered at a time: enough rows for a fast matrix product, few enough to fit a cache.
_GATHERED_BYTES = 1 << 21
_BLOCK_ELEMENTS = 1 << 15  # outputs of a depthwise convolution that are computed at a time
# Depthwise weights repeated along all columns are computed once for all rows up to this many elements.
# Larger ones are repeated again for each block of rows, one tap at a time.
_TILED_ELEMENTS = 1 << 20


class _Window(NamedTuple):
    """The positions that a kernel visits in a feature map; all fields are (height, width) pairs."""

    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pair
    output: Pair

    @property
    def extent(self) -> Pair:
        """Return the rows and columns from the first to the last position visited, padding included."""
        height, width = (
            (out - 1) * stride + (taps - 1) * dilation + 1
            for out, stride, taps, dilation in zip(
                self.output, self.strides, self.kernel, self.dilations, strict=True
            )
        )
        return height, width

    def clipped(self, image: Sequence[int]) -> tuple[_Window, tuple[slice, slice]]:
        """Return the window without the taps that never reach the image, and the slices of the remaining taps.

        image: shape (height, width, ...).

        The extent of the result is at most the image plus twice the distance from the first to the last output. Its
        pads may be negative: the window then begins inside the image.
        """
        axes = [_Axis(*sizes) for sizes in zip(image, *self, strict=False)]
        if all(axis.within_reach for axis in axes):
            return self, _WHOLE
        first, second = (axis.clipped() for axis in axes)
        pairs = [(a, b) for a, b in zip(first[0], second[0], strict=True)]
        return _Window(*pairs), (first[1], second[1])


class _Axis(NamedTuple):
    """One axis of an image, and of a window over it."""

    size: int
    taps: int
    stride: int
    dilation: int
    pad: int
    outputs: int

    @property
    def within_reach(self) -> bool:
        """Return whether every tap is inside the image for some output, and no step is larger than the image."""
        reach = (self.outputs - 1) * self.stride >= self.pad and (
            self.taps - 1
        ) * self.dilation < self.size + self.pad
        return reach and self.stride <= self.size and self.dilation <= self.size

    def clipped(self) -> tuple[tuple[int, int, int, int, int], slice]:
        """Return (taps, stride, dilation, pad, outputs) of the taps that reach the image, and their slice.

        At least one tap remains.
        """
        furthest = (self.outputs - 1) * self.stride - self.pad  # position of tap 0 of the last output
        first = min(max(0, -(furthest // self.dilation)), self.taps - 1)
        last = max(min(self.taps, (self.size - 1 + self.pad) // self.dilation + 1), first + 1)
        pad = self.pad - first * self.dilation
        # A single output has no use for a stride, nor a single tap for a dilation. Both may be of any size, so use 1.
        stride = self.stride if self.outputs > 1 else 1
        dilation = self.dilation if last - first > 1 else 1
        return (last - first, stride, dilation, pad, self.outputs), slice(first, last)


_WHOLE = (slice(None), slice(None))


def convolve(
    ifm: IntArray,
    weights: IntArray,
    ifm_zero: int,
    weight_zero: int,
    *,
    strides: Pair = (1, 1),
    dilations: Pair = (1, 1),
    pads: Pair = (0, 0),
    output_shape: Pair,
) -> Int32Array:
    """Convolve 8-bit quantized values and return int32 accumulators [rows, columns, O].

    Each accumulator is the sum of (ifm - ifm_zero) * (weight - weight_zero) over its window. `ifm` is [h, w, I] with
    any memory strides, `weights` is [O, kernel h, kernel w, I]. Sums wrap to 32 bits as hardware accumulators do.

    The products run in float32. A sum of integers is exact there, in any order, as long as no partial sum can exceed
    2**24. The dot product is therefore cut into pieces that keep this limit even for the largest values, and the
    pieces are added as integers.
    """
    window = _Window((weights.shape[1], weights.shape[2]), strides, dilations, pads, output_shape)
    window, taps = window.clipped(ifm.shape)
    padded = _padded(ifm, ifm_zero, window, np.float32)
    matrix = _shifted(weights[:, *taps], weight_zero, np.float32).reshape(len(weights), -1)
    piece = _EXACT // (_largest(ifm.dtype, ifm_zero) * _largest(weights.dtype, weight_zero))
    accumulators = np.empty((output_shape[0] * output_shape[1], len(weights)), np.int32)
    for pixels, gathered in _gathered(padded, window):
        target = accumulators[pixels]
        target[...] = gathered[:, :piece] @ matrix[:, :piece].T
        for start in range(piece, matrix.shape[1], piece):
            part = slice(start, start + piece)
            target += (gathered[:, part] @ matrix[:, part].T).astype(np.int32)
    return accumulators.reshape(*output_shape, len(weights))


def depthwise_convolve(
    ifm: IntArray,
    weights: IntArray,
    ifm_zero: int,
    weight_zero: int,
    *,
    strides: Pair = (1, 1),
    dilations: Pair = (1, 1),
    pads: Pair = (0, 0),
    output_shape: Pair,
) -> Int32Array:
    """Convolve each channel on its own and return int32 accumulators [rows, columns, C * m].

    Output channel c reads input channel c // m. `ifm` holds 8-bit quantized values [h, w, C] with any memory strides,
    `weights` 8-bit quantized values [kernel h, kernel w, C * m].
    """
    window = _Window((weights.shape[0], weights.shape[1]), strides, dilations, pads, output_shape)
    window, taps = window.clipped(ifm.shape)
    ifm, weights = _repeated(ifm, weights.shape[2]), weights[taps]
    largest = _largest(ifm.dtype, ifm_zero) * _largest(weights.dtype, weight_zero)
    if prod(window.kernel) * largest <= _EXACT and weights.size * window.output[1] <= _TILED_ELEMENTS:
        padded = _padded(ifm, ifm_zero, window, np.float32)
        return _sum_of_small_taps(padded, _shifted(weights, weight_zero, np.float32), window)
    padded_words = _padded(ifm, ifm_zero, window, np.int32)
    return _sum_of_taps(padded_words, _shifted(weights, weight_zero, np.int32), window)


def convolve_float(
    ifm: FloatArray,
    weights: FloatArray,
    *,
    strides: Pair = (1, 1),
    dilations: Pair = (1, 1),
    pads: Pair = (0, 0),
    output_shape: Pair,
) -> Float64Array:
    """Convolve floating-point values and return float64 sums [rows, columns, O].

    `ifm` is [h, w, I] and `weights` is [O, kernel h, kernel w, I]. The products and sums are float64.
    """
    window = _Window((weights.shape[1], weights.shape[2]), strides, dilations, pads, output_shape)
    window, taps = window.clipped(ifm.shape)
    matrix = weights[:, *taps].reshape(len(weights), -1).astype(np.float64)
    sums = np.empty((output_shape[0] * output_shape[1], len(weights)), np.float64)
    for pixels, gathered in _gathered(_padded(ifm, 0, window, np.float64), window):
        np.matmul(gathered, matrix.T, out=sums[pixels])
    return sums.reshape(*output_shape, len(weights))


def depthwise_convolve_float(
    ifm: FloatArray,
    weights: FloatArray,
    *,
    strides: Pair = (1, 1),
    dilations: Pair = (1, 1),
    pads: Pair = (0, 0),
    output_shape: Pair,
) -> Float64Array:
    """Convolve each channel of floating-point values on its own and return float64 sums [rows, columns, C * m].

    Output channel c reads input channel c // m. `ifm` is [h, w, C] and `weights` is [kernel h, kernel w, C * m].
    """
    window = _Window((weights.shape[0], weights.shape[1]), strides, dilations, pads, output_shape)
    window, taps = window.clipped(ifm.shape)
    padded = _padded(_repeated(ifm, weights.shape[2]), 0, window, np.float64)
    return _sum_of_taps(padded, weights[taps].astype(np.float64), window)


@lru_cache(maxsize=1024)
def _largest(dtype: np.dtype[Any], zero: int) -> int:
    """Return the largest magnitude, at least 1, of a value of this integer type minus its zero point."""
    limits = np.iinfo(dtype)
    return max(int(limits.max) - zero, zero - int(limits.min), 1)


def _shifted(codes: IntArray, zero: int, dtype: type[Number]) -> NDArray[Number]:
    """Return quantized values minus their zero point, as a new array of `dtype`."""
    values = codes.astype(dtype)
    if zero:
        values -= dtype(zero)
    return values


def _repeated(ifm: NDArray[Any], channels: int) -> NDArray[Any]:
    """Repeat each channel by the depth multiplier, so that there are `channels` of them."""
    multiplier = channels // ifm.shape[2]
    return ifm if multiplier == 1 else np.repeat(ifm, multiplier, axis=2)


def _padded(ifm: NDArray[Any], zero: int, window: _Window, dtype: type[Number]) -> NDArray[Number]:
    """Return exactly the positions that `window` visits, as `dtype` minus the zero point; padding is 0."""
    height, width = window.extent
    top, left = (max(pad, 0) for pad in window.pads)
    first_row, first_column = (max(-pad, 0) for pad in window.pads)
    rows, columns = max(height - top, 0), max(width - left, 0)
    inside = ifm[first_row : first_row + rows, first_column : first_column + columns]
    if inside.shape[:2] == (height, width):
        return _shifted(inside, zero, dtype)
    padded = np.zeros((height, width, ifm.shape[2]), dtype)
    target = padded[top : top + inside.shape[0], left : left + inside.shape[1]]
    np.copyto(target, inside)
    if zero:
        target -= dtype(zero)
    return padded


def _gathered(padded: NDArray[Number], window: _Window) -> Iterator[tuple[slice, NDArray[Number]]]:
    """Yield windows as matrix rows, a few output rows at a time: (slice of pixels, [pixels, kernel * channels])."""
    rows, columns = window.output
    taps: Pair = window.kernel
    channels = padded.shape[2]
    row, column, channel = padded.strides
    windows = as_strided(
        padded,
        (rows, columns, *taps, channels),
        (
            row * window.strides[0],
            column * window.strides[1],
            row * window.dilations[0],
            column * window.dilations[1],
            channel,
        ),
        writeable=False,
    )
    inner = taps[0] * taps[1] * channels
    pixels = max(1, _GATHERED_BYTES // max(1, inner * padded.itemsize))
    if pixels < columns:  # one row of windows already exceeds _GATHERED_BYTES
        for row, start in product(range(rows), range(0, columns, pixels)):
            part = windows[row, start : start + pixels]
            yield slice(row * columns + start, row * columns + start + len(part)), part.reshape(-1, inner)
        return
    step = pixels // max(1, columns)
    for first in range(0, rows, step):
        last = min(first + step, rows)
        yield slice(first * columns, last * columns), windows[first:last].reshape(-1, inner)


def _sum_of_small_taps(
    padded: NDArray[np.float32], weights: NDArray[np.float32], window: _Window
) -> Int32Array:
    """Return depthwise sums [rows, columns, C] of integers that float32 holds, as int32.

    As in `_sum_of_taps`, columns and channels form one axis. `einsum` multiplies and adds in one pass over it, which
    takes half the time of two passes. With a column stride it takes the taps of equal phase at a time, because their
    distance is a whole number of columns.
    """
    rows, columns = window.output
    channels, (row_stride, column_stride) = weights.shape[2], window.strides
    row_dilation, column_dilation = window.dilations
    period = column_stride // gcd(column_stride, column_dilation)
    phases = []
    for first in range(min(period, window.kernel[1])):
        column, phase = divmod(first * column_dilation, column_stride)
        source = np.ascontiguousarray(padded[:, phase::column_stride])
        row_bytes, column_bytes, value_bytes = source.strides
        taps = weights[:, first::period]
        windows = as_strided(
            source[:, column:],
            (*taps.shape[:2], rows, columns * channels),
            (
                row_dilation * row_bytes,
                period * column_dilation // column_stride * column_bytes,
                row_stride * row_bytes,
                value_bytes,
            ),
            writeable=False,
        )
        phases.append((windows, np.tile(taps, (1, 1, columns))))
    sums = np.empty((rows, columns * channels), np.int32)
    step = max(1, _BLOCK_ELEMENTS // max(1, columns * channels))
    for start in range(0, rows, step):
        block = slice(start, start + step)
        parts = [np.einsum("yxri,yxi->ri", windows[:, :, block], tiled) for windows, tiled in phases]
        np.copyto(sums[block], sum(parts[1:], parts[0]), casting="unsafe")
    return sums.reshape(rows, columns, channels)


def _sum_of_taps(padded: NDArray[Number], weights: NDArray[Number], window: _Window) -> NDArray[Number]:
    """Return depthwise sums [rows, columns, C]: one multiply and one add of whole output rows per kernel tap.

    numpy is fast on long runs. Columns and channels therefore form one axis, along which the weights of a tap are
    repeated. With a column stride, the columns that one tap reads are first copied next to each other.
    """
    rows, columns = window.output
    channels = weights.shape[2]
    row_stride, column_stride = window.strides
    offsets = [tap * window.dilations[1] for tap in range(window.kernel[1])]
    phases = {
        phase: np.ascontiguousarray(padded[:, phase::column_stride])
        for phase in {offset % column_stride for offset in offsets}
    }
    kept = np.tile(weights, (1, 1, columns)) if weights.size * columns <= _TILED_ELEMENTS else None
    sums = np.zeros((rows, columns * channels), weights.dtype)
    step = max(1, _BLOCK_ELEMENTS // max(1, columns * channels))
    scratch = np.empty((min(step, rows), columns * channels), weights.dtype)
    for first in range(0, rows, step):
        block = sums[first : first + step]
        products = scratch[: len(block)]
        for tap_row in range(window.kernel[0]):
            start = first * row_stride + tap_row * window.dilations[0]
            source_rows = slice(start, start + (len(block) - 1) * row_stride + 1, row_stride)
            for tap_column, offset in enumerate(offsets):
                column, phase = divmod(offset, column_stride)
                source = phases[phase][source_rows, column : column + columns]
                at = tap_row, tap_column
                tap = np.tile(weights[at], columns) if kept is None else kept[at]
                np.multiply(source.reshape(len(block), -1), tap, out=products)
                block += products
    return sums.reshape(rows, columns, channels)
