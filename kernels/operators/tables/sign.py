"""sign: -1, 0 or 1 as x is negative, zero or positive, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import (
    Float32Array,
    of_whole_numbers,
    tabulate_real,
    unary_operator,
)


def _sign(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = np.sign(x)
    return result


OPERATOR = unary_operator(
    "sign",
    tabulate_real(_sign, ("int8", "uint8")),
    _sign,
    whole=dict.fromkeys(("int32", "int64"), of_whole_numbers(np.sign)),
)
