"""selu: gamma * x, or gamma * alpha * (exp(x) - 1) where x is not positive, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float64Array, wide_operator


class Parameters(parameters.Parameters):
    """alpha, gamma: of the formula; usually what keeps mean and variance of normal numbers."""

    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875


def _selu(call: Call[Parameters], x: Float64Array) -> Float64Array:
    alpha, gamma = (float(np.float32(number)) for number in (call.parameters.alpha, call.parameters.gamma))
    result: Float64Array = gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))
    return result


OPERATOR = wide_operator("selu", _selu, parameters=Parameters)
