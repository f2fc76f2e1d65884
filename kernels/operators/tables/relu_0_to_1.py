"""relu_0_to_1: x limited to 0..1, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate, unary_operator
from npusim.kernels.operators.tables.rectifier import rectified, rectifier_rules


def _relu_0_to_1(call: Call, x: Float32Array) -> Float32Array:
    result: Float32Array = np.clip(x, np.float32(0), np.float32(1))
    return result


_codes = rectified(0.0, 1.0)

table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("relu_0_to_1", table, _relu_0_to_1, *rectifier_rules(1.0))
