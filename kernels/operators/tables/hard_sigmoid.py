"""hard_sigmoid: alpha * x + beta limited to 0..1, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


class Parameters(parameters.Parameters):
    """alpha: the slope between the limits; beta: the value at 0."""

    alpha: float
    beta: float


def gate(alpha: float, beta: float, x: Float32Array) -> Float32Array:
    """alpha * x + beta within 0..1, in float32."""
    line = np.float32(alpha) * x + np.float32(beta)
    limited: Float32Array = np.clip(line, np.float32(0), np.float32(1))
    return limited


def gate_in_steps(steps: RealSteps, alpha: float, beta: float) -> int:
    """`gate` of the first operand on the lanes."""
    line = steps.pair("add", steps.pair("mul", 0, steps.number(alpha)), steps.number(beta))
    return steps.function("relu_0_to_1", line)


def _hard_sigmoid(call: Call[Parameters], x: Float32Array) -> Float32Array:
    return gate(call.parameters.alpha, call.parameters.beta, x)


def _expand(call: Call[Parameters]) -> Expansion:
    steps = RealSteps(call)
    return steps.result(gate_in_steps(steps, call.parameters.alpha, call.parameters.beta))


table = tabulate_by_value(_hard_sigmoid)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("hard_sigmoid", table, parameters=Parameters, on_host=_hard_sigmoid, expand=_expand)
