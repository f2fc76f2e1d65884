"""Codes as the real numbers that they stand for, in float32, and back: what ONNX means by an operator on codes.

Codes become f32(f32(code - zero point) * scale); results become codes by half to even of f32(result / scale), plus the
zero point, limited to the codes of the type (ONNX: DequantizeLinear and QuantizeLinear).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import element
from npusim.isa.base.tensor import Array, Quantization, TensorType


def reals_of_codes(codes: Array, kind: TensorType) -> Array:
    """Return the float values of quantized values, in float32; elements without scale stay what they are."""
    if not kind.quantized or kind.quantization is None:
        return codes
    scales, zero_points = by_element(kind.quantization, codes.ndim)
    wide: Any = codes
    whole = wide.astype(np.int64) - zero_points if zero_points.any() else wide
    with np.errstate(over="ignore"):  # reals beyond float32 become infinite
        return np.asarray(whole.astype(np.float32) * scales)


def codes_of_results(reals: Array, kind: TensorType, bounds: tuple[int, int] | None = None) -> Array:
    """Return the quantized values of float32 numbers, of no number the smallest.

    bounds: the smallest and largest quantized value, where they are not those of the element type.
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
    """Scales and zero points as they broadcast with what has them."""
    shape = () if scaling.axis is None else (-1,) + (1,) * (rank - 1 - scaling.axis)
    scales, zero_points = np.array(scaling.scales, np.float32), np.array(scaling.zero_points, np.int64)
    return scales.reshape(shape), zero_points.reshape(shape)
