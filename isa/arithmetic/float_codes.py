"""Codes as float32 numbers and back, as ONNX has it: DequantizeLinear, QuantizeLinear, and a fused multiply-add.

Everything here rounds as float32 does, to nearest and halves to even. Requantization in float32 converts the
accumulator, which rounds it above 2**24, multiplies it by a float32 scale, rounds to the nearest whole number, halves
to even, adds the zero point, and saturates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Float32Array = NDArray[np.float32]
Codes = NDArray[np.integer[Any]]


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def dequantise(codes: Codes, scale: np.float32, zero_point: int) -> Float32Array:
    """f32(f32(code - zero_point) * scale) of codes of up to 16 bits, whose difference is exact."""
    steps = codes.astype(np.int32) - np.int32(zero_point)
    reals: Float32Array = steps.astype(np.float32) * np.float32(scale)
    return reals


@np.errstate(all="ignore")
def quantise(
    reals: Float32Array, scale: np.float32, zero_point: int, low: int, high: int, dtype: DTypeLike
) -> Codes:
    """Codes clamp(rint(f32(real / scale)) + zero_point, low, high), and of no number the smallest of the type."""
    return clamped(np.rint(reals / np.float32(scale)) + np.float32(zero_point), low, high, dtype)


def sum_in_order(values: NDArray[Any]) -> NDArray[Any]:
    """Sums along the last axis, one after the other and in the type of the values; the axis stays, with one element."""
    total: NDArray[Any] = np.add.accumulate(values, axis=-1)[..., -1:]
    return total


def clamped(steps: Float32Array, low: int, high: int, dtype: DTypeLike) -> Codes:
    """Whole numbers in float32 as codes within low..high, and of no number the smallest of the type."""
    least = np.float32(np.iinfo(np.dtype(dtype)).min)
    bounded = np.where(np.isnan(steps), least, np.clip(steps, np.float32(low), np.float32(high)))
    codes: Codes = bounded.astype(dtype)
    return codes


@np.errstate(all="ignore")
def multiply_add(factor: np.float32, codes: Codes, addend: Float32Array) -> Float32Array:
    """f32(factor * code + addend) with one rounding, for codes of up to 16 bits.

    The product is exact in float64. Where the sum is not, it is rounded to odd (Boldo and Melquiond, "Emulation of a
    FMA and correctly rounded sums", 2008), so that the second rounding, to float32, gives what a single one gives.
    """
    product = np.float64(factor) * codes.astype(np.float64)
    wide = addend.astype(np.float64)
    total = np.asarray(product + wide)
    behind = total - product
    error = (product - (total - behind)) + (wide - behind)
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even, np.nextafter(total, toward), total)
    result: Float32Array = odd.astype(np.float32)
    return result


IntArray = NDArray[np.integer[Any]]

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
