"""ceil: the smallest whole number that is not below x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


def _ceil(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = np.ceil(x)
    return result


OPERATOR = unary_operator("ceil", tabulate_real(_ceil, ("int8", "uint8")), _ceil)
