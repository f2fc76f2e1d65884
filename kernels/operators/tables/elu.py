"""elu: x, or alpha * (exp(x) - 1) where x is negative, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float64Array, real_function, tabulate_real, unary_operator


class Parameters(parameters.Parameters):
    """alpha: what the result goes to, negated, as x falls."""

    alpha: float = 1.0


def _lanes(call: Call[Parameters]) -> tuple[str, float]:
    return "elu", call.parameters.alpha


def _once(call: Call[Parameters], x: Float64Array) -> Float64Array:
    alpha = float(np.float32(call.parameters.alpha))
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0.0)), x)


OPERATOR = unary_operator(
    "elu",
    tabulate_real(real_function(_lanes), ("int8", "uint8")),
    parameters=Parameters,
    lanes=_lanes,
    once=_once,
)
