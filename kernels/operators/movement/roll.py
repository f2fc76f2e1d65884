"""roll: elements shifts[i] on along each axis i; those that leave it come in at its other end."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import band_moves, rolled
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, like_input, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Steps


class Parameters(parameters.Parameters):
    """shifts: how far along each axis."""

    shifts: Steps


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    x = input_value(values)
    return [np.roll(x, call.parameters.shifts, tuple(range(x.ndim)))]


def _one_per_axis(call: Call[Parameters]) -> bool:
    """shifts has a number for each axis of the input"""
    return len(call.parameters.shifts) == len(input_type(call).shape)


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    """Copies of the two parts of each axis that change places."""
    return band_moves(call, map(rolled, input_type(call).shape, call.parameters.shifts))


OPERATOR = Operator(
    name="roll",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_per_axis, rules.same_shape),
    infer=like_input,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
