"""gelu: x times the probability that a standard normal number is below x, element by element."""

from __future__ import annotations

import math

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_real, unary_operator


class Parameters(parameters.Parameters):
    """approximate: with a hyperbolic tangent."""

    approximate: bool = False


def _gelu(call: Call[Parameters], x: Float32Array) -> Float32Array:
    """As LiteRT writes it, in float32: far below zero the probability is nothing."""
    half, one = np.float32(0.5), np.float32(1)
    if call.parameters.approximate:
        inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
        return half * x * (one + np.tanh(inner.astype(np.float64)).astype(np.float32))
    scaled = (x * np.float32(math.sqrt(0.5))).astype(np.float64)
    tail: Float32Array = np.vectorize(math.erf, otypes=[np.float64])(scaled).astype(np.float32)
    return half * x * (one + tail)


def _on_lanes(call: Call[Parameters]) -> tuple[str, float]:
    return ("gelu_by_tanh" if call.parameters.approximate else "gelu"), 0.0


OPERATOR = unary_operator("gelu", tabulate_real(_gelu), _gelu, parameters=Parameters, on_lanes=_on_lanes)
