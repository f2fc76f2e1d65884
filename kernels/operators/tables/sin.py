"""sin: the sine of x in radians, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


def _sin(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = np.sin(x.astype(np.float64)).astype(np.float32)
    return result


OPERATOR = unary_operator("sin", tabulate_real(_sin, ("int8", "uint8")), _sin)
