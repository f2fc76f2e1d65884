"""gelu: x times the probability that a standard normal number is below x, element by element."""

from __future__ import annotations

import math

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


class Parameters(parameters.Parameters):
    """approximate: with a hyperbolic tangent."""

    approximate: bool = False


def _gelu(call: Call[Parameters], x: Float32Array) -> Float32Array:
    wide = x.astype(np.float64)
    if call.parameters.approximate:
        tail = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
    else:
        tail = np.vectorize(math.erf, otypes=[np.float64])(wide / math.sqrt(2))
    result: Float32Array = (wide * (1 + tail) / 2).astype(np.float32)
    return result


OPERATOR = unary_operator("gelu", tabulate_real(_gelu), _gelu, parameters=Parameters)
