"""thresholded_relu: x where it is more than alpha, else 0, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float64Array, wide_operator


class Parameters(parameters.Parameters):
    """alpha: the largest x of which nothing is left."""

    alpha: float = 1.0


def _thresholded(call: Call[Parameters], x: Float64Array) -> Float64Array:
    return np.where(x > np.float32(call.parameters.alpha), x, 0.0)


OPERATOR = wide_operator("thresholded_relu", _thresholded, parameters=Parameters)
