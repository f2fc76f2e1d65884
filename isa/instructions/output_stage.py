"""The output stage of the MAC array: bias, requantization and clamp of sums, and the parameter block of a tile.

The block holds, for n channels, n int32 biases, then the scales: n of them if each channel has its own, else one. In
fixed point a scale is a multiplier (int32) and a shift (int8), all multipliers before all shifts. In float32 it is a
float32. For int16 feature maps, biases are int64, and the smallest and the largest result (int16) follow the scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.float_codes import requantise_in_float32
from npusim.isa.arithmetic.integer import Rounding, requantise
from npusim.isa.base.tensor import IntArray

RESCALES = ("fixed_point", "float32")
BIAS_BYTES = 4
FIXED_POINT_BYTES = 5
"""Bytes of a fixed-point scale: an int32 multiplier and an int8 shift."""
FLOAT32_BYTES = 4
BOUNDS_BYTES = 4
"""Bytes of the smallest and the largest result, if results are int16."""


class Finish(NamedTuple):
    """The settings of the output stage: arithmetic, rounding, zero point, and the range and type of results."""

    in_float32: bool
    single_rounding: bool
    zero_point: int
    low: int
    high: int
    dtype: Any

    def of(self, accumulators: NDArray[Any], block: bytes, per_channel: bool) -> IntArray:
        """Return the results of int32 or int64 sums [..., channels].

        The bias is added to `accumulators` in place and wraps around at their width, like the hardware's registers.

        block: the parameter block of the tile.
        """
        channels, size = accumulators.shape[-1], accumulators.dtype.itemsize
        scales, behind = channels if per_channel else 1, size * channels
        accumulators += np.frombuffer(block, f"<i{size}", channels)
        clamp = self.zero_point, self.low, self.high, self.dtype
        if size > BIAS_BYTES:
            offset = behind + scales * (FLOAT32_BYTES if self.in_float32 else FIXED_POINT_BYTES)
            low, high = np.frombuffer(block, "<i2", 2, offset).tolist()
            clamp = self.zero_point, low, high, self.dtype
        if self.in_float32:
            return requantise_in_float32(accumulators, np.frombuffer(block, "<f4", scales, behind), *clamp)
        multiplier = np.frombuffer(block, "<i4", scales, behind)
        shift = np.frombuffer(block, np.int8, scales, behind + 4 * scales).astype(np.int64)
        rounding: Rounding = "single" if self.single_rounding else "double"
        if rounding == "double":  # the products of two roundings take 32 bits, to which LiteRT's sums wrap
            accumulators = accumulators.astype(np.int32, copy=False)
        return requantise(accumulators, multiplier, shift, *clamp, rounding)


def parameter_bytes(channels: int, per_channel: bool, in_float32: bool, int16: bool = False) -> int:
    """Return the bytes of the parameter block for a number of channels."""
    scale_bytes = FLOAT32_BYTES if in_float32 else FIXED_POINT_BYTES
    rest = scale_bytes * (channels if per_channel else 1)
    return (2 * BIAS_BYTES * channels + BOUNDS_BYTES if int16 else BIAS_BYTES * channels) + rest


def joined_block(blocks: Sequence[bytes], channels: Sequence[int], per_channel: bool) -> tuple[bytes, bool]:
    """Join the parameter blocks of several tiles. Return the joined block, and whether it has a scale per channel.

    The tiles have int32 biases.
    """
    biases = [block[: BIAS_BYTES * count] for block, count in zip(blocks, channels, strict=True)]
    scales = [block[BIAS_BYTES * count :] for block, count in zip(blocks, channels, strict=True)]
    if not per_channel and len(set(scales)) == 1:
        return b"".join((*biases, scales[0])), False
    counts = channels if per_channel else [1] * len(scales)
    repeats = [1] * len(scales) if per_channel else channels
    # All multipliers (or float32 scales) come before all shifts.
    parts = [
        [scale[: 4 * count] * repeat, scale[4 * count :] * repeat]
        for scale, count, repeat in zip(scales, counts, repeats, strict=True)
    ]
    return b"".join((*biases, *(part[0] for part in parts), *(part[1] for part in parts))), True
