"""neg: -x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import (
    Int64Array,
    of_whole_numbers,
    tabulate,
    unary_operator,
)


def _codes(call: Call, codes: Int64Array) -> Int64Array:
    """LiteRT's kernel takes codes as the numbers that they are, whatever their zero points, and wraps the smallest."""
    negative = -codes
    return negative.astype(call.outputs[0].numpy_dtype).astype(np.int64)


table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator(
    "neg", table, whole=dict.fromkeys(("int16", "int32", "int64"), of_whole_numbers(np.negative))
)
