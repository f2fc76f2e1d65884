"""Integer arithmetic of the output stage and the vector unit, equal to the LiteRT reference kernels.

Real scales become an int32 multiplier and a power of two; products are rounded in one of two ways:

* ``double``: a rounding doubling high multiply, then a rounding right shift (every operator but one);
* ``single``: one rounding of the exact product, half up (fully connected).

Everything works on whole arrays. A multiplier and a shift are numbers, or arrays along the last axis, the
channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Rounding = Literal["double", "single"]
IntArray = NDArray[np.integer[Any]]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

_BLOCK_ELEMENTS = 1 << 14  # int64 temporaries of a block stay inside a second-level cache
_RUN_ELEMENTS = 1 << 10  # shortest run that numpy walks without visible overhead


def quantize_multipliers(reals: ArrayLike) -> tuple[Int64Array, Int64Array]:
    """Write non-negative reals as multiplier * 2**(shift - 31) with multiplier in [2**30, 2**31).

    `reals`: finite float64 array. Returns two int64 arrays of its shape; a real below 2**-32 gives (0, 0)
    and one that needs a shift above 30 the largest pair, (2**31 - 1, 30).
    """
    mantissa, exponent = np.frexp(np.asarray(reals, dtype=np.float64))
    multiplier = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    shift = exponent.astype(np.int64)
    carry = multiplier == 1 << 31
    multiplier = np.where(carry, 1 << 30, multiplier)
    shift = np.where(carry, shift + 1, shift)
    tiny, huge = shift < -31, shift > 30
    multiplier = np.where(tiny, 0, np.where(huge, (1 << 31) - 1, multiplier))
    return multiplier, np.where(tiny, 0, np.minimum(shift, 30))


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Write one non-negative real as (multiplier, shift); see `quantize_multipliers`."""
    multiplier, shift = quantize_multipliers([real])
    return int(multiplier[0]), int(shift[0])


def doubling_high_multiply(a: IntArray, b: IntArray | int) -> Int64Array:
    """SRDHM: the rounded high word of 2*a*b, for int32 values; int64 array of the broadcast shape.

    The rule is n = a*b, n += 2**30 if n >= 0 else 1 - 2**30, n / 2**31 toward zero. For n >= 0 that is
    floor((n + 2**30) / 2**31). For n < 0 the numerator n + 1 - 2**30 is negative, so the quotient is its
    ceiling, and ceil(m / d) = floor((m + d - 1) / d) turns it into floor((n + 2**30) / 2**31) as well: one
    add, one shift. The case that saturates, a = b = -2**31, does not arise: multipliers are not negative.
    """
    product: Int64Array = np.multiply(a, b, dtype=np.int64)
    product += 1 << 30
    product >>= 31
    return product


def rounding_divide_by_power(values: IntArray, exponent: IntArray | int) -> IntArray:
    """RDPOT: values / 2**exponent, rounded to nearest, halves away from zero; dtype and shape of `values`.

    The rule is (x >> e) + (rem > (mask >> 1) + (x < 0)) with mask = 2**e - 1, rem = x & mask. For e >= 1 the
    increment happens when rem - (x < 0) >= 2**(e-1), hence the whole is (x - (x < 0) + 2**(e-1)) >> e, which
    is (((x - (x < 0)) >> (e-1)) + 1) >> 1: in this form no step leaves the value range as long as x > minimum
    and, for e = 1, x < maximum; a doubling high multiply by a non-negative multiplier gives no other values.
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
    """values * multiplier * 2**(shift - 31), rounded; `values` within int32, result int32 of the same shape.

    A left shift (`shift` > 0) of values under ``double``, and a result under ``single``, wrap to 32 bits as
    they do in C. `shift` lies in -31..30.
    """
    multiplier, shift = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    if rounding == "single":
        product: Int64Array = np.multiply(values, multiplier, dtype=np.int64)
        product += np.int64(1) << (30 - shift)
        product >>= 31 - shift
        return product.astype(np.int32)
    if (shift > 0).any():
        values = np.left_shift(values, np.maximum(shift, 0), dtype=np.int64).astype(np.int32)
    high = doubling_high_multiply(values, multiplier).astype(np.int32)
    return rounding_divide_by_power(high, -np.minimum(shift, 0)).astype(np.int32, copy=False)


def clamp(values: IntArray, low: int, high: int, dtype: DTypeLike) -> IntArray:
    """Saturate to low..high and convert to `dtype`, which must hold both bounds."""
    result: IntArray = np.clip(values, low, high).astype(dtype)
    return result


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
    """The output stage: rescale int32 accumulators, add the zero point, clamp to low..high.

    `multiplier` and `shift` are numbers or arrays as long as the last axis. Returns codes of `dtype` in the
    shape of `accumulators`. Works block by block so that temporaries stay in the cache, whatever the size.
    """
    codes: IntArray = np.empty(accumulators.shape, dtype)
    for source, target, block_multiplier, block_shift in _blocks(accumulators, codes, multiplier, shift):
        scaled = multiply_by_quantized_multiplier(source, block_multiplier, block_shift, rounding)
        scaled += np.int32(zero_point)
        np.clip(scaled, low, high, out=scaled)
        target[...] = scaled
    return codes


def _blocks(
    source: IntArray, target: IntArray, multiplier: IntArray | int, shift: IntArray | int
) -> Iterator[tuple[IntArray, IntArray, IntArray, IntArray]]:
    """Cut two arrays of one shape into matching cache-sized views, with the multipliers that fit each.

    Channels are short runs on which numpy spends more on bookkeeping than on arithmetic: where there are few,
    several pixels form one row and the per-channel values are repeated to match.
    """
    multiplier, shift = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    channels = max(multiplier.size, shift.size)
    if channels == 1:
        multiplier, shift = multiplier.reshape(()), shift.reshape(())
    source, target = source.reshape(-1, channels), target.reshape(-1, channels)
    pixels_per_row = max(1, _RUN_ELEMENTS // channels)
    whole = len(source) - len(source) % pixels_per_row
    parts = ((0, whole, pixels_per_row), (whole, len(source), 1))
    for start, stop, pixels in parts:
        width = pixels * channels
        rows, targets = source[start:stop].reshape(-1, width), target[start:stop].reshape(-1, width)
        row_multiplier = np.tile(multiplier, pixels) if multiplier.size > 1 else multiplier
        row_shift = np.tile(shift, pixels) if shift.size > 1 else shift
        step = max(1, _BLOCK_ELEMENTS // width)
        for row in range(0, len(rows), step):
            yield rows[row : row + step], targets[row : row + step], row_multiplier, row_shift
