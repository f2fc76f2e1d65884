"""Operators that permute axes, or blocks of elements between axes."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import (
    block_moves,
    few_copies,
    fill_moves,
    lower_transpose,
    permuted_moves,
    transpose_loops,
)
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import code_of_zero, input_type, input_value, like_input, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Border, Count, Size, Sizes


class TransposeParameters(parameters.Parameters):
    """perm: for each axis of the output, the axis of the input."""

    perm: Sizes


def _transpose_reference(call: Call[TransposeParameters], values: Values) -> list[Array]:
    return [np.ascontiguousarray(np.transpose(input_value(values), call.parameters.perm))]


def _permutation(call: Call[TransposeParameters]) -> bool:
    """perm names each axis of the input once"""
    return sorted(call.parameters.perm) == list(range(len(input_type(call).shape)))


def _transpose_infer(call: Call[TransposeParameters]) -> Shapes:
    return (tuple(input_type(call).shape[axis] for axis in call.parameters.perm),)


_permuted_shape = rules.inferred(_transpose_infer, "the output has the input's sizes in the order of perm")


TRANSPOSE = Operator(
    name="transpose",
    parameters=TransposeParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _permutation, _permuted_shape),
    infer=_transpose_infer,
    reference=_transpose_reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(transpose_loops),), lower_transpose),),
)
"""Axes in another order; output axis i is input axis perm[i]."""


class ChannelShuffleParameters(parameters.Parameters):
    """groups: the number of groups; axis: the shuffled axis, counted from the front."""

    groups: Count
    axis: Size


def _channel_shuffle_split(call: Call[ChannelShuffleParameters]) -> tuple[int, ...]:
    """Return the input's shape with the groups as an axis of their own."""
    shape, axis, groups = input_type(call).shape, call.parameters.axis, call.parameters.groups
    return (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _order(call: Call[ChannelShuffleParameters]) -> tuple[int, ...]:
    axis, rank = call.parameters.axis, len(input_type(call).shape) + 1
    return (*range(axis), axis + 1, axis, *range(axis + 2, rank))


def _channel_shuffle_reference(call: Call[ChannelShuffleParameters], values: Values) -> list[Array]:
    shuffled = input_value(values).reshape(_channel_shuffle_split(call)).transpose(_order(call))
    return [np.ascontiguousarray(shuffled).reshape(call.outputs[0].shape)]


def _groups(call: Call[ChannelShuffleParameters]) -> bool:
    """axis is an axis of the input, and groups divides its size"""
    shape, axis = input_type(call).shape, call.parameters.axis
    return axis < len(shape) and shape[axis] % call.parameters.groups == 0


def _channel_shuffle_lower(call: Call, hardware: Hardware) -> Parts:
    return permuted_moves(call, _channel_shuffle_split(call), _order(call))


CHANNEL_SHUFFLE = Operator(
    name="channel_shuffle",
    parameters=ChannelShuffleParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _groups, rules.same_shape),
    infer=like_input,
    reference=_channel_shuffle_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _channel_shuffle_lower),),
)
"""An axis split into groups, with groups and their elements transposed."""


_ORDER = (0, 1, 3, 2, 4, 5)


class DepthToSpaceParameters(parameters.Parameters):
    """block_size: height and width of a block."""

    block_size: Count


def _depth_to_space_split(call: Call[DepthToSpaceParameters]) -> tuple[int, ...]:
    """Return the input's shape with a block as axes of its own."""
    (batch, height, width, depth), block = input_type(call).shape, call.parameters.block_size
    return batch, height, width, block, block, depth // block**2


def _depth_to_space_reference(call: Call[DepthToSpaceParameters], values: Values) -> list[Array]:
    pixels = input_value(values).reshape(_depth_to_space_split(call)).transpose(_ORDER)
    return [np.ascontiguousarray(pixels).reshape(call.outputs[0].shape)]


def _depth_to_space_an_image(call: Call[DepthToSpaceParameters]) -> bool:
    """the input has four axes, and a multiple of block_size squared as depth"""
    shape = input_type(call).shape
    return len(shape) == 4 and shape[3] % call.parameters.block_size**2 == 0


