"""square: x * x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import (
    Float32Array,
    of_whole_numbers,
    tabulate_real,
    unary_operator,
)


def _square(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = x * x
    return result


OPERATOR = unary_operator(
    "square",
    tabulate_real(_square, ("int8", "uint8")),
    _square,
    whole=dict.fromkeys(("int32", "int64"), of_whole_numbers(np.square)),
)
