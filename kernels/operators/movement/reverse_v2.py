"""reverse_v2: some axes in the opposite order."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import few_copies, lower_reverse, reverse_loops
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, like_input, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Sizes


class Parameters(parameters.Parameters):
    """axes: those that turn round, counted from the front."""

    axes: Sizes


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [np.ascontiguousarray(np.flip(input_value(values), call.parameters.axes))]


def _axes(call: Call[Parameters]) -> bool:
    """axes are axes of the input, each once"""
    axes = call.parameters.axes
    return len(set(axes)) == len(axes) and all(axis < len(input_type(call).shape) for axis in axes)


OPERATOR = Operator(
    name="reverse_v2",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _axes, rules.same_shape),
    infer=like_input,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(reverse_loops),), lower_reverse),),
)
