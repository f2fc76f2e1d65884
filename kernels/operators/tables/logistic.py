"""logistic: 1 / (1 + exp(-x)), element by element."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.interpolated import logistic_words
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.gate import in_steps, on_int16, wide_scales
from npusim.kernels.operators.tables.lookup import (
    Float64Array,
    real_function,
    tabulate_real,
    unary_operator,
)


def _once(call: Call, x: Float64Array) -> Float64Array:
    result: Float64Array = 1.0 / (1.0 + np.exp(-x))
    return result


table = tabulate_real(real_function("logistic"))
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator(
    "logistic",
    table,
    wide_scales,
    once=_once,
    whole={"int16": in_steps(logistic_words)},
    on_int16=(on_int16("logistic"),),
)
