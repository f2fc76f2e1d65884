"""cos: the cosine of x in radians, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


def _cos(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = np.cos(x.astype(np.float64)).astype(np.float32)
    return result


OPERATOR = unary_operator("cos", tabulate_real(_cos, ("int8", "uint8")), _cos)
