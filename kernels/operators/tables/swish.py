"""swish: x times the logistic function of beta * x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


class Parameters(parameters.Parameters):
    """beta: what x is multiplied by in the logistic function."""

    beta: float = 1.0


def _swish(call: Call[Parameters], x: Float32Array) -> Float32Array:
    wide, beta = x.astype(np.float64), float(np.float32(call.parameters.beta))
    result: Float32Array = (wide / (1 + np.exp(-beta * wide))).astype(np.float32)
    return result


def _expand(call: Call[Parameters]) -> Expansion:
    steps = RealSteps(call)
    beta = call.parameters.beta
    steep = 0 if beta == 1 else steps.pair("mul", 0, steps.number(beta))
    return steps.result(steps.pair("mul", 0, steps.function("logistic", steep)))


table = tabulate_by_value(_swish)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("swish", table, parameters=Parameters, on_host=_swish, expand=_expand)
