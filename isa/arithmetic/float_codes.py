"""Codes as float32 numbers and back, as ONNX has it: DequantizeLinear, QuantizeLinear, and a fused multiply-add.

Everything here rounds as float32 does, to nearest and halves to even.
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
