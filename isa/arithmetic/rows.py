"""Integer log-softmax and L2 normalization of rows of quantized values, equal to the LiteRT kernels.

Both use the primitives of `integer`. Fixed-point numbers are int64 arrays whose values fit 32 bits.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from npusim.isa.arithmetic.integer import (
    doubling_high_multiply,
    exp_on_negative_values,
    multiply_by_quantized_multiplier,
    one_over_one_plus_x,
    rounding_divide_by_power,
)
from npusim.isa.base.tensor import Int64Array, IntArray

_LARGEST, _SMALLEST = (1 << 31) - 1, -(1 << 31)


def _constant(real: float) -> int:
    return round(real * (1 << 31))


_ROOT = sqrt(sqrt(2))
_LN_2, _ROOT_HALF, _MIDDLE = _constant(log(2)), _constant(sqrt(0.5)), _constant(1 / _ROOT)
_NUMERATOR, _SQUARE = _constant(11 / 240 * _ROOT), _constant(_ROOT / 20)
_OFFSET, _SLOPE = _constant(2 / _ROOT - _ROOT), _constant(_ROOT / 4)


def _bits(values: Int64Array) -> Int64Array:
    """Return the bit length of positive integers."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _saturated(values: Int64Array) -> Int64Array:
    return np.clip(values, _SMALLEST, _LARGEST)


def logarithm(values: Int64Array) -> Int64Array:
    """Return the natural logarithm of numbers of at least 1: 19 fractional bits in, 26 out.

    The algorithm of LiteRT's fixed-point log. It writes x = 2^k r, with k a multiple of 1/2 shifted by 1/4, so that r
    is near 2^(-1/4); log r is a quotient of polynomials. All values have 31 fractional bits, except k with 25.
    """
    half_power = doubling_high_multiply(values, _ROOT_HALF)
    first = _saturated(doubling_high_multiply(values << (31 - _bits(values)), _ROOT_HALF) << 1)
    second = _saturated(values << (31 - _bits(half_power)))
    r = np.minimum(first, second)
    quarter = 1 << 23
    power = np.maximum(
        ((_bits(values) - 20) << 25) + quarter,  # 1.0, with 19 fractional bits, is 20 bits long
        ((_bits(half_power) - 19) << 25) - quarter,
    )
    q = (r - _MIDDLE) << 1
    square = doubling_high_multiply(q, q)
    numerator = doubling_high_multiply(q, r) + doubling_high_multiply(
        doubling_high_multiply(q, square), _NUMERATOR
    )
    inner = _OFFSET + q + doubling_high_multiply(square, _SQUARE)
    denominator = doubling_high_multiply((r + _MIDDLE + 1) >> 1, inner) + doubling_high_multiply(q, _SLOPE)
    quotient = doubling_high_multiply(
        rounding_divide_by_power(numerator, 6), one_over_one_plus_x(denominator)
    )
    return _saturated((doubling_high_multiply(_saturated(power), _LN_2) + quotient) << 1)


def log_softmax_fixed_point(
    codes: IntArray, multiplier: int, left_shift: int, difference_min: int, back: int, back_shift: int
) -> IntArray:
    """Compute log(softmax) along the last axis of int8 values; results are in units of 1/16, with 127 for 0.

    `multiplier`, `left_shift` and `difference_min` are those of `softmax_fixed_point`. `back` and `back_shift`
    convert 26 fractional bits to a difference of quantized values again. A value too far below the largest of its row
    gives -128.
    """
    differences = codes.astype(np.int64)
    differences -= differences.max(axis=-1, keepdims=True)
    table = np.arange(-255, 1)
    words = multiply_by_quantized_multiplier(table, multiplier, left_shift).astype(np.int64)
    terms = rounding_divide_by_power(exp_on_negative_values(words), 12)
    terms[table < difference_min] = 0
    logarithms = logarithm(terms[differences + 255].sum(axis=-1, keepdims=True))
    shifted = (logarithms + _SMALLEST).astype(np.int32)
    least = multiply_by_quantized_multiplier(shifted, back, back_shift).astype(np.int64)
    results = rounding_divide_by_power(words[differences + 255] - logarithms, 22) + 127
    results[differences <= np.maximum(least, difference_min - 1)] = -128
    return np.clip(results, -128, 127).astype(codes.dtype)


def unit_length(codes: IntArray, zero: int) -> IntArray:
    """Divide rows of quantized values, minus their zero point, by their Euclidean length (L2 normalization).

    Results are in units of 1/128 around the middle value of the type (0 of int8, 128 of uint8). The sum of squares is
    scaled to 29 bits. Five Newton steps, which start from 1, give its inverse square root.
    """
    signed = codes.dtype == np.int8
    x = codes.astype(np.int64) - zero
    squares = (x * x).sum(axis=-1, keepdims=True)
    pairs = (29 - _bits(np.maximum(squares, 1))) // 2
    number = (
        np.where(pairs < 0, squares >> np.maximum(-2 * pairs, 0), squares << np.maximum(2 * pairs, 0)) >> 1
    )
    half = rounding_divide_by_power(number, 1)
    root = np.full(number.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = _saturated(doubling_high_multiply(doubling_high_multiply(root, root), root) << 6)
        step = doubling_high_multiply(root, 3 << 27) - doubling_high_multiply(half, cube)
        root = _saturated(step << 3)
    root = doubling_high_multiply(root, _ROOT_HALF) << np.maximum(pairs - 11, 0)
    shift = np.maximum(11 - pairs, 0)
    none = squares <= 1
    root, shift = np.where(none, _LARGEST, root), np.where(none, 0, shift)
    # As LiteRT: uint8 gains its 7 fractional bits before the product, int8 in its shift.
    left = np.maximum(7 - shift, 0) if signed else 7
    right = np.maximum(shift - 7, 0) if signed else shift
    shares = rounding_divide_by_power(doubling_high_multiply(x << left, root), right)
    low, high, middle = (-128, 127, 0) if signed else (0, 255, 128)
    return np.clip(shares + middle, low, high).astype(codes.dtype)
