"""space_to_depth: blocks of pixels as the channels of one."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import permuted_moves
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operators.movement.depth_to_space import Parameters

_ORDER = (0, 1, 3, 2, 4, 5)


def _split(call: Call[Parameters]) -> tuple[int, ...]:
    """The input's shape with a block as axes of its own."""
    (batch, height, width, depth), block = input_type(call).shape, call.parameters.block_size
    return batch, height // block, block, width // block, block, depth


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    pixels = input_value(values).reshape(_split(call)).transpose(_ORDER)
    return [np.ascontiguousarray(pixels).reshape(call.outputs[0].shape)]


def _an_image(call: Call[Parameters]) -> bool:
    """the input has four axes, and multiples of block_size as height and width"""
    shape, block = input_type(call).shape, call.parameters.block_size
    return len(shape) == 4 and shape[1] % block == shape[2] % block == 0


def _infer(call: Call[Parameters]) -> Shapes:
    (batch, height, width, depth), block = input_type(call).shape, call.parameters.block_size
    return ((batch, height // block, width // block, depth * block**2),)


def _shape(call: Call) -> bool:
    """the output is block_size times less high and wide, and as many times as deep"""
    return _infer(call) == (call.outputs[0].shape,)


def _lower(call: Call, hardware: Hardware) -> Parts:
    return permuted_moves(call, _split(call), _ORDER)


OPERATOR = Operator(
    name="space_to_depth",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _an_image, _shape),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
