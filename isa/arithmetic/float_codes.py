"""Quantize and dequantize in float32 as ONNX does: DequantizeLinear, QuantizeLinear, and a fused multiply-add.

Everything here rounds as float32 does, to nearest with halves to even. Requantization in float32 takes five steps:
convert the accumulator (which rounds it above 2**24), multiply by a float32 scale, round to the nearest integer with
halves to even, add the zero point, saturate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from npusim.isa.base.tensor import Float32Array, IntArray

Codes = NDArray[np.integer[Any]]


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def dequantise(codes: Codes, scale: np.float32, zero_point: int) -> Float32Array:
    """Return the float32 numbers that quantized integers of up to 16 bits stand for.

    Each is f32(f32(value - zero_point) * scale), where f32 rounds to float32. The difference is exact, because it fits
    the 24 bits of a float32 significand.
    """
    steps = codes.astype(np.int32) - np.int32(zero_point)
    floats: Float32Array = steps.astype(np.float32) * np.float32(scale)
    return floats


@np.errstate(all="ignore")
def quantise(
    floats: Float32Array, scale: np.float32, zero_point: int, low: int, high: int, dtype: DTypeLike
) -> Codes:
    """Return float32 values as quantized integers of the type `dtype`.

    Each is clamp(rint(f32(value / scale)) + zero_point, low, high), where rint rounds halves to even. NaN gives the
    smallest value of `dtype`.
    """
    return clamped(np.rint(floats / np.float32(scale)) + np.float32(zero_point), low, high, dtype)


def sum_in_order(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sums along the last axis, which keeps one element. Elements are added from first to last.

    The sums have the type of the values. numpy's `sum` may add in another order, which rounds differently.
    """
    total: NDArray[Any] = np.add.accumulate(values, axis=-1)[..., -1:]
    return total


def clamped(steps: Float32Array, low: int, high: int, dtype: DTypeLike) -> Codes:
    """Clamp whole numbers stored as float32 to low..high and convert them to the integer type `dtype`.

    NaN gives the smallest value of `dtype`.
    """
    least = np.float32(np.iinfo(np.dtype(dtype)).min)
    bounded = np.where(np.isnan(steps), least, np.clip(steps, np.float32(low), np.float32(high)))
    codes: Codes = bounded.astype(dtype)
    return codes


@np.errstate(all="ignore")
def multiply_add(factor: np.float32, codes: Codes, addend: Float32Array) -> Float32Array:
    """Return the fused multiply-add factor * value + addend in float32, for quantized values of up to 16 bits.

    The product is exact in float64. Where the sum is not exact, it is rounded to odd (Boldo and Melquiond, "Emulation
    of a FMA and correctly rounded sums", 2008). The second rounding, to float32, then gives the result of a single
    rounding.
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


_BLOCK_ELEMENTS = 1 << 15  # temporaries of a block stay inside a second-level (L2) cache


def requantise_in_float32(
    accumulators: IntArray, scales: Float32Array, zero_point: int, low: int, high: int, dtype: DTypeLike
) -> IntArray:
    """Requantize accumulators in float32: clamp(rint(f32(f32(accumulator) * scale)) + zero_point, low, high).

    accumulators: int32, or int64 for 16-bit feature maps.
    scales: one float32, or one per channel (the last axis).

    Returns quantized values of `dtype` in the shape of `accumulators`. Zero point and bounds fit 17 bits with a sign,
    so adding the zero point in float32 is exact unless the result is clamped. A product that is NaN, from an infinite
    or NaN scale, gives `low`.
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
