"""leaky_relu: x, or alpha * x where x is negative, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.lookup import Float32Array, Int64Array, tabulate, unary_operator
from npusim.kernels.operands import input_type, quantization
from npusim.kernels.operator import Call
from npusim.kernels.rectifier import rescale


def _alpha(call: Call) -> np.float32:
    return np.float32(call.attributes["alpha"])


def _real(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = np.where(x > 0, x, x * _alpha(call))
    return result


def _codes(call: Call, codes: Int64Array) -> Int64Array:
    """Each sign has its own multiplier; scale quotients are float32."""
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    input_scale, output_scale = np.float32(source.scale), np.float32(target.scale)
    centred = codes - source.zero_point
    above = rescale(centred, float(input_scale / output_scale))
    below = _rescale_signed(centred, float(input_scale * _alpha(call) / output_scale))
    return np.where(centred >= 0, above, below) + target.zero_point


def _rescale_signed(values: Int64Array, real: float) -> Int64Array:
    """A negative slope is a negative multiplier; rounding is symmetric, so the sign may go to the values."""
    return rescale(-values, -real) if real < 0 else rescale(values, real)


def _finite_slope(call: Call) -> bool:
    """alpha is a finite number"""
    return bool(np.isfinite(call.attributes.get("alpha", np.nan)))


table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("leaky_relu", table, _real, _finite_slope)
