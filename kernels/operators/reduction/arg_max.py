"""arg_max: the position of the largest element along one axis, the first one if there are several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    positions = np.argmax(input_value(values), axis=call.attributes["axis"])
    return [positions.astype(call.outputs[0].numpy_dtype).reshape(call.outputs[0].shape)]


def _workload(call: Call) -> Workload:
    return elementwise(call, input_type(call).elements)


def _axis(call: Call) -> bool:
    """axis counts from the front and is an axis of the input, with at least one element"""
    axis, shape = call.attributes.get("axis"), input_type(call).shape
    return isinstance(axis, int) and 0 <= axis < len(shape) and shape[axis] > 0


def _infer(call: Call) -> Shapes:
    axis, shape = call.attributes["axis"], input_type(call).shape
    return (shape[:axis] + shape[axis + 1 :],)


def _positions(call: Call) -> bool:
    """the output is int32 or int64 and has the input's shape without the axis"""
    output = call.outputs[0]
    return output.dtype in ("int32", "int64") and _infer(call) == (output.shape,)


OPERATOR = Operator(
    name="arg_max",
    rules=(rules.operands(1), rules.computes_on("int8", "uint8", "int32", "float32"), _axis, _positions),
    infer=_infer,
    npu_rules=(rules.host_only("the vector unit finds no positions"),),
    reference=_reference,
    workload=_workload,
)
