"""atan: the angle in radians whose tangent is x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


def _atan(call: Call, x: Float32Array) -> Float32Array:
    with np.errstate(all="ignore"):
        result: Float32Array = np.arctan(x.astype(np.float64)).astype(np.float32)
    return result


table = tabulate_by_value(_atan)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("atan", table, on_host=_atan)