def _depth_to_space_infer(call: Call[DepthToSpaceParameters]) -> Shapes:
    (batch, height, width, depth), block = input_type(call).shape, call.parameters.block_size
    return ((batch, height * block, width * block, depth // block**2),)


_depth_to_space_shape = rules.inferred(
    _depth_to_space_infer,
    "the output is block_size times as high and wide, and its depth is divided by block_size squared",
)


def _depth_to_space_lower(call: Call, hardware: Hardware) -> Parts:
    return permuted_moves(call, _depth_to_space_split(call), _ORDER)


DEPTH_TO_SPACE = Operator(
    name="depth_to_space",
    parameters=DepthToSpaceParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _depth_to_space_an_image, _depth_to_space_shape),
    infer=_depth_to_space_infer,
    reference=_depth_to_space_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _depth_to_space_lower),),
)
"""The channels of a pixel as a block of pixels with fewer channels."""


def _space_to_depth_split(call: Call[DepthToSpaceParameters]) -> tuple[int, ...]:
    """Return the input's shape with a block as axes of its own."""
    (batch, height, width, depth), block = input_type(call).shape, call.parameters.block_size
    return batch, height // block, block, width // block, block, depth


def _space_to_depth_reference(call: Call[DepthToSpaceParameters], values: Values) -> list[Array]:
    pixels = input_value(values).reshape(_space_to_depth_split(call)).transpose(_ORDER)
    return [np.ascontiguousarray(pixels).reshape(call.outputs[0].shape)]


def _space_to_depth_an_image(call: Call[DepthToSpaceParameters]) -> bool:
    """the input has four axes, and multiples of block_size as height and width"""
    shape, block = input_type(call).shape, call.parameters.block_size
    return len(shape) == 4 and shape[1] % block == shape[2] % block == 0


def _space_to_depth_infer(call: Call[DepthToSpaceParameters]) -> Shapes:
    (batch, height, width, depth), block = input_type(call).shape, call.parameters.block_size
    return ((batch, height // block, width // block, depth * block**2),)


_space_to_depth_shape = rules.inferred(
    _space_to_depth_infer,
    "height and width of the output are divided by block_size, its depth is multiplied by block_size squared",
)


def _space_to_depth_lower(call: Call, hardware: Hardware) -> Parts:
    return permuted_moves(call, _space_to_depth_split(call), _ORDER)


SPACE_TO_DEPTH = Operator(
    name="space_to_depth",
    parameters=DepthToSpaceParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _space_to_depth_an_image, _space_to_depth_shape),
    infer=_space_to_depth_infer,
    reference=_space_to_depth_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _space_to_depth_lower),),
)
"""Blocks of pixels as the channels of one pixel."""


class BatchToSpaceNdParameters(parameters.Parameters):
    """block_shape: sizes of a block along the axes behind the batch; crops: removed before and behind each of these."""

    block_shape: tuple[Count, ...]
    crops: tuple[Border, ...]


def _batch_to_space_reference(call: Call[BatchToSpaceNdParameters], values: Values) -> list[Array]:
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


def _batch_to_space_one_per_axis(call: Call[BatchToSpaceNdParameters]) -> bool:
    """block_shape and crops describe the axes after the batch, all or the first of them"""
    block, crops = call.parameters.block_shape, call.parameters.crops
    return len(block) == len(crops) < len(input_type(call).shape)


def _whole_batches(call: Call[BatchToSpaceNdParameters]) -> bool:
    """the batches are a multiple of the elements of a block, and the crops leave no negative size"""
    shape, given = input_type(call).shape, call.parameters
    rows = zip(shape[1:], given.block_shape, given.crops, strict=False)
    return shape[0] % prod(given.block_shape) == 0 and all(
        sum(crop) <= size * block for size, block, crop in rows
    )


