"""arg_max: the position of the largest element along one axis, the first one if there are several."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size


class Parameters(parameters.Parameters):
    """axis: along which one looks, counted from the front."""

    axis: Size


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    positions = np.argmax(input_value(values), axis=call.parameters.axis)
    return [positions.astype(call.outputs[0].numpy_dtype).reshape(call.outputs[0].shape)]


def _workload(call: Call) -> Workload:
    return elementwise(call, input_type(call).elements)


def _axis(call: Call[Parameters]) -> bool:
    """axis is an axis of the input, with at least one element"""
    axis, shape = call.parameters.axis, input_type(call).shape
    return axis < len(shape) and shape[axis] > 0


def _infer(call: Call[Parameters]) -> Shapes:
    axis, shape = call.parameters.axis, input_type(call).shape
    return (shape[:axis] + shape[axis + 1 :],)


def _positions(call: Call) -> bool:
    """the output has the input's shape without the axis"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="arg_max",
    parameters=Parameters,
    types=("int8|uint8|int32|float32 -> int32|int64",),
    rules=(rules.operands(1), rules.per_tensor, _axis, _positions),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="the vector unit finds no positions",
)
