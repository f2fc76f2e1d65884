"""logistic: 1 / (1 + exp(-x)), element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


def _logistic(call: Call, x: Float32Array) -> Float32Array:
    """The exponential is rounded to float32 before the sum and the quotient: LiteRT's `std::exp(float)`."""
    exponential = np.exp(np.minimum(-x.astype(np.float64), 88.0)).astype(np.float32)
    result: Float32Array = np.float32(1) / (np.float32(1) + exponential)
    return result


table = tabulate_real(_logistic)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("logistic", table, _logistic)
