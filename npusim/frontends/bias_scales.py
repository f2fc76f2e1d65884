"""Scale of the bias of a quantized convolution or matrix product, checked for every front end.

A bias can be added to the int32 accumulator only if its scale is input scale times weight scale; `bias_fault` tests
this. The format decides what happens otherwise. NN HAL and NNAdapter demand that scale, so a model with another one is
refused. LiteRT refuses some and ignores the scale of others, and so does the reader of TFLite files, with a note. In
NNEF and ONNX the bias keeps the value that it has on its own scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Quantization

Scales = NDArray[np.float32]

_TOLERANCE = 1e-6
"""Relative tolerance between scales: converters multiply in float32 or float64, and NNAPI's runtime allows as much."""


def products(ifm: Quantization, weights: Quantization) -> Scales:
    """Return the scales of the accumulator, input scale times weight scale, float32: one, or one per output channel."""
    with np.errstate(all="ignore"):
        return np.float32(ifm.scale) * np.array(weights.scales, np.float32)


def of_sums(ifm: Quantization, weights: Quantization) -> Quantization:
    """Return the quantization of a bias that adds directly to the accumulator."""
    scales = products(ifm, weights).tolist()
    return Quantization(tuple(scales), (0,) * len(scales), None if weights.axis is None else 0)


def same_scales(own: Sequence[float], sums: Scales) -> bool:
    """Return whether the scales of a bias are those of the accumulator; a single scale applies to all channels."""
    scales = np.array(own, np.float32)
    if 1 not in (scales.size, sums.size) and scales.size != sums.size:
        return False
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(scales - sums) <= _TOLERANCE * np.minimum(scales, sums)))


def bias_fault(dtype: str, bias: Quantization | None, ifm: Quantization, weights: Quantization) -> str | None:
    """Return why a bias cannot be added to the int32 accumulator of a quantized product; None if it can."""
    sums = products(ifm, weights)
    own = "no scale" if bias is None else f"scale {_listed(bias.scales)}"
    points = () if bias is None else bias.zero_points
    if dtype == "int32" and bias is not None and not any(points) and same_scales(bias.scales, sums):
        return None
    zero = f" and zero point {points[0]}" if any(points) else ""
    return (
        f"the bias is {dtype} with {own}{zero}, must be int32 with input scale times weight scale, "
        f"{_listed(sums)}, and zero point 0; requantize it"
    )


def _listed(scales: Sequence[float] | Scales) -> str:
    """Return the first three distinct scales as text."""
    shown = list(dict.fromkeys(f"{scale:.7g}" for scale in scales))
    return ", ".join(shown[:3]) + ", ..." * (len(shown) > 3)
