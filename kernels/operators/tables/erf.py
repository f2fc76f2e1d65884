"""erf: the error function of x, element by element."""

from __future__ import annotations

import math

import numpy as np

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float64Array, wide_operator

error_function = np.vectorize(math.erf, otypes=[np.float64])


def _erf(call: Call, x: Float64Array) -> Float64Array:
    result: Float64Array = error_function(x)
    return result


OPERATOR = wide_operator("erf", _erf)
