"""tanh: the hyperbolic tangent, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


def _tanh(call: Call, x: Float32Array) -> Float32Array:
    """Correctly rounded; a C library whose `tanhf` is not moves one table entry in a million by one code."""
    return np.tanh(x.astype(np.float64)).astype(np.float32)


table = tabulate_real(_tanh)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("tanh", table, _tanh)
