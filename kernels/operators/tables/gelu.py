"""gelu: x times the probability that a standard normal number is below x, element by element."""

from __future__ import annotations

import math

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.erf import error_function
from npusim.kernels.operators.tables.lookup import (
    Float64Array,
    real_function,
    tabulate_real,
    unary_operator,
)


class Parameters(parameters.Parameters):
    """approximate: with a hyperbolic tangent."""

    approximate: bool = False


def _lanes(call: Call[Parameters]) -> tuple[str, float]:
    return ("gelu_by_tanh" if call.parameters.approximate else "gelu"), 0.0


def _once(call: Call[Parameters], x: Float64Array) -> Float64Array:
    if call.parameters.approximate:
        tail = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        tail = error_function(x * math.sqrt(0.5))
    result: Float64Array = 0.5 * x * (1.0 + tail)
    return result


_FUNCTION = real_function(_lanes)

OPERATOR = unary_operator(
    "gelu",
    tabulate_real(_FUNCTION),
    parameters=Parameters,
    lanes=_lanes,
    once=_once,
    interpolates=_FUNCTION,
)
