"""tile: the input repeated multiples[i] times along each axis i."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import few_copies, lower_tile, tile_loops
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes


class Parameters(parameters.Parameters):
    """multiples: how often along each axis."""

    multiples: Sizes


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [np.tile(input_value(values), call.parameters.multiples)]


def _one_per_axis(call: Call[Parameters]) -> bool:
    """multiples has a number for each axis of the input"""
    return len(call.parameters.multiples) == len(input_type(call).shape)


def _infer(call: Call[Parameters]) -> Shapes:
    return (
        tuple(
            size * times
            for size, times in zip(input_type(call).shape, call.parameters.multiples, strict=True)
        ),
    )


def _tiled_shape(call: Call) -> bool:
    """the output is as long along each axis as the input that many times"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="tile",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_per_axis, _tiled_shape),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(tile_loops),), lower_tile),),
)
