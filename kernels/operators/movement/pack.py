"""pack: tensors of one shape, one behind the other along a new axis."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_pack, pack_alias
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size


class Parameters(parameters.Parameters):
    """axis: the new one, counted from the front of the output."""

    axis: Size = 0


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    parts = [input_value(values, position) for position in range(len(call.inputs))]
    return [np.stack(parts, axis=call.parameters.axis)]


def _one_shape(call: Call[Parameters]) -> bool:
    """all inputs have one shape, and axis is an axis of the output"""
    shape = input_type(call).shape
    return call.parameters.axis <= len(shape) and all(
        input_type(call, position).shape == shape for position in range(len(call.inputs))
    )


def _infer(call: Call[Parameters]) -> Shapes:
    shape, axis = input_type(call).shape, call.parameters.axis
    return ((*shape[:axis], len(call.inputs), *shape[axis:]),)


def _packed_shape(call: Call[Parameters]) -> bool:
    """the output has the shape of the inputs with their number at the axis"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="pack",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.several_inputs, _one_shape, _packed_shape),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_pack),),
    alias=pack_alias,
)
