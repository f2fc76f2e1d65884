"""Dequantization and quantization in float32, as ONNX defines them for operators on quantized values.

Values become f32(f32(value - zero point) * scale). Results become f32(result / scale) rounded half to even, plus the
zero point, limited to the type (ONNX: DequantizeLinear and QuantizeLinear).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import element
from npusim.isa.base.tensor import Array, Quantization, TensorType


def reals_of_codes(codes: Array, kind: TensorType) -> Array:
    """Dequantize values to float32; elements without scale stay as they are."""
    if not kind.quantized or kind.quantization is None:
        return codes
    scales, zero_points = by_element(kind.quantization, codes.ndim)
    wide: Any = codes
    whole = wide.astype(np.int64) - zero_points if zero_points.any() else wide
    with np.errstate(over="ignore"):  # reals beyond float32 become infinite
        return np.asarray(whole.astype(np.float32) * scales)


def codes_of_results(reals: Array, kind: TensorType, bounds: tuple[int, int] | None = None) -> Array:
    """Quantize float32 values; NaN becomes the smallest value.

    bounds: smallest and largest quantized value, by default those of the element type.
    """
    assert kind.quantization is not None
    scales, zero_points = by_element(kind.quantization, reals.ndim)
    low, high = bounds or element(kind.dtype).limits
    wide: Any = reals
    with np.errstate(all="ignore"):
        steps = np.rint(wide.astype(np.float32, copy=False) / scales).astype(np.float64)
    steps = np.where(np.isnan(steps), -np.inf, steps) + zero_points
    return np.asarray(np.clip(steps, low, high).astype(kind.numpy_dtype))


def by_element(scaling: Quantization, rank: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return scales and zero points in shapes that broadcast with the elements."""
    shape = () if scaling.axis is None else (-1,) + (1,) * (rank - 1 - scaling.axis)
    scales, zero_points = np.array(scaling.scales, np.float32), np.array(scaling.zero_points, np.int64)
    return scales.reshape(shape), zero_points.reshape(shape)
