"""instance_normalization: every channel of every image brought to one mean and variance."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_type,
    input_value,
    like_input,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Values

_PASSES = 3
"""Over the image: for its mean, for its variance, for the result."""


class Parameters(parameters.Parameters):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, the variance being that of the elements themselves."""

    gamma: float = 1.0
    beta: float = 0.0
    epsilon: float = 0.0


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    x, how = input_value(values).astype(np.float64), call.parameters
    if not x.size:
        return [input_value(values)]
    centred = x - x.mean(axis=(1, 2), keepdims=True)
    variance = (centred * centred).mean(axis=(1, 2), keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result = how.gamma * centred / np.sqrt(variance + how.epsilon) + how.beta
        return [result.astype(np.float32)]


def _images(call: Call) -> bool:
    """the input is [batch, height, width, channels]"""
    return len(input_type(call).shape) == 4


def _workload(call: Call) -> Workload:
    return elementwise(call, _PASSES * call.outputs[0].elements)


REFERENCES = with_halves({"float32": _reals})

OPERATOR = Operator(
    name="instance_normalization",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(1), rules.same_shape, _images),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=_workload,
    on_host="has no quantized form, and the vector unit computes on codes",
)
