"""relu: max(x, 0), element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, beyond_tables, tabulate, unary_operator
from npusim.kernels.operators.tables.rectifier import rectified, rectifier_rules


def _relu(call: Call, x: Float32Array) -> Float32Array:
    """As LiteRT writes it: what is not below zero stays, the sign of a zero included."""
    result: Float32Array = np.where(x < 0, np.float32(0), x)
    return result


_codes = rectified(0.0, None)

table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("relu", table, _relu, *rectifier_rules(), whole={"int16": beyond_tables(_codes)})
