"""channel_shuffle: an axis as rows of groups, read by columns."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import permuted_moves
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, like_input, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Count, Size


class Parameters(parameters.Parameters):
    """groups: how many rows; axis: that is shuffled, counted from the front."""

    groups: Count
    axis: Size


def _split(call: Call[Parameters]) -> tuple[int, ...]:
    """The input's shape with the groups as an axis of their own."""
    shape, axis, groups = input_type(call).shape, call.parameters.axis, call.parameters.groups
    return (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _order(call: Call[Parameters]) -> tuple[int, ...]:
    axis, rank = call.parameters.axis, len(input_type(call).shape) + 1
    return (*range(axis), axis + 1, axis, *range(axis + 2, rank))


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    shuffled = input_value(values).reshape(_split(call)).transpose(_order(call))
    return [np.ascontiguousarray(shuffled).reshape(call.outputs[0].shape)]


def _groups(call: Call[Parameters]) -> bool:
    """axis is an axis of the input, and groups divides its size"""
    shape, axis = input_type(call).shape, call.parameters.axis
    return axis < len(shape) and shape[axis] % call.parameters.groups == 0


def _lower(call: Call, hardware: Hardware) -> Parts:
    return permuted_moves(call, _split(call), _order(call))


OPERATOR = Operator(
    name="channel_shuffle",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _groups, rules.same_shape),
    infer=like_input,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
