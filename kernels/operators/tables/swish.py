"""swish: x times the logistic function of x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


def _swish(call: Call, x: Float32Array) -> Float32Array:
    wide = x.astype(np.float64)
    result: Float32Array = (wide / (1 + np.exp(-wide))).astype(np.float32)
    return result


def _expand(call: Call) -> Expansion:
    steps = RealSteps(call)
    return steps.result(steps.pair("mul", 0, steps.function("logistic", 0)))


table = tabulate_by_value(_swish)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("swish", table, on_host=_swish, expand=_expand)
