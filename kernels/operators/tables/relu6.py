"""relu6: x limited to 0..6, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, unary_operator
from npusim.kernels.operators.tables.rectifier import rectifier_rules, tabulate_rectifier


def _relu6(call: Call, x: Float32Array) -> Float32Array:
    return np.clip(x, np.float32(0), np.float32(6))


table = tabulate_rectifier(0.0, 6.0)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("relu6", table, _relu6, *rectifier_rules(6.0))
