"""Integer arithmetic of the output stage and the vector unit, equal to the LiteRT reference kernels.

A floating-point scale becomes an int32 multiplier and a power of two. A product with it is rounded in one of three
ways:

* ``double``: a rounding doubling high multiply, then a rounding right shift (all operators without another rule);
* ``single``: one rounding of the exact product, half up; what int32 cannot hold becomes -2**31 (fully connected);
* ``reduced``: one rounding of the product with the upper 15 bits of the multiplier, half up, for sums of up to 48
  bits (int16 feature maps); what int32 cannot hold wraps.

All functions take whole arrays. A multiplier and a shift are scalars, or arrays with one element per channel (the
last axis).
"""

from __future__ import annotations

import sys
from math import exp, floor, frexp, isnan
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from npusim.isa.arithmetic.float64_stage import float64_stage
from npusim.isa.base.tensor import Int32Array, Int64Array, IntArray

Rounding = Literal["double", "single", "reduced"]

_BLOCK_ELEMENTS = 1 << 15  # temporaries of a block stay inside a second-level (L2) cache

_LARGEST_FLOAT = sys.float_info.max
_LARGEST, _SMALLEST = (1 << 31) - 1, -(1 << 31)
_ONE_THIRD = round((1 << 31) / 3)
_EXP_MINUS_EIGHTH = round(exp(-1 / 8) * (1 << 31))
_EXP_FACTORS = tuple(round(exp(-(2.0**k)) * (1 << 31)) for k in range(-2, 5))
_48_OVER_17 = round(48 / 17 * (1 << 29))
_MINUS_32_OVER_17 = round(-32 / 17 * (1 << 29))


