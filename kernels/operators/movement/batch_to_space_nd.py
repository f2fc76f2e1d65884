"""batch_to_space_nd: batches as the phases of blocks over the axes behind the batch, without what is cropped."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import block_moves
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Border, Count


class Parameters(parameters.Parameters):
    """block_shape: of a block, along the axes behind the batch; crops: taken off before and behind each of these."""

    block_shape: tuple[Count, ...]
    crops: tuple[Border, ...]


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    block, crops = call.parameters.block_shape, call.parameters.crops
    phases, rank = input_value(values), len(call.parameters.block_shape)
    split = phases.reshape(*block, phases.shape[0] // prod(block), *phases.shape[1:])
    order = [rank]
    for axis in range(rank):
        order += [rank + 1 + axis, axis]
    order += range(2 * rank + 1, split.ndim)
    sizes = [size * parts for size, parts in zip(phases.shape[1:], block, strict=False)]
    image = split.transpose(order).reshape(split.shape[rank], *sizes, *phases.shape[rank + 1 :])
    kept = [slice(before, size - after) for size, (before, after) in zip(sizes, crops, strict=True)]
    return [np.ascontiguousarray(image[(slice(None), *kept)])]


def _one_per_axis(call: Call[Parameters]) -> bool:
    """block_shape and crops speak of the axes behind the batch, of all or the first of them"""
    block, crops = call.parameters.block_shape, call.parameters.crops
    return len(block) == len(crops) < len(input_type(call).shape)


def _whole_batches(call: Call[Parameters]) -> bool:
    """the batches are a multiple of the elements of a block, and no more is cropped than there is"""
    shape, given = input_type(call).shape, call.parameters
    rows = zip(shape[1:], given.block_shape, given.crops, strict=False)
    return shape[0] % prod(given.block_shape) == 0 and all(
        sum(crop) <= size * block for size, block, crop in rows
    )


def _infer(call: Call[Parameters]) -> Shapes:
    shape, given = input_type(call).shape, call.parameters
    rows = zip(shape[1:], given.block_shape, given.crops, strict=False)
    sizes = [size * block - sum(crop) for size, block, crop in rows]
    return ((shape[0] // prod(given.block_shape), *sizes, *shape[len(sizes) + 1 :]),)


def _shape(call: Call) -> bool:
    """the output has as many times less batches as a block has elements, and is as many times longer, less the crops"""
    return _infer(call) == (call.outputs[0].shape,)


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    """Copies of the phases that give the same part of the output."""
    before = [crop[0] for crop in call.parameters.crops]
    return block_moves(call.outputs[0], input_type(call), call.parameters.block_shape, before, to_batch=False)


OPERATOR = Operator(
    name="batch_to_space_nd",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_per_axis, _whole_batches, _shape),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
