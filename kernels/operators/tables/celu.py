"""celu: x, or alpha * (exp(x / alpha) - 1) where x is negative, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float64Array, wide_operator


class Parameters(parameters.Parameters):
    """alpha: what the result goes to, negated, as x falls."""

    alpha: float = 1.0


def _some_alpha(call: Call[Parameters]) -> bool:
    """alpha is not 0"""
    return call.parameters.alpha != 0


def _celu(call: Call[Parameters], x: Float64Array) -> Float64Array:
    alpha = float(np.float32(call.parameters.alpha))
    result: Float64Array = np.maximum(x, 0.0) + np.minimum(alpha * np.expm1(x / alpha), 0.0)
    return result


OPERATOR = wide_operator("celu", _celu, _some_alpha, parameters=Parameters)
