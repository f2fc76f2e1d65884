"""space_to_batch_nd: the phases of blocks over the axes behind the batch, as batches; what is missing is real zero."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import block_moves, fill_moves
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Border, Count


class Parameters(parameters.Parameters):
    """block_shape: of a block, along the axes behind the batch; paddings: before and behind each of these."""

    block_shape: tuple[Count, ...]
    paddings: tuple[Border, ...]


def _zero(call: Call) -> int:
    quantization = call.outputs[0].quantization
    return 0 if quantization is None else quantization.zero_point


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    given, block = call.parameters, call.parameters.block_shape
    image, rank = input_value(values), len(block)
    borders = ((0, 0), *given.paddings, *((0, 0),) * (image.ndim - rank - 1))
    padded = np.pad(image, borders, constant_values=_zero(call))
    split = [
        part for size, parts in zip(padded.shape[1:], block, strict=False) for part in (size // parts, parts)
    ]
    phases = padded.reshape(image.shape[0], *split, *image.shape[rank + 1 :])
    order = (*range(2, 2 * rank + 1, 2), 0, *range(1, 2 * rank, 2), *range(2 * rank + 1, phases.ndim))
    return [np.ascontiguousarray(phases.transpose(order)).reshape(call.outputs[0].shape)]


def _one_per_axis(call: Call[Parameters]) -> bool:
    """block_shape and paddings speak of the axes behind the batch, of all or the first of them"""
    block, paddings = call.parameters.block_shape, call.parameters.paddings
    return len(block) == len(paddings) < len(input_type(call).shape)


def _padded(call: Call[Parameters]) -> list[int]:
    sizes = zip(input_type(call).shape[1:], call.parameters.paddings, strict=False)
    return [size + sum(border) for size, border in sizes]


def _whole_blocks(call: Call[Parameters]) -> bool:
    """the sizes with their paddings are multiples of those of a block"""
    return all(
        size % block == 0 for size, block in zip(_padded(call), call.parameters.block_shape, strict=True)
    )


def _infer(call: Call[Parameters]) -> Shapes:
    shape, block = input_type(call).shape, call.parameters.block_shape
    steps = [size // parts for size, parts in zip(_padded(call), block, strict=True)]
    return ((shape[0] * int(np.prod(block, dtype=np.int64)), *steps, *shape[len(block) + 1 :]),)


def _shape(call: Call) -> bool:
    """the output has as many batches more as a block has elements, and as many times less along each axis"""
    return _infer(call) == (call.outputs[0].shape,)


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    """Copies of the phases that see the same part of the input, after a fill where some see less than all of it."""
    given = call.parameters
    before = [border[0] for border in given.paddings]
    fill = fill_moves(call, _zero(call)) if any(map(any, given.paddings)) else ()
    return (*fill, *block_moves(input_type(call), call.outputs[0], given.block_shape, before, to_batch=True))


OPERATOR = Operator(
    name="space_to_batch_nd",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _one_per_axis, _whole_blocks, _shape),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
