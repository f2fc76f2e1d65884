"""floor: the largest whole number that is not above x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


def _floor(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = np.floor(x)
    return result


OPERATOR = unary_operator("floor", tabulate_real(_floor, ("int8", "uint8")), _floor)
