"""softplus: the logarithm of 1 + exp(beta * x), divided by beta, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator

_MOST = 20.0
"""A threshold from which on x and the function differ by less than float32 holds."""


class Parameters(parameters.Parameters):
    """beta: how sharply it bends at 0; threshold: where beta * x is more than this, the result is x."""

    beta: float = 1.0
    threshold: float = _MOST


def _softplus(call: Call[Parameters], x: Float32Array) -> Float32Array:
    beta, threshold = np.float64(np.float32(call.parameters.beta)), np.float32(call.parameters.threshold)
    steep = beta * x.astype(np.float64)
    bent = np.logaddexp(0.0, steep) / beta
    result: Float32Array = np.where(steep > threshold, x, bent).astype(np.float32)
    return result


def _expand(call: Call[Parameters]) -> Expansion | None:
    """(max(steep, 0) + log(1 + exp(-|steep|))) / beta, where no threshold would cut the bend."""
    if call.parameters.threshold < _MOST or not call.parameters.beta:
        return None
    steps = RealSteps(call)
    beta = steps.number(call.parameters.beta)
    steep = steps.pair("mul", 0, beta)
    tail = steps.function("exp", steps.function("neg", steps.function("abs", steep)))
    bend = steps.function("log", steps.pair("add", tail, steps.number(1.0)))
    return steps.result(steps.pair("div", steps.pair("add", steps.function("relu", steep), bend), beta))


table = tabulate_by_value(_softplus)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("softplus", table, parameters=Parameters, on_host=_softplus, expand=_expand)
