"""leaky_relu: x, or alpha * x where x is negative, element by element."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import quantize_multipliers
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import moved_in_32_bits
from npusim.kernels.operators.tables.lookup import (
    Int64Array,
    beyond_tables,
    tabulate,
    unary_operator,
)
from npusim.kernels.operators.tables.rectifier import rescale


class Parameters(parameters.Parameters):
    """alpha: the slope where x is negative."""

    alpha: float


def _alpha(call: Call[Parameters]) -> np.float32:
    return np.float32(call.parameters.alpha)


def _codes(call: Call, codes: Int64Array) -> Int64Array:
    """Each sign has its own multiplier; scale quotients are float32."""
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    centred = codes - source.zero_point
    above, below = (rescale(centred, real) for real in _slopes(call))
    return np.where(centred >= 0, above, below) + target.zero_point


def _slopes(call: Call) -> tuple[float, float]:
    """What codes are multiplied by, positive ones and negative ones."""
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    with np.errstate(over="ignore"):
        scale, output_scale = np.float32(source.scale), np.float32(target.scale)
        return float(scale / output_scale), float(scale * _alpha(call) / output_scale)


def _shifts(call: Call) -> tuple[Int64Array, Int64Array]:
    return quantize_multipliers(np.abs(_slopes(call)))


table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""


def _lanes(call: Call[Parameters]) -> tuple[str, float]:
    return "leaky_relu", call.parameters.alpha


OPERATOR = unary_operator(
    "leaky_relu",
    table,
    rules.wide_codes_scaled,
    moved_in_32_bits("input scale / output scale, also times alpha,", _shifts),
    parameters=Parameters,
    whole={"int16": beyond_tables(_codes)},
    lanes=_lanes,
)
