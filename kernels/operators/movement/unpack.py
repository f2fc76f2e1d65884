"""unpack: the slices along one axis as tensors without it."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_unpack, unpack_alias
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size


class Parameters(parameters.Parameters):
    """axis: the one that goes, counted from the front."""

    axis: Size = 0


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    slices = np.moveaxis(input_value(values), call.parameters.axis, 0)
    return [
        np.ascontiguousarray(each).reshape(output.shape)
        for each, output in zip(slices, call.outputs, strict=True)
    ]


def _axis(call: Call[Parameters]) -> bool:
    """axis is an axis of the input, of as many elements as there are outputs"""
    shape, axis = input_type(call).shape, call.parameters.axis
    return axis < len(shape) and shape[axis] == len(call.outputs)


def _infer(call: Call[Parameters]) -> Shapes:
    shape, axis = input_type(call).shape, call.parameters.axis
    return ((*shape[:axis], *shape[axis + 1 :]),) * shape[axis]


def _shapes(call: Call[Parameters]) -> bool:
    """the outputs have the input's shape without the axis"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="unpack",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.several_outputs, _axis, _shapes),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_unpack),),
    alias=unpack_alias,
)
