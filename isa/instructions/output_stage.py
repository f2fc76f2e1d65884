"""The output stage of the MAC array: the parameter block of a tile, and what becomes of accumulators.

The block holds, for n channels, n int32 biases, then the scales: n of them if each channel has its own, else one. In
fixed point a scale is a multiplier (int32) and a shift (int8), all multipliers before all shifts; in float32 it is a
float32. Of int16 feature maps biases are int64, and behind the scales come the smallest and the largest result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.float_codes import requantise_in_float32
from npusim.isa.arithmetic.integer import IntArray, Rounding, requantise

RESCALES = ("fixed_point", "float32")
BIAS_BYTES = 4
FIXED_POINT_BYTES = 5
"""A multiplier and a shift."""
FLOAT32_BYTES = 4
BOUNDS_BYTES = 4
"""The smallest and the largest result, of int16 results."""


class Finish(NamedTuple):
    """What the output stage does, and what it gives: codes, or words, from `low` to `high` of type `dtype`."""

    in_float32: bool
    single_rounding: bool
    zero_point: int
    low: int
    high: int
    dtype: Any

    def of(self, accumulators: NDArray[Any], block: bytes, per_channel: bool) -> IntArray:
        """Results of int32 or int64 sums, channels last; the bias is added to them in place and wraps to their bits."""
        channels, size = accumulators.shape[-1], accumulators.dtype.itemsize
        scales, behind = channels if per_channel else 1, size * channels
        accumulators += np.frombuffer(block, f"<i{size}", channels)
        clamp = self.zero_point, self.low, self.high, self.dtype
        if size > BIAS_BYTES:
            place = behind + scales * (FLOAT32_BYTES if self.in_float32 else FIXED_POINT_BYTES)
            low, high = np.frombuffer(block, "<i2", 2, place).tolist()
            clamp = self.zero_point, low, high, self.dtype
        if self.in_float32:
            return requantise_in_float32(accumulators, np.frombuffer(block, "<f4", scales, behind), *clamp)
        multiplier = np.frombuffer(block, "<i4", scales, behind)
        shift = np.frombuffer(block, np.int8, scales, behind + 4 * scales).astype(np.int64)
        rounding: Rounding = "single" if self.single_rounding else "double"
        return requantise(accumulators, multiplier, shift, *clamp, rounding)


def parameter_bytes(channels: int, per_channel: bool, in_float32: bool, int16: bool = False) -> int:
    """Bytes of the parameter block of so many channels."""
    scale_bytes = FLOAT32_BYTES if in_float32 else FIXED_POINT_BYTES
    rest = scale_bytes * (channels if per_channel else 1)
    return (2 * BIAS_BYTES * channels + BOUNDS_BYTES if int16 else BIAS_BYTES * channels) + rest
