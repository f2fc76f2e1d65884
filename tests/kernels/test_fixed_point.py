"""Fixed-point functions: their error over all 16-bit words, and single words by hand."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power

WORDS = np.arange(-32768, 32768)
SHORT = FixedPoint(16)
LONG = FixedPoint(32)


@pytest.mark.parametrize(
    ("value", "exponent", "expected"),
    [(5, 1, 3), (-5, 1, -3), (5, 2, 1), (6, 2, 2), (-6, 2, -2), (7, 0, 7), (1, 40, 0), (-1, 40, 0)],
)
def test_division_rounds_halves_away_from_zero(value: int, exponent: int, expected: int) -> None:
    assert divide_by_power(np.array([value]), exponent).tolist() == [expected]


@pytest.mark.parametrize("integer_bits", range(7))
def test_functions_of_all_words(integer_bits: int) -> None:
    x = WORDS / 2.0 ** (15 - integer_bits)
    assert np.abs(SHORT.logistic(WORDS, integer_bits) / 32768 - 1 / (1 + np.exp(-x))).max() < 2.1e-4
    assert np.abs(SHORT.tanh(WORDS, integer_bits) / 32768 - np.tanh(x)).max() < 3.7e-4
    negative = WORDS <= 0
    found = SHORT.exponential(WORDS[negative], integer_bits)
    assert np.abs(found / 32768 - np.exp(x[negative])).max() < 2e-4


def test_functions_of_long_words() -> None:
    words = np.random.default_rng(0).integers(-(1 << 31), 1, 10_000)
    found = LONG.exponential(words, 5)
    assert np.abs(found / 2.0**31 - np.exp(words / 2.0**26)).max() < 3e-7


def test_the_ends_of_the_range() -> None:
    ends = np.array([-32768, 0, 32767])
    assert SHORT.tanh(ends, 3).tolist() == [-32767, 0, 32767]
    assert SHORT.logistic(np.array([0]), 3).tolist() == [16384]
    assert SHORT.exponential(np.array([0]), 3).tolist() == [32767]  # the largest word stands for 1
    assert SHORT.exponential(np.array([-32768]), 6).tolist() == [0]
    assert LONG.half_reciprocal(np.array([0])).tolist() == [(1 << 31) - 1]