def quantize_multipliers(scales: ArrayLike) -> tuple[Int64Array, Int64Array]:
    """Write non-negative floating-point scales as multiplier * 2**(shift - 31), multiplier in [2**30, 2**31).

    `scales`: float64 array. Returns two int64 arrays of its shape. A scale below 2**-32 gives (0, 0). An infinite
    scale is treated as the largest float64.
    """
    mantissa, exponent = np.frexp(np.minimum(np.asarray(scales, np.float64), _LARGEST_FLOAT))
    multiplier = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    shift = exponent.astype(np.int64)
    carry = multiplier == 1 << 31
    multiplier = np.where(carry, 1 << 30, multiplier)
    shift = np.where(carry, shift + 1, shift)
    tiny = shift < -31
    return np.where(tiny, 0, multiplier), np.where(tiny, 0, shift)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Write one non-negative floating-point scale as (multiplier, shift); see `quantize_multipliers`."""
    if isnan(real):  # rules refuse what becomes of it
        multipliers, shifts = quantize_multipliers([real])
        return int(multipliers[0]), int(shifts[0])
    mantissa, shift = frexp(min(real, _LARGEST_FLOAT))
    multiplier = floor(mantissa * 2.0**31 + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    return (0, 0) if shift < -31 else (multiplier, shift)


def doubling_high_multiply(a: IntArray, b: IntArray | int) -> Int64Array:
    """Return the rounded high word of 2*a*b for int32 values (gemmlowp's SRDHM); int64 of the broadcast shape.

    The rule is n = a*b, n += 2**30 if n >= 0 else 1 - 2**30, n / 2**31 toward zero. For n >= 0 that is floor((n +
    2**30) / 2**31). For n < 0 the numerator n + 1 - 2**30 is negative, so the quotient is its ceiling. ceil(m / d) =
    floor((m + d - 1) / d) turns it into floor((n + 2**30) / 2**31) as well, which is one add and one shift. The case
    that saturates, a = b = -2**31, does not arise: no multiplier is -2**31.
    """
    product: Int64Array = np.multiply(a, b, dtype=np.int64)
    product += 1 << 30
    product >>= 31
    return product


def rounding_divide_by_power(values: IntArray, exponent: IntArray | int) -> IntArray:
    """Return values / 2**exponent rounded to nearest, halves away from zero (gemmlowp's RDPOT).

    Dtype and shape are those of `values`. The rule is (x >> e) + (rem > (mask >> 1) + (x < 0)) with mask = 2**e - 1,
    rem = x & mask. For e >= 1 the increment happens when rem - (x < 0) >= 2**(e-1). The whole is then (x - (x < 0) +
    2**(e-1)) >> e, which is (((x - (x < 0)) >> (e-1)) + 1) >> 1. In this form no step leaves the value range as long
    as x > minimum and, for e = 1, x < maximum; a doubling high multiply by a non-negative multiplier gives no other
    values.
    """
    exponent = np.asarray(exponent)
    if not exponent.any():
        return values
    result = values >> (8 * values.dtype.itemsize - 1)  # -1 for negative values, else 0
    result += values
    result >>= np.maximum(exponent - 1, 0).astype(values.dtype)
    result += 1
    result >>= 1
    return result if exponent.all() else np.where(exponent == 0, values, result)


def multiply_by_quantized_multiplier(
    values: IntArray, multiplier: IntArray | int, shift: IntArray | int, rounding: Rounding = "double"
) -> Int32Array:
    """Return values * multiplier * 2**(shift - 31), rounded, as int32.

    `values` fit int32, or 48 bits under ``reduced``.

    Under ``double``, `shift` is in -31..31, and a left shift (`shift` > 0) wraps to 32 bits as it does in C.
    Under ``single``, `shift` is at least -31, and at most 14 for values beyond int32. A result beyond int32, of
    either sign, is -2**31: the kernel converts a floating-point value to int32, and the processor's conversion gives
    that.
    Under ``reduced``, `shift` is in -31..14.
    """
    multiplier, shift = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    if rounding == "reduced":
        products: Int64Array = np.multiply(values, reduced_multiplier(multiplier), dtype=np.int64)
        products += np.int64(1) << (14 - shift)
        products >>= 15 - shift
        return products.astype(np.int32)
    if rounding == "single":
        if values.dtype.itemsize > 4 and (shift <= 14).all():
            return _rounded_once(_without_16_bits(values, multiplier), shift + 16)
        return _rounded_once(np.asarray(np.multiply(values, multiplier, dtype=np.int64)), shift)
    if (shift > 0).any():
        values = np.left_shift(values, np.maximum(shift, 0), dtype=np.int64).astype(np.int32)
    high = doubling_high_multiply(values, multiplier).astype(np.int32)
    return rounding_divide_by_power(high, -np.minimum(shift, 0)).astype(np.int32, copy=False)


def reduced_multiplier(multiplier: IntArray) -> IntArray:
    """Return the upper 15 bits of int32 multipliers, rounded half up; the largest is 0x7FFF."""
    upper: IntArray = np.minimum((multiplier + (1 << 15)) >> 16, (1 << 15) - 1)
    return upper


def _without_16_bits(values: IntArray, multiplier: IntArray) -> Int64Array:
    """Return floor(values * multiplier / 2**16) for 48-bit values, whose products do not fit int64."""
    upper: Int64Array = np.multiply(values >> 16, multiplier, dtype=np.int64)
    upper += np.multiply(values & 0xFFFF, multiplier, dtype=np.int64) >> 16
    return upper


def _rounded_once(products: Int64Array, shift: IntArray) -> Int32Array:
    """Return products * 2**(shift - 31), halves up, computed in place; -2**31 where that is beyond int32.

    For left shifts, only products within +-2**31 can stay inside int32; for a shift by 31 only 0 and -1 can.
    """
    left, right = np.clip(shift - 31, 0, 31), np.maximum(31 - shift, 0)
    if left.any():
        products = np.where(left > 0, np.clip(products, _SMALLEST, -_SMALLEST) << left, products)
    products += np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
    products >>= right
    products[(products > _LARGEST) | (products < _SMALLEST)] = _SMALLEST
    return products.astype(np.int32)


def clamp(values: IntArray, low: int, high: int, dtype: DTypeLike) -> IntArray:
    """Clamp to low..high and convert to `dtype`, which must hold both bounds."""
    result: IntArray = np.clip(values, low, high).astype(dtype)
    return result


def round_half_away(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Round to the nearest integers as float64, halves away from zero (C's round); exact for float32 and integers."""
    result = np.array(values, np.float64)  # an array even for one element, where numpy would return a scalar
    result += np.copysign(0.5, result)
    return np.trunc(result, out=result)


def quantized_steps(steps: NDArray[np.floating[Any]], zero_point: IntArray | int) -> Int32Array:
    """Round floating-point values to the nearest integers, halves away from zero, and add a zero point.

    Returns int32 in the shape of `steps`, not yet clamped. A value that int32 cannot hold, of either sign, becomes
    -2**31, and so does NaN, as in the processor's conversion. The sum with the zero point wraps. The kernels clamp
    afterwards.
    """
    nearest = round_half_away(steps)
    nearest[~(np.abs(nearest) <= _LARGEST)] = _SMALLEST
    codes = nearest.astype(np.int32)
    codes += np.asarray(zero_point, np.int32)
    return codes


def rounding_divide(sums: IntArray, counts: IntArray | int) -> Int32Array:
    """Return int32 sums / positive counts to nearest, halves away from zero: the division of average pooling.

    Equals (t + n/2) / n for t > 0 and (t - n/2) / n otherwise, in C's division toward zero.
    """
    magnitudes = np.abs(sums)
    magnitudes += np.asarray(counts, magnitudes.dtype) // 2
    magnitudes //= np.asarray(counts, magnitudes.dtype)
    return np.where(sums < 0, -magnitudes, magnitudes).astype(np.int32, copy=False)


def divide_codes(dividends: IntArray, divisors: IntArray, multiplier: int, shift: int) -> Int32Array:
    """Return quotients of 8-bit values minus their zero points, times multiplier * 2**(shift - 31).

    Returns int32 of the broadcast shape. A negative divisor is made positive by negating both operands. Its
    reciprocal has 31 fractional bits. The dividend is shifted left as far as a signed 32-bit word allows.

    The last right shift is often one of more than 31 places, which the kernels' rounding division is not made for.
    There the processor shifts by the lowest 5 bits of the number of places, and a non-negative value is rounded up. A
    quotient by 0, which LiteRT refuses, is 0.
    """
    a, b = np.broadcast_arrays(dividends.astype(np.int64), divisors.astype(np.int64))
    a, b = np.where(b < 0, -a, a), np.abs(b)
    bits = np.frexp(np.maximum(b, 1).astype(np.float64))[1].astype(np.int64)
    reciprocals = one_over_one_plus_x((np.maximum(b, 1) << (32 - bits)) - (1 << 31))
    room = 31 - np.frexp(np.where(a < 0, -a - 0.5, a + 0.0))[1].astype(np.int64)
    quotients = doubling_high_multiply(a << room, reciprocals)
    products = doubling_high_multiply(quotients, multiplier).astype(np.int32)
    right = (bits - 1 + room - shift) & 63
    beyond = (products >> (right & 31)) + (products >= 0)
    rounded = np.where(right > 31, beyond, rounding_divide_by_power(products, np.minimum(right, 31)))
    return np.where(b == 0, 0, rounded).astype(np.int32)


def requantise(
    accumulators: IntArray,
    multiplier: IntArray | int,
    shift: IntArray | int,
    zero_point: int,
    low: int,
    high: int,
    dtype: DTypeLike,
    rounding: Rounding = "double",
) -> IntArray:
    """Requantize int32 or int64 accumulators, add the zero point and clamp to low..high (the output stage).

    `multiplier` and `shift` are scalars, or arrays with one element per channel (the last axis). Returns quantized
    values of `dtype` in the shape of `accumulators`. The work is done in cache-sized blocks, in float64 where that
    gives the exact results (`npusim.isa.arithmetic.float64_stage`).
    """
    codes: IntArray = np.empty(accumulators.shape, dtype)
    source, target = accumulators.reshape(-1), codes.reshape(-1)
    multipliers, shifts = np.ravel(np.asarray(multiplier, np.int64)), np.ravel(np.asarray(shift, np.int64))
    if len(multipliers) != len(shifts):
        multipliers, shifts = np.broadcast_arrays(multipliers, shifts)
    channels = len(multipliers)

    def exact(positions: IntArray | slice, multipliers: IntArray, shifts: IntArray) -> None:
        scaled = multiply_by_quantized_multiplier(source[positions], multipliers, shifts, rounding)
        scaled += np.int32(zero_point)
        target[positions] = np.clip(scaled, low, high)

    if codes.itemsize == 1 and source.itemsize <= 4 and rounding != "reduced":
        clamp = zero_point, low, high, codes.dtype.char
        stage = float64_stage(multipliers.tobytes(), shifts.tobytes(), rounding == "double", *clamp)
        if stage is not None and stage.suits(source):
            doubtful = stage.fill(source, target)
            if len(doubtful):
                exact(doubtful, multipliers[doubtful % channels], shifts[doubtful % channels])
            return codes
    pixels = min(max(1, _BLOCK_ELEMENTS // channels), max(1, source.size // channels))
    multipliers, shifts = np.tile(multipliers, pixels), np.tile(shifts, pixels)
    for start in range(0, source.size, len(shifts)):
        block = slice(start, start + len(shifts))
        count = len(source[block])
        exact(block, multipliers[:count], shifts[:count])
    return codes


def exp_on_negative_values(values: IntArray) -> Int64Array:
    """Return exp(x) for x <= 0: int32 with 26 fractional bits in, 31 fractional bits out.

    The algorithm of gemmlowp (fixedpoint.h). The value is split into a multiple of 1/4 and a rest in [-1/4, 0). The
    rest goes through a Taylor series around -1/8. Each set bit of the multiple contributes the factor exp(-2**k), k =
    -2..4. The largest int32 stands for exp(0) = 1.
    """
    quarter = 1 << 24
    rest = (values & (quarter - 1)).astype(np.int64) - quarter
    result = _exp_above_minus_quarter(rest << 5)
    multiple = rest - values
    for bit, factor in enumerate(_EXP_FACTORS, start=24):
        result = np.where(multiple & (1 << bit), doubling_high_multiply(result, factor), result)
    return np.where(values == 0, _LARGEST, result)


def _exp_above_minus_quarter(values: Int64Array) -> Int64Array:
    """Return exp(a) for a in [-1/4, 0), with 31 fractional bits.

    With x = a + 1/8 it is exp(-1/8) * (1 + x + x^2/2 + x^3/6 + x^4/24). The sum of the last three terms is formed as
    ((x^4/4 + x^3) / 3 + x^2) / 2.
    """
    x = values + (1 << 28)
    square = doubling_high_multiply(x, x)
    cube = doubling_high_multiply(square, x)
    fourth = doubling_high_multiply(square, square)
    tail = doubling_high_multiply(rounding_divide_by_power(fourth, 2) + cube, _ONE_THIRD) + square
    series = x + rounding_divide_by_power(tail, 1)
    return _EXP_MINUS_EIGHTH + doubling_high_multiply(series, _EXP_MINUS_EIGHTH)


def one_over_one_plus_x(values: IntArray) -> Int64Array:
    """Return 1 / (1 + x) for x in [0, 1), 31 fractional bits in and out.

    The algorithm of gemmlowp: three Newton-Raphson steps y += y * (1 - d * y) on d = (1 + x) / 2, starting from 48/17
    - 32/17 * d. y has 29 fractional bits and ends as 1 / d, twice the result.
    """
    half = (values.astype(np.int64) + _LARGEST + 1) >> 1
    y = _48_OVER_17 + doubling_high_multiply(half, _MINUS_32_OVER_17)
    for _ in range(3):
        error = (1 << 29) - doubling_high_multiply(half, y)
        y = y + _shift_left_saturating(doubling_high_multiply(y, error), 2)
    return _shift_left_saturating(y, 1)


def _shift_left_saturating(values: Int64Array, bits: int) -> Int64Array:
    shifted = values << bits
    return np.clip(shifted, -_LARGEST - 1, _LARGEST, out=shifted)


def softmax_scaling(input_scale: float, beta: float) -> tuple[int, int, int]:
    """Return (multiplier, left shift, smallest difference) for `softmax_exponentials`.

    input_scale, beta: scale of the input and factor of the exponent. The floating-point multiplier is beta * scale *
    2**26, at most 2**31 - 1. The smallest difference is the most negative difference of two quantized values that
    still fits 5 integer bits once scaled.
    """
    multiplier, shift = quantize_multiplier(min(beta * input_scale * (1 << 26), float(_LARGEST)))
    return multiplier, shift, -((31 << 26) >> max(shift, 0))


def softmax_exponentials(multiplier: int, left_shift: int, difference_min: int) -> Int64Array:
    """Return the exponentials of the differences -255 to 0 of quantized values, 31 fractional bits: [256].

    `multiplier` and `left_shift` scale a difference to 26 fractional bits. Those below `difference_min` count
    as zero. See `softmax_scaling`.
    """
    differences = np.arange(-255, 1)
    scaled = multiply_by_quantized_multiplier(differences, multiplier, left_shift)
    exponentials = exp_on_negative_values(scaled)
    exponentials[differences < difference_min] = 0
    return exponentials


def softmax_fixed_point(codes: IntArray, exponentials: Int64Array) -> IntArray:
    """Compute softmax along the last axis of int8 or uint8 quantized values; same dtype and shape out.

    exponentials: of the differences to the largest value of a row (`softmax_exponentials`). The output has scale 1/256
    and the smallest value of its type as zero point.

    The rule is the fixed-point softmax of TFLite: exponentials with 31 fractional bits, their sum with 19, times the
    reciprocal of the sum. Sums of more than 31 bits, where TFLite's overflows, go on in the same way.
    """
    limits = np.iinfo(codes.dtype)
    addends = rounding_divide_by_power(exponentials, 12)

    rows = codes.reshape(-1, codes.shape[-1]).astype(np.int64)
    rows += 255 - rows.max(axis=1, keepdims=True)
    sums = addends[rows].sum(axis=1)
    bits = np.frexp(sums.astype(np.float64))[1].astype(np.int64)  # at least 20: exp(0) adds 2**19
    fractions = ((sums << 16) >> (bits - 16)) - (1 << 31)  # sum / 2**(bits - 1) - 1, 31 fractional bits
    products = doubling_high_multiply(exponentials[rows], one_over_one_plus_x(fractions)[:, np.newaxis])
    # The reciprocal is of sum / 2**(bits - 20), so that is divided out; 31 fractional bits become 8.
    shares = rounding_divide_by_power(products, (bits - 20 + 23)[:, np.newaxis]) + int(limits.min)
    return clamp(shares, int(limits.min), int(limits.max), codes.dtype).reshape(codes.shape)
