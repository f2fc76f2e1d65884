"""split: one tensor cut along one axis into pieces."""

from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_split
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Alias, Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size, Sizes


class Parameters(parameters.Parameters):
    """axis: that is cut, counted from the front; sizes: of the pieces along it."""

    axis: Size
    sizes: Sizes


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    axis, cuts = call.parameters.axis, list(accumulate(call.parameters.sizes))[:-1]
    return [np.ascontiguousarray(piece) for piece in np.split(input_value(values), cuts, axis=axis)]


def _alias(call: Call[Parameters]) -> tuple[Alias, ...] | None:
    """Each output is a contiguous part of the input when all axes before the cut one have one element."""
    if prod(input_type(call).shape[: call.parameters.axis]) != 1:
        return None
    offsets = accumulate((output.size_bytes for output in call.outputs), initial=0)
    numbered = zip(range(len(call.outputs)), offsets, strict=False)
    return tuple(Alias(("out", number), ("in", 0), offset) for number, offset in numbered)


def _axis(call: Call[Parameters]) -> bool:
    """axis is an axis of the input"""
    return call.parameters.axis < len(input_type(call).shape)


def _pieces(call: Call[Parameters]) -> bool:
    """the sizes add up to that of the input along the axis"""
    return sum(call.parameters.sizes) == input_type(call).shape[call.parameters.axis]


def _infer(call: Call[Parameters]) -> Shapes:
    axis, shape = call.parameters.axis, input_type(call).shape
    return tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in call.parameters.sizes)


def _shapes(call: Call[Parameters]) -> bool:
    """the outputs have the input's shape but for their sizes along the axis"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="split",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.several_outputs, _axis, _pieces, _shapes),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_split),),
    alias=_alias,
)
