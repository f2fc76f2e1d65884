"""elu: x, or alpha * (exp(x) - 1) where x is negative, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


class Parameters(parameters.Parameters):
    """alpha: what the result goes to, negated, as x falls."""

    alpha: float = 1.0


def _elu(call: Call[Parameters], x: Float32Array) -> Float32Array:
    below = np.float32(call.parameters.alpha) * np.expm1(x.astype(np.float64)).astype(np.float32)
    result: Float32Array = np.where(x < 0, below, x)
    return result


OPERATOR = unary_operator(
    "elu",
    tabulate_real(_elu, ("int8", "uint8")),
    _elu,
    parameters=Parameters,
    on_lanes=lambda call: ("elu", call.parameters.alpha),
)
