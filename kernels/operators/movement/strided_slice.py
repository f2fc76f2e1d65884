"""strided_slice: every strides[i]-th element of axis i, from begin[i] on, size[i] of them.

Strides may be negative. The output may drop or add axes of one element.
"""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_slice
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes, Steps


class Box(parameters.Parameters):
    """For each axis the first element, how many, and how far from one to the next (not said: 1)."""

    begin: Sizes
    size: Sizes
    strides: Steps = ()


class Parameters(Box):
    """shape: that of the output where it is not `size`, of as many elements."""

    shape: Sizes | None = None


def steps(call: Call[Box]) -> Steps:
    """The strides of all axes."""
    return call.parameters.strides or (1,) * len(call.parameters.size)


def reference(call: Call[Box], values: Values) -> list[Array]:
    """The chosen elements under the output's shape."""
    axes = zip(call.parameters.begin, call.parameters.size, steps(call), strict=True)
    chosen = np.ix_(*(first + np.arange(count) * stride for first, count, stride in axes))
    return [np.ascontiguousarray(input_value(values)[chosen]).reshape(call.outputs[0].shape)]


def inside(call: Call[Box]) -> bool:
    """begin, size and strides have an entry per axis of the input and choose elements that it has"""
    shape, begin, size = input_type(call).shape, call.parameters.begin, call.parameters.size
    strides = steps(call)
    if not len(begin) == len(size) == len(strides) == len(shape):
        return False
    return all(map(_inside_axis, shape, begin, size, strides))


def _inside_axis(length: int, first: int, count: int, stride: int) -> bool:
    last = first + (count - 1) * stride
    return count == 0 or (0 <= first < length and 0 <= last < length)


def chosen_elements(call: Call[Box]) -> bool:
    """the output has as many elements as size says"""
    return call.outputs[0].elements == prod(call.parameters.size)


def _infer(call: Call[Parameters]) -> Shapes:
    shape = call.parameters.shape
    return (call.parameters.size if shape is None else shape,)


def _said_shape(call: Call[Parameters]) -> bool:
    """the output has the shape that the parameters say"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="strided_slice",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), inside, chosen_elements, _said_shape),
    infer=_infer,
    reference=reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_slice),),
)
