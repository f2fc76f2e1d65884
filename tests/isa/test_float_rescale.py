"""Rescaling in float32: against numpy's own scalars, step by step, and against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.arithmetic.float_codes import requantise_in_float32

SCALES = st.floats(2.0**-40, 2.0**10, width=32)
ACCUMULATORS = st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=20)


def to_float32(exact: Fraction) -> Fraction:
    """The nearest number of 24 significant bits, halves to even; for numbers that are no denormals."""
    if not exact:
        return exact
    magnitude, unit = abs(exact), Fraction(1)
    while magnitude / unit >= 1 << 24:
        unit *= 2
    while magnitude / unit < 1 << 23:
        unit /= 2
    rounded = round(magnitude / unit) * unit  # Python rounds halves of fractions to even
    return rounded if exact > 0 else -rounded


def rescaled(accumulator: int, scale: float, zero_point: int, low: int, high: int) -> int:
    """The definition, in fractions."""
    product = to_float32(to_float32(Fraction(accumulator)) * Fraction(scale))
    return min(max(round(product) + zero_point, low), high)


@given(ACCUMULATORS, SCALES, st.integers(0, 255))
def test_equals_its_definition(values: list[int], scale: float, zero_point: int) -> None:
    scales = np.array([scale], np.float32)
    got = requantise_in_float32(np.array(values, np.int32), scales, zero_point, 0, 255, np.uint8)
    assert got.tolist() == [rescaled(each, scale, zero_point, 0, 255) for each in values]


@given(st.integers(-200, 200), SCALES, st.integers(-128, 127))
def test_around_ties(code: int, scale: float, zero_point: int) -> None:
    """The accumulators whose products lie nearest to half way between two codes."""
    tie = int(np.clip(round((code + 0.5) / scale), -(1 << 31) + 2, (1 << 31) - 3))
    values = [tie + step for step in range(-2, 3)]
    scales = np.array([scale], np.float32)
    got = requantise_in_float32(np.array(values, np.int32), scales, zero_point, -128, 127, np.int8)
    assert got.tolist() == [rescaled(each, scale, zero_point, -128, 127) for each in values]


def test_halves_go_to_even_before_the_zero_point_is_added() -> None:
    """0.5, 1.5, 2.5, -0.5, -1.5 are 0, 2, 2, 0, -2; plus 3. Rounding behind the sum would give 4, 4, 6, 2, 2."""
    got = requantise_in_float32(
        np.array([1, 3, 5, -1, -3], np.int32), np.array([0.5], np.float32), 3, -128, 127, np.int8
    )
    assert got.tolist() == [3, 5, 5, 3, 1]


def test_accumulators_above_24_bits_are_rounded() -> None:
    """2**24 + 1 is 2**24 in float32, and 2.5 of it 2; exactly it were more than 2.5, hence 3."""
    scale = np.float32(2.5 / (1 << 24))
    sums = np.array([(1 << 24), (1 << 24) + 1], np.int32)
    assert requantise_in_float32(sums, np.array([scale]), 0, -128, 127, np.int8).tolist() == [2, 2]
    assert round(Fraction((1 << 24) + 1) * Fraction(float(scale))) == 3


@pytest.mark.parametrize("channels", [1, 3, 64, 1500, 40_000])
def test_is_the_same_however_it_is_cut(channels: int) -> None:
    rng = np.random.default_rng(channels)
    sums = rng.integers(-(1 << 20), 1 << 20, (7, 4001 // channels + 1, channels), dtype=np.int32)
    scales = rng.uniform(0.5, 2, channels).astype(np.float32) / np.float32(1 << 13)
    got = requantise_in_float32(sums, scales, -3, -100, 90, np.int8)
    whole = np.rint(sums.astype(np.float32) * scales) - 3
    assert got.dtype == np.int8
    assert np.array_equal(got, np.clip(whole, -100, 90))
    assert {-100, 90} <= set(got.reshape(-1).tolist())


def test_wide_accumulators_and_codes_of_16_bits() -> None:
    """2**40 + 1 is 2**40 in float32; times 2**-25 it is 32768, plus 40000 beyond 65535."""
    sums = np.array([(1 << 40) + 1, -(1 << 40), 1 << 39, 7 << 24], np.int64)
    got = requantise_in_float32(sums, np.array([2.0**-25], np.float32), 40_000, 0, 65_535, np.uint16)
    assert got.tolist() == [65_535, 40_000 - 32_768, 40_000 + 16_384, 40_000 + 4]  # 3.5 is 4


@pytest.mark.parametrize(
    ("scale", "wanted"),
    [
        (np.inf, [-128, -128, 127]),
        (np.nan, [-128, -128, -128]),
        (3e38, [5, -128, 127]),
        (1e-45, [5, 5, 5]),
        (0.0, [5, 5, 5]),
        (-2.0, [5, 127, -128]),
    ],
)
def test_scales_at_the_end_of_what_there_is(scale: float, wanted: list[int]) -> None:
    """0, and the sums farthest from it; without numpy saying a word. 0 times infinite is no number: the lowest code."""
    sums = np.array([0, -(1 << 31), (1 << 31) - 1], np.int32)
    got: Any = requantise_in_float32(sums, np.array([scale], np.float32), 5, -128, 127, np.int8)
    assert got.tolist() == wanted


def test_of_nothing() -> None:
    got = requantise_in_float32(np.empty((0, 3), np.int32), np.ones(3, np.float32), 0, -128, 127, np.int8)
    assert (got.shape, got.dtype) == ((0, 3), np.int8)
