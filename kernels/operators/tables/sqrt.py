"""sqrt: the square root of x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import IntArray, codes_of_reals
from npusim.kernels.operator.operands import quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import (
    Int64Array,
    reals_of,
    tabulate,
    unary_operator,
)


def _codes(call: Call, codes: Int64Array) -> IntArray:
    """Steps of the output are cut off, not rounded. LiteRT has no root of a negative number; here it is zero."""
    target = quantization(call.outputs[0])
    with np.errstate(over="ignore"):
        steps = np.sqrt(np.maximum(reals_of(call, codes), 0)) / np.float32(target.scale)
    return codes_of_reals(np.floor(steps), target.zero_point)


table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("sqrt", table)
