"""Operators that copy a part of a tensor, or shift or reverse its elements along axes."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import (
    band_moves,
    few_copies,
    lower_reverse,
    lower_slice,
    reverse_loops,
    rolled,
)
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, like_input, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes, Steps


class Box(parameters.Parameters):
    """begin, size, strides: for each axis the first element, the number of elements, and their distance (default 1)."""

    begin: Sizes
    size: Sizes
    strides: Steps = ()


class StridedSliceParameters(Box):
    """shape: the shape of the output if it is not `size`, with as many elements."""

    shape: Sizes | None = None


def steps(call: Call[Box]) -> Steps:
    """Return the strides of all axes."""
    return call.parameters.strides or (1,) * len(call.parameters.size)


def reference(call: Call[Box], values: Values) -> list[Array]:
    """Return the chosen elements under the output's shape."""
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


def _strided_slice_infer(call: Call[StridedSliceParameters]) -> Shapes:
    shape = call.parameters.shape
    return (call.parameters.size if shape is None else shape,)


_output_shape = rules.inferred(_strided_slice_infer, "the output has the shape that the parameters give")


STRIDED_SLICE = Operator(
    name="strided_slice",
    parameters=StridedSliceParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), inside, chosen_elements, _output_shape),
    infer=_strided_slice_infer,
    reference=reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_slice),),
)
"""Every strides[i]-th element of axis i, from begin[i] on, size[i] of them.

Strides may be negative. The output may drop or add axes of one element.
"""


SliceParameters = Box


def _slice_infer(call: Call[SliceParameters]) -> Shapes:
    return (call.parameters.size,)


SLICE = Operator(
    name="slice",
    parameters=SliceParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), inside, chosen_elements),
    infer=_slice_infer,
    reference=reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_slice),),
)
"""From each axis i, size[i] elements from begin[i] on."""


class ReverseV2Parameters(parameters.Parameters):
    """axes: the reversed axes, counted from the front."""

    axes: Sizes


def _reverse_reference(call: Call[ReverseV2Parameters], values: Values) -> list[Array]:
    return [np.ascontiguousarray(np.flip(input_value(values), call.parameters.axes))]


def _axes(call: Call[ReverseV2Parameters]) -> bool:
    """axes are axes of the input, each once"""
    axes = call.parameters.axes
    return len(set(axes)) == len(axes) and all(axis < len(input_type(call).shape) for axis in axes)


REVERSE_V2 = Operator(
    name="reverse_v2",
    parameters=ReverseV2Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _axes, rules.same_shape),
    infer=like_input,
    reference=_reverse_reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(reverse_loops),), lower_reverse),),
)
"""The input with some axes in opposite order."""


class RollParameters(parameters.Parameters):
    """shifts: the rotation along each axis."""

    shifts: Steps


def _roll_reference(call: Call[RollParameters], values: Values) -> list[Array]:
    x = input_value(values)
    return [np.roll(x, call.parameters.shifts, tuple(range(x.ndim)))]


def _one_per_axis(call: Call[RollParameters]) -> bool:
    """shifts has a number for each axis of the input"""
    return len(call.parameters.shifts) == len(input_type(call).shape)


def _lower(call: Call[RollParameters], hardware: Hardware) -> Parts:
    """Return copies of the two parts of each axis that change places."""
    return band_moves(call, map(rolled, input_type(call).shape, call.parameters.shifts))


ROLL = Operator(
    name="roll",
    parameters=RollParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_per_axis, rules.same_shape),
    infer=like_input,
    reference=_roll_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
"""The input rotated by shifts[i] along each axis i."""


OPERATORS = (
    STRIDED_SLICE,
    SLICE,
    REVERSE_V2,
    ROLL,
)
