"""Operators that reshape a tensor, or repeat its elements: reshape, squeeze, broadcast_to, fill and tile."""

from __future__ import annotations

from math import prod
from typing import Annotated

import numpy as np

from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import (
    broadcast_loops,
    few_copies,
    lower_broadcast,
    lower_copy,
    lower_tile,
    tile_loops,
)
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import free, input_type, input_value, move
from npusim.kernels.operator.operator import Alias, Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import MOST, Sizes

REST = -1
"""The size that stands for the remaining number of elements."""


class ReshapeParameters(parameters.Parameters):
    """shape: the shape of the output; one of its sizes may be REST."""

    shape: tuple[Annotated[int, Between(REST, MOST)], ...]


def reshape_reference(call: Call, values: Values) -> list[Array]:
    """Return the input under the output's shape."""
    return [input_value(values).reshape(call.outputs[0].shape)]


def alias(call: Call) -> tuple[Alias, ...]:
    """Return the output as a view of the input."""
    return (Alias(part=("out", 0), whole=("in", 0), offset_bytes=0),)


def _one_rest(call: Call[ReshapeParameters]) -> bool:
    """at most one size is -1 (to be inferred), and the others divide the number of elements"""
    shape = call.parameters.shape
    if REST not in shape:
        return True
    others = prod(size for size in shape if size != REST)
    return shape.count(REST) == 1 and others > 0 and input_type(call).elements % others == 0


def _same_number_of_elements(call: Call) -> bool:
    """input and output have the same number of elements"""
    return input_type(call).elements == call.outputs[0].elements


def _reshape_infer(call: Call[ReshapeParameters]) -> Shapes:
    shape = call.parameters.shape
    if REST not in shape:
        return (shape,)
    rest = input_type(call).elements // prod(size for size in shape if size != REST)
    return (tuple(rest if size == REST else size for size in shape),)


_reshaped_shape = rules.inferred(_reshape_infer, "the output has the shape that the parameters give")


RESHAPE = Operator(
    name="reshape",
    parameters=ReshapeParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _same_number_of_elements, _one_rest, _reshaped_shape),
    infer=_reshape_infer,
    reference=reshape_reference,
    workload=free,
    lowerings=(Lowering("dma", (), lower_copy),),
    alias=alias,
)
"""The same elements in the same order under another shape."""


class SqueezeParameters(parameters.Parameters):
    """axes: the axes to drop, counted from the front; if empty, all with one element."""

    axes: Sizes = ()


def _axes_of_one(call: Call[SqueezeParameters]) -> bool:
    """axes are axes of the input, of one element each"""
    shape = input_type(call).shape
    return all(axis < len(shape) and shape[axis] == 1 for axis in call.parameters.axes)


def _squeeze_infer(call: Call[SqueezeParameters]) -> Shapes:
    shape, axes = input_type(call).shape, call.parameters.axes
    gone = axes or [axis for axis, size in enumerate(shape) if size == 1]
    return (tuple(size for axis, size in enumerate(shape) if axis not in gone),)


_squeezed_shape = rules.inferred(_squeeze_infer, "the output has the input's shape without the axes")


SQUEEZE = Operator(
    name="squeeze",
    parameters=SqueezeParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _axes_of_one, _squeezed_shape),
    infer=_squeeze_infer,
    reference=reshape_reference,
    workload=free,
    lowerings=(Lowering("dma", (), lower_copy),),
    alias=alias,
)
"""A reshape that drops axes of one element."""


class BroadcastToParameters(parameters.Parameters):
    """shape: the shape of the output."""

    shape: Sizes


def broadcast_to_reference(call: Call[BroadcastToParameters], values: Values) -> list[Array]:
    """Return the input under the output's shape."""
    return [np.ascontiguousarray(np.broadcast_to(input_value(values), call.parameters.shape))]


def _fits(call: Call[BroadcastToParameters]) -> bool:
    """the sizes of the input, counted from the last, are 1 or those of the shape"""
    own, shape = input_type(call).shape, call.parameters.shape
    return len(own) <= len(shape) and all(
        size in (1, wanted) for size, wanted in zip(reversed(own), reversed(shape), strict=False)
    )


def infer(call: Call[BroadcastToParameters]) -> Shapes:
    """Return the shape that the parameters state."""
    return (call.parameters.shape,)


_broadcast_shape = rules.inferred(infer, "the output has the shape that the parameters give")


BROADCAST_TO = Operator(
    name="broadcast_to",
    parameters=BroadcastToParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _fits, _broadcast_shape),
    infer=infer,
    reference=broadcast_to_reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(broadcast_loops),), lower_broadcast),),
)
"""The input repeated along axes that it lacks or has one element of."""


def _fill_reference(call: Call[BroadcastToParameters], values: Values) -> list[Array]:
    return [np.full(call.parameters.shape, input_value(values).reshape(()))]


def _one_element(call: Call) -> bool:
    """the input has one element"""
    return input_type(call).elements == 1 and len(input_type(call).shape) < 2


FILL = Operator(
    name="fill",
    parameters=BroadcastToParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_element, _broadcast_shape),
    infer=infer,
    reference=_fill_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_broadcast),),
)
"""A tensor of one value, which is the only element of the input."""


class TileParameters(parameters.Parameters):
    """multiples: the repetitions along each axis."""

    multiples: Sizes


def _tile_reference(call: Call[TileParameters], values: Values) -> list[Array]:
    return [np.tile(input_value(values), call.parameters.multiples)]


def _one_per_axis(call: Call[TileParameters]) -> bool:
    """multiples has a number for each axis of the input"""
    return len(call.parameters.multiples) == len(input_type(call).shape)


def _tile_infer(call: Call[TileParameters]) -> Shapes:
    return (
        tuple(
            size * times
            for size, times in zip(input_type(call).shape, call.parameters.multiples, strict=True)
        ),
    )


_tiled_shape = rules.inferred(
    _tile_infer, "the output's size along each axis is the input's size times its multiple"
)


TILE = Operator(
    name="tile",
    parameters=TileParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_per_axis, _tiled_shape),
    infer=_tile_infer,
    reference=_tile_reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(tile_loops),), lower_tile),),
)
"""The input repeated multiples[i] times along each axis i."""


OPERATORS = (
    RESHAPE,
    SQUEEZE,
    BROADCAST_TO,
    FILL,
    TILE,
)
