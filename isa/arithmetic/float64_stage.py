"""The requantization of integer sums in float64, with the results of the integer rule.

Let y = sum * multiplier * 2**(shift - 31) and e = max(-shift, 0). A code is floor(y + t + 1/2) plus the zero point,
clamped. With one rounding t is 0. With two and for e > 0, t is 2**-(e+1) with the sign of y: the first rounding adds
half of its last bit, and the second rounds halves away from zero.

All terms are multiples of 2**-(31+e). What is not clamped is within +-256 of the zero point, so terms and sums are
below 2**9. For e <= 13 they fit the 53 bits of a float64, so the result is exact. For larger e the error is below
2**-43, and results within 2**-40 of a step are in doubt.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from npusim.isa.base.tensor import Float64Array, Int64Array, IntArray

_BLOCK_ELEMENTS = 1 << 15  # temporaries of a block stay inside a second-level (L2) cache
_MOST_CERTAIN_SHIFT = 13  # right shift up to which results are exact for all sums
_DOUBT = 2.0**-40
_LARGEST_SUM = 1 << 30
"""Limit of sums after a left shift, so that no step of the integer rule wraps around or saturates."""


class Float64Stage(NamedTuple):
    """An output stage in float64: code = floor(sum * scale +- tie + offset), clipped to lowest..highest.

    scale, tie, offset: one element, or one per channel. `tie` has the sign of the product.
    has_tie:  whether `tie` counts. It does not if only sums of one sign matter; then `offset` has it.
    flip:     the bit to invert in a code: codes of int8 are computed with an offset of 128, so that none is negative.
    in_doubt: whether results close to a step of the floor must be checked.
    left:     the largest left shift; negative if all are right shifts.
    """

    scale: Float64Array
    tie: Float64Array
    offset: Float64Array
    has_tie: bool
    lowest: float
    highest: float
    flip: int
    in_doubt: bool
    left: int

    def suits(self, sums: IntArray) -> bool:
        """Return whether the integer rule neither wraps around nor saturates for these sums."""
        if self.left < 0 or not sums.size:
            return True
        return max(int(sums.max()), -int(sums.min())) << self.left < _LARGEST_SUM

    def fill(self, sums: IntArray, codes: IntArray) -> Int64Array:
        """Requantize sums [pixels * channels] into `codes` and return the positions of results that are in doubt.

        Operands of a block are one-dimensional and of one length, channels repeated: numpy has vector code for that.
        """
        channels = len(self.scale)
        pixels = max(1, min(_BLOCK_ELEMENTS, sums.size) // channels)
        scale, tie, offset = self.scale, self.tie, self.offset
        if channels > 1 and pixels > 1:
            scale, tie, offset = (np.tile(column, pixels) for column in (scale, tie, offset))
        values, spare = np.empty(pixels * channels), np.empty(pixels * channels)
        results = codes.view(np.uint8)
        doubtful: list[Int64Array] = []
        for start in range(0, sums.size, len(values)):
            block = sums[start : start + len(values)]
            x, other, target = values[: len(block)], spare[: len(block)], results[start : start + len(block)]
            if channels > 1 and len(block) < len(scale):
                scale, tie, offset = scale[: len(block)], tie[: len(block)], offset[: len(block)]
            np.copyto(x, block)
            x *= scale
            if self.has_tie:
                np.copysign(tie, x, out=other)
                x += other
            x += offset
            if self.in_doubt:
                np.rint(x, out=other)
                other -= x
                np.abs(other, out=other)
                doubtful.append(np.flatnonzero(other < _DOUBT) + start)
            x.clip(self.lowest, self.highest, out=x)
            np.copyto(target, x, casting="unsafe")
            if self.flip:
                target ^= np.uint8(self.flip)
        return np.concatenate(doubtful) if doubtful else np.empty(0, np.int64)


@lru_cache(maxsize=256)
def float64_stage(
    multipliers: bytes, shifts: bytes, rounds_twice: bool, zero_point: int, low: int, high: int, dtype: str
) -> Float64Stage | None:
    """Return the output stage for 8-bit results in float64, or None if it could differ from the integer rule.

    That is rare. Results are cached, because all tiles of a layer and all its runs share one output stage.

    multipliers, shifts: int64 arrays of one length, as bytes.
    dtype: the character of the codes' type.
    """
    factors, shift = np.frombuffer(multipliers, np.int64), np.frombuffer(shifts, np.int64)
    if max(abs(low - zero_point), abs(high - zero_point)) > 255 or int(factors.min()) < 0:
        return None
    if (factors == factors[0]).all() and (shift == shift[0]).all():
        factors, shift = factors[:1], shift[:1]
    right = np.maximum(-shift, 0)
    tie = np.where(right > 0, np.ldexp(0.5, -right), 0) if rounds_twice else np.zeros(len(right))
    # Only sums of one sign matter if the zero point is at an end of the range.
    sign = int(low >= zero_point) - int(low < zero_point >= high)
    flip = 128 if np.dtype(dtype).kind == "i" else 0
    return Float64Stage(
        np.ldexp(factors.astype(np.float64), shift - 31),
        tie,
        0.5 + sign * tie + (zero_point + flip),
        bool(not sign and tie.any()),
        low + flip,
        high + flip + 0.5,
        flip,
        int(right.max()) > _MOST_CERTAIN_SHIFT,
        int(shift.max()),
    )
