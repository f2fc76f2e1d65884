"""layer_normalization: all elements behind the first axes brought to mean 0 and variance 1, then scaled."""

from __future__ import annotations

from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import Size
from npusim.kernels.operators.normalization.moments import moments_operator


class Parameters(parameters.Parameters):
    """scale * (x - mean) / sqrt(variance + epsilon) + bias, over the axes from begin_axis on."""

    begin_axis: Size
    epsilon: float = 1e-5


def _an_axis(call: Call[Parameters]) -> bool:
    """begin_axis is an axis of the input"""
    return call.parameters.begin_axis < len(input_type(call).shape)


def _per_element(call: Call[Parameters]) -> bool:
    """scale and bias have the input's sizes from begin_axis on"""
    return all(input_type(call, i).shape == _normalized(call) for i in (1, 2))


def _normalized(call: Call[Parameters]) -> tuple[int, ...]:
    return input_type(call).shape[call.parameters.begin_axis :]


def _sizes(call: Call[Parameters]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = input_type(call).shape
    return shape, tuple(range(call.parameters.begin_axis, len(shape)))


OPERATOR = moments_operator(
    "layer_normalization",
    Parameters,
    (rules.operands(3), rules.same_shape, _an_axis, _per_element),
    _sizes,
    _normalized,
)
