"""acosh: the number, 0 or more, whose hyperbolic cosine is x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


def _acosh(call: Call, x: Float32Array) -> Float32Array:
    with np.errstate(all="ignore"):
        result: Float32Array = np.arccosh(x.astype(np.float64)).astype(np.float32)
    return result


def _expand(call: Call) -> Expansion:
    steps = RealSteps(call)
    below, above = steps.pair("sub", 0, steps.number(1.0)), steps.pair("add", 0, steps.number(1.0))
    roots = steps.pair("mul", steps.function("sqrt", below), steps.function("sqrt", above))
    return steps.result(steps.function("log", steps.pair("add", 0, roots)))


table = tabulate_by_value(_acosh)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("acosh", table, on_host=_acosh, expand=_expand)
