"""squeeze: a reshape that drops axes of one element."""

from __future__ import annotations

from npusim.kernels.lowering.move import lower_copy
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import free, input_type
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes
from npusim.kernels.operator.parameters import Sizes
from npusim.kernels.operators.movement import reshape


class Parameters(parameters.Parameters):
    """axes: those to drop, counted from the front; none named are all of one element."""

    axes: Sizes = ()


def _axes_of_one(call: Call[Parameters]) -> bool:
    """axes are axes of the input, of one element each"""
    shape = input_type(call).shape
    return all(axis < len(shape) and shape[axis] == 1 for axis in call.parameters.axes)


def _infer(call: Call[Parameters]) -> Shapes:
    shape, axes = input_type(call).shape, call.parameters.axes
    gone = axes or [axis for axis, size in enumerate(shape) if size == 1]
    return (tuple(size for axis, size in enumerate(shape) if axis not in gone),)


def _kept_axes(call: Call[Parameters]) -> bool:
    """the output has the input's shape without the axes"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="squeeze",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _axes_of_one, _kept_axes),
    infer=_infer,
    reference=reshape.reference,
    workload=free,
    lowerings=(Lowering("dma", (), lower_copy),),
    alias=reshape.alias,
)
