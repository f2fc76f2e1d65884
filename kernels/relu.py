"""relu: max(x, 0), element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.lookup import Float32Array, unary_operator
from npusim.kernels.operator import Call
from npusim.kernels.rectifier import rectifier_rules, tabulate_rectifier


def _relu(call: Call, x: Float32Array) -> Float32Array:
    return np.maximum(x, np.float32(0))


table = tabulate_rectifier(ceiling=None)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("relu", table, _relu, *rectifier_rules(ceiling=None))
