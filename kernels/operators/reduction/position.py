"""Operators that give the position of one element along an axis, the first one if there are several like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.reduction import position_lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, all_read, an_axis, axis_of
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Step

Find = Callable[..., Any]
"""numpy's `argmax` or `argmin`."""


class Parameters(Along):
    """axis: along which one looks; negative ones count from the back."""

    axis: Step


def _elements(call: Call[Parameters]) -> bool:
    """the axis has at least one element"""
    return input_type(call).shape[axis_of(call)] > 0


def _infer(call: Call[Parameters]) -> Shapes:
    axis, shape = axis_of(call), input_type(call).shape
    return (shape[:axis] + shape[axis + 1 :],)


def _positions(call: Call) -> bool:
    """the output has the input's shape without the axis"""
    return _infer(call) == (call.outputs[0].shape,)


def position_operator(name: str, find: Find) -> Operator:
    """The operator that gives what numpy's `find` finds."""

    def reference(call: Call[Parameters], values: Values) -> list[Array]:
        positions = find(input_value(values), axis=axis_of(call))
        return [positions.astype(call.outputs[0].numpy_dtype).reshape(call.outputs[0].shape)]

    return Operator(
        name=name,
        parameters=Parameters,
        types=("int8|uint8|int16|int32|int64|float16|float32|bool -> int32|int64",),
        rules=(rules.operands(1), rules.per_tensor, an_axis, _elements, _positions),
        infer=_infer,
        reference=reference,
        workload=all_read,
        lowerings=(position_lowering(name),),
    )
