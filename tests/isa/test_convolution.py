"""The convolution primitives against sums written out and against a direct sum over every window."""

from __future__ import annotations

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.arithmetic.convolution import (
    convolve,
    convolve_float,
    depthwise_convolve,
    depthwise_convolve_float,
)

Window = dict[str, tuple[int, int]]


def direct(ifm: Any, weights: Any, zeros: tuple[int, int], window: Window, depthwise: bool) -> Any:
    """The sums of a convolution, one product of Python integers at a time over positions inside the image."""
    kernel = weights.shape[:2] if depthwise else weights.shape[1:3]
    rows, columns = window["output_shape"]
    channels = weights.shape[2] if depthwise else len(weights)
    sums = np.zeros((rows, columns, channels), np.int64)
    for row, column, tap_row, tap_column in product(*map(range, (rows, columns, *kernel))):
        y = row * window["strides"][0] + tap_row * window["dilations"][0] - window["pads"][0]
        x = column * window["strides"][1] + tap_column * window["dilations"][1] - window["pads"][1]
        if not (0 <= y < ifm.shape[0] and 0 <= x < ifm.shape[1]):
            continue
        pixel = ifm[y, x].astype(np.int64) - zeros[0]
        if depthwise:
            tap = weights[tap_row, tap_column].astype(np.int64) - zeros[1]
            sums[row, column] += np.repeat(pixel, channels // len(pixel)) * tap
        else:
            sums[row, column] += (weights[:, tap_row, tap_column].astype(np.int64) - zeros[1]) @ pixel
    return sums


def pairs(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(low, high), st.integers(low, high))


WINDOWS = st.fixed_dictionaries(
    {"strides": pairs(1, 4), "dilations": pairs(1, 3), "pads": pairs(0, 4), "output_shape": pairs(1, 6)}
)
FAR_WINDOWS = st.fixed_dictionaries(
    {"strides": pairs(1, 9), "dilations": pairs(1, 12), "pads": pairs(0, 30), "output_shape": pairs(1, 6)}
)
"""Windows of which some taps, some outputs or all of both lie in the padding."""


@given(
    st.sampled_from(["int8", "uint8"]), st.sampled_from(["int8", "uint8"]), WINDOWS | FAR_WINDOWS, pairs(1, 7),
    pairs(1, 4), pairs(1, 5), st.integers(0, 1 << 32),
)  # fmt: skip
def test_both_convolutions_equal_the_direct_sum(
    ifm_dtype: str,
    weight_dtype: str,
    window: Window,
    size: tuple[int, int],
    kernel: tuple[int, int],
    channels: tuple[int, int],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    ifm_range, weight_range = np.iinfo(ifm_dtype), np.iinfo(weight_dtype)
    zeros = (
        int(rng.integers(ifm_range.min, ifm_range.max, endpoint=True)),
        int(rng.integers(weight_range.min, weight_range.max, endpoint=True)),
    )
    ifm = rng.integers(ifm_range.min, ifm_range.max, (*size, channels[0]), ifm_dtype, endpoint=True)
    shape = (channels[1], *kernel, channels[0])
    weights = rng.integers(weight_range.min, weight_range.max, shape, weight_dtype, endpoint=True)
    found = convolve(ifm, weights, *zeros, **window)
    assert found.dtype == np.int32
    assert np.array_equal(found, direct(ifm, weights, zeros, window, depthwise=False))

    shape = (*kernel, channels[0] * channels[1])
    taps = rng.integers(weight_range.min, weight_range.max, shape, weight_dtype, endpoint=True)
    found = depthwise_convolve(ifm, taps, *zeros, **window)
    assert found.dtype == np.int32
    assert np.array_equal(found, direct(ifm, taps, zeros, window, depthwise=True))


def test_a_window_and_its_padding_by_hand() -> None:
    ifm = np.array([[1, 2], [3, 4]], np.int8)[:, :, np.newaxis]  # minus 1: 0 1 / 2 3
    weights = np.array([[1, -1], [2, 1]], np.int8)[np.newaxis, :, :, np.newaxis]
    inside = convolve(ifm, weights, 1, 0, output_shape=(1, 1))
    assert inside.tolist() == [[[0 * 1 + 1 * -1 + 2 * 2 + 3 * 1]]]
    padded = convolve(ifm, weights, 1, 0, pads=(1, 1), output_shape=(3, 3))
    assert padded[:, :, 0].tolist() == [
        [0 * 1, 0 * 2 + 1 * 1, 1 * 2],
        [0 * -1 + 2 * 1, 6, 1 * 1 + 3 * 2],
        [2 * -1, 2 * 1 + 3 * -1, 3 * 1],
    ]


def test_an_output_channel_of_a_depthwise_convolution_reads_channel_c_over_m() -> None:
    ifm = np.array([[[10, 20]]], np.uint8)
    weights = np.array([[[1, 2, 3, 4]]], np.uint8)
    assert depthwise_convolve(ifm, weights, 0, 0, output_shape=(1, 1)).tolist() == [[[10, 20, 60, 80]]]


@pytest.mark.parametrize("length", [257, 258, 259, 515, 4608])
def test_long_dot_products_of_the_largest_codes_stay_exact(length: int) -> None:
    # (255 - 0) * (255 - 0) per element, far beyond the 24 bits of a float32; minus one odd product at the end
    ifm, weights = np.full((1, 1, length), 255, np.uint8), np.full((1, 1, 1, length), 255, np.uint8)
    ifm[0, 0, -1] = 1
    expected = (length - 1) * 255 * 255 + 255
    assert convolve(ifm, weights, 0, 0, output_shape=(1, 1)).tolist() == [[[expected]]]


def test_a_feature_map_may_be_a_strided_view() -> None:
    image = np.arange(-64, 64, dtype=np.int8).reshape(4, 4, 8)
    part = image[1:, :3, 2:5]
    weights = np.arange(12, dtype=np.int8).reshape(2, 2, 1, 3)
    expected = convolve(part.copy(), weights, 5, 1, output_shape=(2, 3))
    assert np.array_equal(convolve(part, weights, 5, 1, output_shape=(2, 3)), expected)


def test_float_convolutions_equal_the_integer_ones_on_integers() -> None:
    rng = np.random.default_rng(0)
    window: Window = {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 2), "output_shape": (4, 8)}
    ifm, weights = rng.integers(-9, 9, (7, 8, 3), np.int8), rng.integers(-9, 9, (5, 3, 3, 3), np.int8)
    found = convolve_float(ifm.astype(np.float32), weights.astype(np.float32), **window)
    assert found.dtype == np.float64
    assert np.array_equal(found, convolve(ifm, weights, 0, 0, **window))
    taps = rng.integers(-9, 9, (3, 3, 6), np.int8)
    found = depthwise_convolve_float(ifm.astype(np.float32), taps.astype(np.float32), **window)
    assert found.dtype == np.float64
    assert np.array_equal(found, depthwise_convolve(ifm, taps, 0, 0, **window))


@pytest.mark.parametrize("dilation", [8, 20_000, 1 << 31, 1 << 62])
def test_taps_that_see_nothing_cost_nothing(dilation: int) -> None:
    rng = np.random.default_rng(1)
    ifm, weights = rng.integers(-128, 128, (8, 8, 2), np.int8), rng.integers(-128, 128, (3, 3, 3, 2), np.int8)
    window: Window = {"dilations": (dilation, dilation), "pads": (dilation, dilation), "output_shape": (8, 8)}
    tracemalloc.start()
    found = convolve(ifm, weights, 3, 1, **window)
    reals = convolve_float(ifm.astype(np.float32), weights.astype(np.float32), **window)
    depthwise = depthwise_convolve(ifm, weights[0], 3, 1, **window)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert np.array_equal(found, convolve(ifm, weights[:, 1:2, 1:2], 3, 1, output_shape=(8, 8)))
    assert np.array_equal(reals, ifm.astype(np.float64) @ weights[:, 1, 1].T.astype(np.float64))
    assert np.array_equal(depthwise, depthwise_convolve(ifm, weights[0, 1:2, 1:2], 3, 1, output_shape=(8, 8)))


def test_wide_rows_and_large_kernels_are_worked_on_in_parts() -> None:
    rng = np.random.default_rng(2)
    ifm = rng.integers(-128, 128, (40, 400, 4), np.int8)
    weights, taps = (
        rng.integers(-128, 128, (2, 40, 40, 4), np.int8),
        rng.integers(-128, 128, (40, 40, 4), np.int8),
    )
    window: Window = {"pads": (0, 20), "output_shape": (1, 400)}
    tracemalloc.start()
    found, depthwise = convolve(ifm, weights, 3, 1, **window), depthwise_convolve(ifm, taps, 3, 1, **window)
    assert (
        tracemalloc.get_traced_memory()[1] < 8 << 20
    )  # all windows at once take 10 MB, all taps in a row 10 MB
    tracemalloc.stop()
    for column in (0, 7, 380, 399):
        inside = slice(max(column - 20, 0), min(column + 20, 400))
        first = inside.start - (column - 20)
        part = slice(first, first + inside.stop - inside.start)
        values = ifm[:, inside].astype(np.int64) - 3
        assert found[0, column].tolist() == [
            int((values * (w[:, part] - np.int64(1))).sum()) for w in weights
        ]
        assert depthwise[0, column].tolist() == (values * (taps[:, part] - np.int64(1))).sum((0, 1)).tolist()
