"""The bias of a weighted sum of quantized values: part of the int32 sum, or a number on a scale of its own.

A bias adds to the int32 accumulator only if its scale is input scale times weight scale. `bias_fault` says for every
front end whether it is. What follows is the format's to say: NN HAL and NNAdapter demand that scale, so another one is
refused; LiteRT refuses it or does not look, and so does the reader of its files, which says so; NNEF and ONNX give a
bias the value that its own scale says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Quantization

Scales = NDArray[np.float32]

_TOLERANCE = 1e-6
"""Relative. Converters multiply in float32 or float64, which differs by a rounding; NNAPI's runtime allows as much."""


def products(ifm: Quantization, weights: Quantization) -> Scales:
    """Scales of the sums, float32: one, or one per output channel."""
    with np.errstate(all="ignore"):
        return np.float32(ifm.scale) * np.array(weights.scales, np.float32)


def of_sums(ifm: Quantization, weights: Quantization) -> Quantization:
    """The quantization of a bias that adds to the sums."""
    scales = products(ifm, weights).tolist()
    return Quantization(tuple(scales), (0,) * len(scales), None if weights.axis is None else 0)


def same_scales(own: Sequence[float], sums: Scales) -> bool:
    """Whether scales of a bias are those of the sums. One scale stands for all channels."""
    scales = np.array(own, np.float32)
    if 1 not in (scales.size, sums.size) and scales.size != sums.size:
        return False
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(scales - sums) <= _TOLERANCE * np.minimum(scales, sums)))


def bias_fault(dtype: str, bias: Quantization | None, ifm: Quantization, weights: Quantization) -> str | None:
    """Why a bias is no part of the sums of a quantized input and quantized weights; None if it is."""
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
    """The first different scales as text."""
    shown = list(dict.fromkeys(f"{scale:.7g}" for scale in scales))
    return ", ".join(shown[:3]) + ", ..." * (len(shown) > 3)
