"""tan: the tangent of x in radians, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


def _tan(call: Call, x: Float32Array) -> Float32Array:
    with np.errstate(all="ignore"):
        result: Float32Array = np.tan(x.astype(np.float64)).astype(np.float32)
    return result


def _expand(call: Call) -> Expansion:
    steps = RealSteps(call)
    return steps.result(steps.pair("div", steps.function("sin", 0), steps.function("cos", 0)))


table = tabulate_by_value(_tan)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("tan", table, on_host=_tan, expand=_expand)
