"""gelu: x times the probability that a standard normal number is below x, element by element."""

from __future__ import annotations

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator


class Parameters(parameters.Parameters):
    """approximate: with a hyperbolic tangent."""

    approximate: bool = False


def _lanes(call: Call[Parameters]) -> tuple[str, float]:
    return ("gelu_by_tanh" if call.parameters.approximate else "gelu"), 0.0


OPERATOR = unary_operator("gelu", tabulate_real(real_function(_lanes)), parameters=Parameters, lanes=_lanes)
