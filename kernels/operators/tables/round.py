"""round: the nearest whole number, halves to the even one, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


def _round(call: Call, x: Float32Array) -> Float32Array:
    """As LiteRT writes it: a negative number that becomes zero has no sign."""
    floor = np.floor(x)
    nearest: Float32Array = np.rint(x)
    return np.where(nearest > floor, floor + np.float32(1), nearest)


OPERATOR = unary_operator("round", tabulate_real(_round, ("int8", "uint8")), _round)
