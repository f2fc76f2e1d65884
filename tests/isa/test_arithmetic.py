"""Fixed-point arithmetic against its definition, written out slowly in Python integers."""

from __future__ import annotations

from fractions import Fraction
from math import exp, floor, frexp

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from npusim.isa.arithmetic import integer as arithmetic

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
MULTIPLIER = st.integers(1 << 30, (1 << 31) - 1) | st.just(0)
SHIFT = st.integers(-31, 30)


def wrap32(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def c_divide(a: int, b: int) -> int:
    """Division toward zero."""
    return abs(a) // b * (1 if a >= 0 else -1)


def doubling_high_multiply(a: int, b: int) -> int:
    n = a * b
    n += (1 << 30) if n >= 0 else 1 - (1 << 30)
    return c_divide(n, 1 << 31)


def divide_by_power(x: int, e: int) -> int:
    mask = (1 << e) - 1
    return (x >> e) + ((x & mask) > (mask >> 1) + (x < 0))


def rescaled(x: int, q: int, shift: int, rounding: str) -> int:
    if rounding == "single":
        exact = floor(Fraction(x * q) * Fraction(2) ** (shift - 31) + Fraction(1, 2))
        return exact if wrap32(exact) == exact else -(1 << 31)
    high = doubling_high_multiply(wrap32(x << max(shift, 0)), q)
    return divide_by_power(high, max(-shift, 0))


@given(st.lists(INT32, min_size=1, max_size=20), MULTIPLIER, SHIFT, st.sampled_from(["double", "single"]))
@example([-(1 << 31), (1 << 31) - 1], (1 << 31) - 1, 0, "double")
@example([-(1 << 31), (1 << 31) - 1], (1 << 31) - 1, -1, "double")
@example([-6, -5, -2, -1, 0, 1, 2, 5, 6], 1 << 30, -1, "double")
@example([-6, -5, -2, -1, 0, 1, 2, 5, 6], 1 << 30, -31, "single")
@example([-(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1], 1 << 30, 30, "single")
@example([-(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1], (1 << 31) - 1, 31, "single")
@example([-(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1], 1 << 30, 32, "single")
@example([-(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1], 1 << 30, 100, "single")
@example([-2, -1, 0, 1, 2, 1 << 30], 1 << 30, 31, "double")
def test_rescale_equals_its_definition(
    xs: list[int], q: int, shift: int, rounding: arithmetic.Rounding
) -> None:
    found = arithmetic.multiply_by_quantized_multiplier(np.array(xs, np.int32), q, shift, rounding)
    assert found.dtype == np.int32
    assert found.tolist() == [rescaled(x, q, shift, rounding) for x in xs]


@pytest.mark.parametrize(
    ("x", "double", "single"),
    [
        (5, 2, 1),  # 5/2 = 2.5 -> 3, 3/2 = 1.5 -> 2; but 5/4 = 1.25 -> 1
        (-5, -1, -1),  # -2.5 -> -2 (half up), -2/2 = -1; and -1.25 -> -1
        (-6, -2, -1),  # -3, -1.5 -> -2 (half away); but -1.5 -> -1 (half up)
        (6, 2, 2),
    ],
)
def test_the_two_roundings_of_a_quarter_differ(x: int, double: int, single: int) -> None:
    quarter = arithmetic.quantize_multiplier(0.25)
    assert quarter == (1 << 30, -1)
    values = np.array([x], np.int32)
    assert arithmetic.multiply_by_quantized_multiplier(values, *quarter, "double") == double
    assert arithmetic.multiply_by_quantized_multiplier(values, *quarter, "single") == single


@given(INT32, st.integers(0, 31))
def test_rounding_divide_by_power_equals_its_definition(x: int, exponent: int) -> None:
    assume(exponent == 0 or -(1 << 31) < x < (1 << 31) - 1)
    found = arithmetic.rounding_divide_by_power(np.array([x], np.int32), exponent)
    assert found.tolist() == [divide_by_power(x, exponent)]


@given(st.lists(st.tuples(INT32, MULTIPLIER, SHIFT), min_size=1, max_size=9))
def test_multipliers_follow_the_last_axis(columns: list[tuple[int, int, int]]) -> None:
    xs, multipliers, shifts = (np.array(each) for each in zip(*columns, strict=True))
    values = np.stack([xs, xs[::-1]]).astype(np.int32)
    found = arithmetic.multiply_by_quantized_multiplier(values, multipliers, shifts)
    for row, expected_row in zip(found.tolist(), values.tolist(), strict=True):
        pairs = zip(expected_row, columns, strict=True)
        assert row == [rescaled(x, q, shift, "double") for x, (_, q, shift) in pairs]


@given(st.floats(0, 2.0**31, exclude_max=True))
@example(0.0)
@example(0.5)
@example(1 - 2.0**-53)  # the mantissa rounds up to 2**31
@example(2.0**-32)
@example(2.0**-33)
def test_quantize_multiplier_equals_its_definition(real: float) -> None:
    mantissa, shift = frexp(real)
    q = floor(Fraction(mantissa) * (1 << 31) + Fraction(1, 2))
    if q == 1 << 31:
        q, shift = q // 2, shift + 1
    if shift < -31:
        q, shift = 0, 0
    assert arithmetic.quantize_multiplier(real) == (q, shift)


@given(st.integers(-(1 << 23), 1 << 23), st.integers(1, 1 << 12))
def test_rounding_divide_is_the_c_division(total: int, count: int) -> None:
    half = count // 2
    expected = c_divide(total + half if total > 0 else total - half, count)
    assert arithmetic.rounding_divide(np.array([total], np.int32), count).tolist() == [expected]


def test_codes_of_reals_beyond_int32() -> None:
    # what a conversion on x86 makes of them, and the zero point is added with a wrap
    reals = np.array([2.0**31, -(2.0**31) - 256, 2.0**40, np.inf, -np.inf, np.nan], np.float32)
    smallest = -(1 << 31)
    assert arithmetic.quantized_steps(reals, 0).tolist() == [smallest] * 6
    assert arithmetic.quantized_steps(reals, 7).tolist() == [smallest + 7] * 6
    assert arithmetic.quantized_steps(reals, -7).tolist() == [(1 << 31) - 7] * 6
    inside = np.array([2.0**31 - 128, -(2.0**31), 0.5, -0.5], np.float32)
    assert arithmetic.quantized_steps(inside, 0).tolist() == [(1 << 31) - 128, smallest, 1, -1]


def test_round_half_away() -> None:
    below_half = np.nextafter(np.float32(0.5), np.float32(0))
    values = np.array([-2.5, -0.5, -below_half, 0, below_half, 0.5, 1.5, 2.5, 1e9], np.float32)
    assert arithmetic.round_half_away(values).tolist() == [-3, -1, 0, 0, 0, 1, 2, 3, 1e9]


@pytest.mark.parametrize("channels", [1, 3, 64, 1500])
@pytest.mark.parametrize("rounding", ["double", "single"])
def test_requantise_is_the_same_however_it_is_cut(channels: int, rounding: arithmetic.Rounding) -> None:
    rng = np.random.default_rng(channels)
    accumulators = rng.integers(-(1 << 20), 1 << 20, (7, 4001 // channels + 1, channels), dtype=np.int32)
    multipliers, shifts = rng.integers(1 << 30, 1 << 31, channels), rng.integers(-12, -9, channels)
    found = arithmetic.requantise(accumulators, multipliers, shifts, -3, -100, 90, np.int8, rounding)
    whole = arithmetic.multiply_by_quantized_multiplier(accumulators, multipliers, shifts, rounding)
    assert found.dtype == np.int8
    assert np.array_equal(found, np.clip(whole - 3, -100, 90))
    assert {-100, 90} < set(found.reshape(-1).tolist())


@pytest.mark.slow
@given(
    MULTIPLIER.filter(bool), st.integers(-20, 5), st.integers(-256, 255), st.sampled_from(["double", "single"]),
    st.integers(0, 1 << 32),
)  # fmt: skip
def test_requantise_settles_every_tie(
    multiplier: int, shift: int, zero_point: int, rounding: arithmetic.Rounding, seed: int
) -> None:
    # Accumulators around those whose products lie half way between two codes, and the largest there are.
    ties = (np.arange(-400, 400, 3) + 0.5) * 2.0 ** (31 - shift) / multiplier
    near = np.round(ties[:, np.newaxis]) + np.arange(-2, 3)
    spread = np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, 200)
    values = np.concatenate([near.reshape(-1), spread, [-(1 << 31), (1 << 31) - 1]])
    accumulators = np.clip(values, -(1 << 31), (1 << 31) - 1).astype(np.int64).astype(np.int32)
    found = arithmetic.requantise(
        accumulators, multiplier, shift, zero_point, -128, 127, np.int8, rounding
    ).tolist()
    for x, code in zip(accumulators.tolist(), found, strict=True):
        exact = rescaled(x, multiplier, shift, rounding)
        if abs(exact) < 1 << 30:  # else adding the zero point may leave the 32 bits
            assert code == min(max(exact + zero_point, -128), 127), x


def least_sum(code: int, multiplier: int, shift: int, rounding: str) -> int:
    """The least sum that requantizes to `code` or more."""
    if rounding == "single":
        return -((-(2 * code - 1) << (61 - shift)) // (multiplier << 31))
    right = max(-shift, 0)
    half = (2 * code - 1) << right  # twice the least high word
    least = half // 2 + (half < 0) if right else code
    return -(((1 << 30) - (least << 31)) // (multiplier << max(shift, 0)))


@pytest.mark.parametrize("rounding", ["double", "single"])
@pytest.mark.parametrize("zero_point", [-128, -1, 127])
@pytest.mark.parametrize("multiplier", [1 << 30, (1 << 30) + 1, 1518500250, (1 << 31) - 1])
def test_requantise_at_every_step_of_the_result(
    multiplier: int, zero_point: int, rounding: arithmetic.Rounding
) -> None:
    """Requantization rises with the sum, so the least sum of each code and the one below prove all others."""
    codes = np.arange(-127, 128)
    for shift in range(-31, 31):
        steps = [least_sum(int(code) - zero_point, multiplier, shift, rounding) for code in codes]
        sums = np.array([steps, [step - 1 for step in steps]])
        inside = (
            (np.abs(sums).max(0) << max(shift, 0)) < 1 << 30 if shift >= 0 else np.abs(sums).max(0) < 1 << 31
        )
        found = arithmetic.requantise(
            sums[:, inside].astype(np.int32), multiplier, shift, zero_point, -128, 127, np.int8, rounding
        )
        reached, below = found.astype(np.int64)
        assert (reached >= codes[inside]).all(), shift
        assert (below < codes[inside]).all(), shift


@pytest.mark.parametrize("rounding", ["double", "single"])
def test_requantise_of_sums_that_float64_cannot_tell_from_a_step(rounding: arithmetic.Rounding) -> None:
    """Products at most 2**-51 below a step: 2**60 less a^2, and for two roundings 2**60 - 2**30 less a (a + 1)."""
    a = np.arange(12)
    multipliers, shifts = (1 << 30) + a, np.full(len(a), -30)
    sums = (1 << 30) - a - (rounding == "double")
    for sign in (1, -1):
        near = (sign * (sums + np.arange(-1, 2)[:, np.newaxis])).astype(np.int32)
        found = arithmetic.requantise(near, multipliers, shifts, 0, -128, 127, np.int8, rounding)
        whole = arithmetic.multiply_by_quantized_multiplier(near, multipliers, shifts, rounding)
        np.testing.assert_array_equal(found, whole)


def test_requantise_of_nothing() -> None:
    empty = np.empty((0, 3), np.int32)
    found = arithmetic.requantise(empty, np.full(3, 1 << 30), np.full(3, -9), 0, -128, 127, np.int8)
    assert (found.shape, found.dtype) == ((0, 3), np.int8)


def test_requantise_adds_the_zero_point_before_it_clamps() -> None:
    # 1/2 of -300, 7, 8, 300 is -150, 3.5 -> 4, 4, 150; plus 10; clamped to 0..100
    half = arithmetic.quantize_multiplier(0.5)
    found = arithmetic.requantise(np.array([-300, 7, 8, 300], np.int32), *half, 10, 0, 100, np.uint8)
    assert found.tolist() == [0, 14, 14, 100]
    assert found.dtype == np.uint8


def test_clamp() -> None:
    found = arithmetic.clamp(np.array([-200, -7, 5, 200]), -128, 127, np.int8)
    assert found.tolist() == [-128, -7, 5, 127]
    assert found.dtype == np.int8


def test_exponential_is_as_exact_as_its_series() -> None:
    # The series around -1/8 stops at the fourth power: the next term is at most (1/8)**5 / 5!.
    reals = -np.linspace(0, 31.9, 5000)
    found = arithmetic.exp_on_negative_values(np.round(reals * (1 << 26)).astype(np.int64))
    assert np.abs(found / (1 << 31) - np.exp(reals)).max() < (1 / 8) ** 5 / 120
    assert found[0] == (1 << 31) - 1  # exp(0)


def test_reciprocal_is_exact_to_28_bits() -> None:
    reals = np.linspace(0, 1, 5000, endpoint=False)
    found = arithmetic.one_over_one_plus_x(np.round(reals * (1 << 31)).astype(np.int64))
    assert np.abs(found / (1 << 31) - 1 / (1 + reals)).max() < 2 / (1 << 28)


@pytest.mark.parametrize(("dtype", "low"), [("int8", -128), ("uint8", 0)])
def test_softmax_of_two_codes(dtype: str, low: int) -> None:
    exponentials = arithmetic.softmax_exponentials(*arithmetic.softmax_scaling(0.5, 1.0))
    codes = np.array([[3, 3], [5, 3], [100, 0]], dtype)
    # 1/2 and 1/2; 1 / (1 + exp(-1)) and the rest; 1, which is clamped to 255/256, and exp(-50)
    share = 1 / (1 + exp(-1))
    expected = [[128, 128], [round(256 * share), round(256 * (1 - share))], [255, 0]]
    found = arithmetic.softmax_fixed_point(codes, exponentials)
    assert found.dtype == dtype
    assert (found.astype(int) - low).tolist() == expected


def test_softmax_of_a_long_row_spreads_evenly() -> None:
    exponentials = arithmetic.softmax_exponentials(*arithmetic.softmax_scaling(0.1, 1.0))
    for length in (100, 256, 5000, 20000):
        row = arithmetic.softmax_fixed_point(np.zeros((1, length), np.uint8), exponentials)
        assert set(row.reshape(-1).tolist()) == {round(256 / length)}
