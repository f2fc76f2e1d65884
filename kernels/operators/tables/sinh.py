"""sinh: the hyperbolic sine of x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


def _sinh(call: Call, x: Float32Array) -> Float32Array:
    with np.errstate(all="ignore"):
        result: Float32Array = np.sinh(x.astype(np.float64)).astype(np.float32)
    return result


def _expand(call: Call) -> Expansion:
    steps = RealSteps(call)
    halves = (steps.function("exp", 0), steps.function("exp", steps.function("neg", 0)))
    return steps.result(steps.pair("mul", steps.pair("sub", *halves), steps.number(0.5)))


table = tabulate_by_value(_sinh)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("sinh", table, on_host=_sinh, expand=_expand)
