"""Scales and zero points from ranges, and quantized constants, as TFLite's post-training quantization has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array, Quantization
from npusim.quantization.ranges import Range

LEAST, MOST = -128, 127
LARGEST_INT16 = 32767
"""Largest int16 activation. Activations are symmetric, so -32768 is not used."""
LARGEST_WEIGHT = 127
"""Largest int8 weight. Weights are symmetric, so -128 is not used."""
_LARGEST_BIAS = {"int32": 2**31 - 1, "int64": 2**47 - 1}
"""Largest bias by element type; LiteRT's requantization of 64-bit sums accepts sums below 2**47."""


def asymmetric(bounds: Range) -> Quantization:
    """Return the int8 quantization of a range, widened to include zero; the smallest value is -128."""
    least, most = min(bounds.least, 0.0), max(bounds.most, 0.0)
    scale = float(np.float32((most - least) / (MOST - LEAST)))
    if not scale:
        return Quantization((1.0,), (0,))
    point = min(max(int(_rounded(LEAST - least / scale)), LEAST), MOST)
    return Quantization((scale,), (point,))


def symmetric_int16(bounds: Range) -> Quantization:
    """Return the int16 quantization of a range, with zero point 0."""
    scale = float(np.float32(max(-bounds.least, bounds.most) / LARGEST_INT16))
    return Quantization((scale or 1.0,), (0,))


def symmetric(weights: Array, axis: int | None) -> NDArray[np.float64]:
    """Return the scales of weights, one per channel along an axis, or one for all (None)."""
    magnitudes: Any = np.abs(weights.astype(np.float64))
    if axis is not None:
        others = tuple(other for other in range(weights.ndim) if other != axis)
        largest = magnitudes.max(others, initial=0.0)
    else:
        largest = magnitudes.max(initial=0.0).reshape(1)
    scales: NDArray[np.float64] = np.where(largest > 0, largest, LARGEST_WEIGHT) / LARGEST_WEIGHT
    return scales.astype(np.float32).astype(np.float64)


def wide_enough(
    weights: NDArray[np.float64], of_input: float, bias: Array | None, dtype: str
) -> NDArray[np.float64]:
    """Return scales of weights, enlarged where the bias would otherwise overflow its element type."""
    if bias is None:
        return weights
    largest: Any = np.abs(bias.reshape(-1).astype(np.float64))
    least = (largest if len(weights) > 1 else largest.max(initial=0.0)) / (
        of_input * _LARGEST_BIAS[dtype] / 2
    )
    wide: NDArray[np.float64] = np.maximum(weights, least).astype(np.float32).astype(np.float64)
    return wide


def codes(values: Array, scheme: Quantization, dtype: str) -> Array:
    """Return quantized values: rounded to nearest, halves away from zero, and clipped."""
    along = [1] * values.ndim
    if scheme.axis is not None:
        along[scheme.axis] = -1
    steps: Any = values.astype(np.float64) / np.array(scheme.scales).reshape(along)
    limits = np.iinfo(dtype)
    whole = _rounded(steps) + np.array(scheme.zero_points).reshape(along)
    quantized: Array = np.clip(whole, limits.min, limits.max).astype(dtype)
    return quantized


def _rounded(values: Any) -> Any:
    return np.copysign(np.floor(np.abs(values) + 0.5), values)
