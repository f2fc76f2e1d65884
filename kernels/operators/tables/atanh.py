"""atanh: the number whose hyperbolic tangent is x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


def _atanh(call: Call, x: Float32Array) -> Float32Array:
    with np.errstate(all="ignore"):
        result: Float32Array = np.arctanh(x.astype(np.float64)).astype(np.float32)
    return result


def _expand(call: Call) -> Expansion:
    steps = RealSteps(call)
    above, below = steps.pair("add", steps.number(1.0), 0), steps.pair("sub", steps.number(1.0), 0)
    return steps.result(
        steps.pair("mul", steps.function("log", steps.pair("div", above, below)), steps.number(0.5))
    )


table = tabulate_by_value(_atanh)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("atanh", table, on_host=_atanh, expand=_expand)
