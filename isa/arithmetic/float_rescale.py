"""Rescaling in float32, as ONNX has it: what is left of an accumulator is one product with a float32 scale.

The accumulator becomes float32, which rounds it above 2**24; the product is rounded to float32, then to the nearest
whole number, halves to even; the zero point is added and the sum saturates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

IntArray = NDArray[np.integer[Any]]
Float32Array = NDArray[np.float32]

_BLOCK_ELEMENTS = 1 << 15  # temporaries of a block stay inside a second-level cache


def requantise_in_float32(
    accumulators: IntArray, scales: Float32Array, zero_point: int, low: int, high: int, dtype: DTypeLike
) -> IntArray:
    """The output stage in float32: clamp(rint(f32(f32(accumulator) * scale)) + zero_point, low, high).

    `accumulators`: int32, or int64 of codes of 16 bits; `scales`: one float32, or as many as the last axis is long.
    Zero point and bounds lie within 17 bits with a sign, so a sum in float32 is exact where it is not clamped. Returns
    codes of `dtype` in the shape of `accumulators`. A scale that is infinite or no number gives `low` where the
    product is no number.
    """
    codes: IntArray = np.empty(accumulators.shape, dtype)
    source, target = accumulators.reshape(-1), codes.reshape(-1)
    channels = np.ravel(scales)
    pixels = min(max(1, _BLOCK_ELEMENTS // len(channels)), max(1, source.size // len(channels)))
    factors = np.tile(channels, pixels)
    lows, highs = np.full(len(factors), low, np.float32), np.full(len(factors), high, np.float32)
    sound = bool(np.isfinite(channels).all())
    values = np.empty_like(factors)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in range(0, source.size, len(factors)):
            block = source[start : start + len(factors)]
            x = values[: len(block)]
            np.copyto(x, block, casting="unsafe")
            x *= factors[: len(block)]
            np.rint(x, out=x)
            x += np.float32(zero_point)
            if not sound:
                x[np.isnan(x)] = low
            np.maximum(x, lows[: len(block)], out=x)
            np.minimum(x, highs[: len(block)], out=x)
            np.copyto(target[start : start + len(block)], x, casting="unsafe")
    return codes
