"""fill: a tensor of one value, which is the only element of the input."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_broadcast
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.movement.broadcast_to import Parameters, infer, said_shape


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [np.full(call.parameters.shape, input_value(values).reshape(()))]


def _one_element(call: Call) -> bool:
    """the input has one element"""
    return input_type(call).elements == 1 and len(input_type(call).shape) < 2


OPERATOR = Operator(
    name="fill",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_element, said_shape),
    infer=infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_broadcast),),
)
