"""Exact integer convolution at the speed of the floating-point matrix product.

Padding is never part of the operands: a position outside the feature map contributes zero. The window is
given by `strides`, `dilations` and `pads` (rows above, columns left), each (height, width), and by
`output_shape` (rows, columns); whatever lies below and to the right of the feature map is padding too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

IntArray = NDArray[np.integer[Any]]
Int32Array = NDArray[np.int32]
Float32Array = NDArray[np.float32]
Number = TypeVar("Number", np.int32, np.float32)
Pair = tuple[int, int]

_EXACT = 1 << 24  # float32 represents every integer up to here
_GATHERED_BYTES = 1 << 21  # windows gathered at a time: rows enough for a fast product that fit a cache
_BLOCK_ELEMENTS = 1 << 15  # outputs of a depthwise convolution worked on at a time


class _Window(NamedTuple):
    """The positions that a kernel of `kernel` (rows, columns) visits."""

    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pair
    output: Pair

    @property
    def extent(self) -> Pair:
        """Rows and columns between the first and the last position visited, padding included."""
        height, width = (
            (out - 1) * stride + (taps - 1) * dilation + 1
            for out, stride, taps, dilation in zip(
                self.output, self.strides, self.kernel, self.dilations, strict=True
            )
        )
        return height, width


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
    """Accumulators [rows, columns, O]: sum of (ifm - ifm_zero) * (weight - weight_zero) over each window.

    `ifm`: 8-bit codes [h, w, I] with any strides; `weights`: 8-bit codes [O, kernel h, kernel w, I]. Sums
    wrap to 32 bits as the accumulators do.

    The products run in float32. A sum of integers is exact there, in whatever order, while no partial sum can
    exceed 2**24; so the dot product is cut into pieces short enough that even the largest codes keep to that,
    and the pieces are added as integers.
    """
    window = _Window((weights.shape[1], weights.shape[2]), strides, dilations, pads, output_shape)
    padded = _padded(ifm, ifm_zero, window, np.float32)
    matrix = _shifted(weights, weight_zero, np.float32).reshape(len(weights), -1)
    piece = _EXACT // (_largest(ifm, ifm_zero) * _largest(weights, weight_zero))
    accumulators = np.empty((output_shape[0] * output_shape[1], len(weights)), np.int32)
    for pixels, gathered in _gathered(padded, window):
        target = accumulators[pixels]
        target[...] = gathered[:, :piece] @ matrix[:, :piece].T
        for start in range(piece, matrix.shape[1], piece):
            part = slice(start, start + piece)
            target += (gathered[:, part] @ matrix[:, part].T).astype(np.int32)
    return accumulators.reshape(*output_shape, -1)


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
    """Accumulators [rows, columns, C * m] of a depthwise convolution: output c reads input channel c // m.

    `ifm`: 8-bit codes [h, w, C] with any strides; `weights`: 8-bit codes [kernel h, kernel w, C * m].
    """
    window = _Window((weights.shape[0], weights.shape[1]), strides, dilations, pads, output_shape)
    padded = _padded(_repeated(ifm, weights.shape[2]), ifm_zero, window, np.int32)
    return _sum_of_taps(padded, _shifted(weights, weight_zero, np.int32), window)


def convolve_float(
    ifm: Float32Array,
    weights: Float32Array,
    *,
    strides: Pair = (1, 1),
    dilations: Pair = (1, 1),
    pads: Pair = (0, 0),
    output_shape: Pair,
) -> Float32Array:
    """The convolution of float32 operands, shaped as in `convolve`; the order of the sum is not specified."""
    window = _Window((weights.shape[1], weights.shape[2]), strides, dilations, pads, output_shape)
    matrix = weights.reshape(len(weights), -1)
    sums = np.empty((output_shape[0] * output_shape[1], len(weights)), np.float32)
    for pixels, gathered in _gathered(_padded(ifm, 0, window, np.float32), window):
        np.matmul(gathered, matrix.T, out=sums[pixels])
    return sums.reshape(*output_shape, -1)


def depthwise_convolve_float(
    ifm: Float32Array,
    weights: Float32Array,
    *,
    strides: Pair = (1, 1),
    dilations: Pair = (1, 1),
    pads: Pair = (0, 0),
    output_shape: Pair,
) -> Float32Array:
    """The depthwise convolution of float32 operands, shaped as in `depthwise_convolve`."""
    window = _Window((weights.shape[0], weights.shape[1]), strides, dilations, pads, output_shape)
    padded = _padded(_repeated(ifm, weights.shape[2]), 0, window, np.float32)
    return _sum_of_taps(padded, weights, window)


def _largest(codes: IntArray, zero: int) -> int:
    """The largest magnitude that a code of this type minus its zero point can have; at least 1."""
    limits = np.iinfo(codes.dtype)
    return max(int(limits.max) - zero, zero - int(limits.min), 1)


def _shifted(codes: IntArray, zero: int, dtype: type[Number]) -> NDArray[Number]:
    """Codes minus their zero point, as a new array of `dtype`."""
    values = codes.astype(dtype)
    if zero:
        values -= dtype(zero)
    return values


def _repeated(ifm: NDArray[Any], channels: int) -> NDArray[Any]:
    """Each channel as often as it takes to have `channels`: the depth multiplier."""
    multiplier = channels // ifm.shape[2]
    return ifm if multiplier == 1 else np.repeat(ifm, multiplier, axis=2)


def _padded(ifm: NDArray[Any], zero: int, window: _Window, dtype: type[Number]) -> NDArray[Number]:
    """Exactly the positions that `window` visits, as `dtype` minus the zero point; padding is 0."""
    height, width = window.extent
    top, left = window.pads
    inside = ifm[: max(height - top, 0), : max(width - left, 0)]
    if inside.shape[:2] == (height, width):
        return _shifted(inside, zero, dtype)
    padded = np.zeros((height, width, ifm.shape[2]), dtype)
    target = padded[top : top + inside.shape[0], left : left + inside.shape[1]]
    np.copyto(target, inside)
    if zero:
        target -= dtype(zero)
    return padded


def _gathered(padded: Float32Array, window: _Window) -> Iterator[tuple[slice, Float32Array]]:
    """Windows as rows of a matrix, a few output rows at a time: (pixels, [pixels, kernel * channels])."""
    rows, columns = window.output
    taps = window.kernel
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
    step = max(1, _GATHERED_BYTES // max(1, columns * inner * padded.itemsize))
    for first in range(0, rows, step):
        last = min(first + step, rows)
        yield slice(first * columns, last * columns), windows[first:last].reshape(-1, inner)


def _sum_of_taps(padded: NDArray[Number], weights: NDArray[Number], window: _Window) -> NDArray[Number]:
    """Depthwise sums [rows, columns, C], one multiply and one add of whole output rows per kernel tap.

    numpy is fast on long runs, so columns and channels form one axis, with the weights of a tap repeated
    along it; under a column stride the columns that one tap reads are brought together first.
    """
    rows, columns = window.output
    channels = weights.shape[2]
    row_stride, column_stride = window.strides
    offsets = [tap * window.dilations[1] for tap in range(window.kernel[1])]
    phases = {
        phase: np.ascontiguousarray(padded[:, phase::column_stride])
        for phase in {offset % column_stride for offset in offsets}
    }
    tiled = np.tile(weights, (1, 1, columns))
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
                np.multiply(source.reshape(len(block), -1), tiled[tap_row, tap_column], out=products)
                block += products
    return sums.reshape(rows, columns, channels)