def _batch_to_space_infer(call: Call[BatchToSpaceNdParameters]) -> Shapes:
    shape, given = input_type(call).shape, call.parameters
    rows = zip(shape[1:], given.block_shape, given.crops, strict=False)
    sizes = [size * block - sum(crop) for size, block, crop in rows]
    return ((shape[0] // prod(given.block_shape), *sizes, *shape[len(sizes) + 1 :]),)


_batch_to_space_shape = rules.inferred(
    _batch_to_space_infer,
    "the output has batches / block elements as batches, and along each axis size * block size less the crops",
)


def _batch_to_space_lower(call: Call[BatchToSpaceNdParameters], hardware: Hardware) -> Parts:
    """Return copies of the phases that give the same part of the output."""
    before = [crop[0] for crop in call.parameters.crops]
    return block_moves(call.outputs[0], input_type(call), call.parameters.block_shape, before, to_batch=False)


BATCH_TO_SPACE_ND = Operator(
    name="batch_to_space_nd",
    parameters=BatchToSpaceNdParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _batch_to_space_one_per_axis, _whole_batches, _batch_to_space_shape),
    infer=_batch_to_space_infer,
    reference=_batch_to_space_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _batch_to_space_lower),),
)
"""Batches rearranged as the phases of blocks over the axes behind the batch, then cropped."""


class SpaceToBatchNdParameters(parameters.Parameters):
    """block_shape: sizes of a block along the axes behind the batch; paddings: before and behind each of these."""

    block_shape: tuple[Count, ...]
    paddings: tuple[Border, ...]


def _space_to_batch_reference(call: Call[SpaceToBatchNdParameters], values: Values) -> list[Array]:
    given, block = call.parameters, call.parameters.block_shape
    image, rank = input_value(values), len(block)
    borders = ((0, 0), *given.paddings, *((0, 0),) * (image.ndim - rank - 1))
    padded = np.pad(image, borders, constant_values=code_of_zero(call.outputs[0]))
    split = [
        part for size, parts in zip(padded.shape[1:], block, strict=False) for part in (size // parts, parts)
    ]
    phases = padded.reshape(image.shape[0], *split, *image.shape[rank + 1 :])
    order = (*range(2, 2 * rank + 1, 2), 0, *range(1, 2 * rank, 2), *range(2 * rank + 1, phases.ndim))
    return [np.ascontiguousarray(phases.transpose(order)).reshape(call.outputs[0].shape)]


def _space_to_batch_one_per_axis(call: Call[SpaceToBatchNdParameters]) -> bool:
    """block_shape and paddings describe the axes after the batch, all or the first of them"""
    block, paddings = call.parameters.block_shape, call.parameters.paddings
    return len(block) == len(paddings) < len(input_type(call).shape)


def _padded(call: Call[SpaceToBatchNdParameters]) -> list[int]:
    sizes = zip(input_type(call).shape[1:], call.parameters.paddings, strict=False)
    return [size + sum(border) for size, border in sizes]


def _whole_blocks(call: Call[SpaceToBatchNdParameters]) -> bool:
    """the sizes with their paddings are multiples of those of a block"""
    return all(
        size % block == 0 for size, block in zip(_padded(call), call.parameters.block_shape, strict=True)
    )


def _space_to_batch_infer(call: Call[SpaceToBatchNdParameters]) -> Shapes:
    shape, block = input_type(call).shape, call.parameters.block_shape
    steps = [size // parts for size, parts in zip(_padded(call), block, strict=True)]
    return ((shape[0] * prod(block), *steps, *shape[len(block) + 1 :]),)


_space_to_batch_shape = rules.inferred(
    _space_to_batch_infer,
    "the output has batches * block elements as batches, and along each axis padded size / block size",
)


def _space_to_batch_lower(call: Call[SpaceToBatchNdParameters], hardware: Hardware) -> Parts:
    """Return copies of the phases that see the same part of the input, after a fill if some see only a part of it."""
    given = call.parameters
    before = [border[0] for border in given.paddings]
    fill = fill_moves(call, code_of_zero(call.outputs[0])) if any(map(any, given.paddings)) else ()
    return (*fill, *block_moves(input_type(call), call.outputs[0], given.block_shape, before, to_batch=True))


SPACE_TO_BATCH_ND = Operator(
    name="space_to_batch_nd",
    parameters=SpaceToBatchNdParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _space_to_batch_one_per_axis, _whole_blocks, _space_to_batch_shape),
    infer=_space_to_batch_infer,
    reference=_space_to_batch_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _space_to_batch_lower),),
)
"""The phases of blocks over the axes behind the batch, as batches; padding is zero."""


OPERATORS = (
    TRANSPOSE,
    CHANNEL_SHUFFLE,
    DEPTH_TO_SPACE,
    SPACE_TO_DEPTH,
    BATCH_TO_SPACE_ND,
    SPACE_TO_BATCH_ND,
)
