"""mish: x times the hyperbolic tangent of log(1 + exp(x)), element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float64Array, wide_operator


def _mish(call: Call, x: Float64Array) -> Float64Array:
    result: Float64Array = x * np.tanh(np.logaddexp(0.0, x))
    return result


OPERATOR = wide_operator("mish", _mish)
