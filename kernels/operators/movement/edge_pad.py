"""edge_pad: the input with borders that repeat its outermost elements."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import band_moves, edged
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.movement.pad import Padded, infer, padded_shape

Parameters = Padded


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [np.pad(input_value(values), call.parameters.paddings, "edge")]


def _a_pair_per_axis(call: Call[Parameters]) -> bool:
    """paddings has two numbers for each axis, zeros where the axis has no element to repeat"""
    shape, paddings = input_type(call).shape, call.parameters.paddings
    return len(paddings) == len(shape) and all(
        size or border == (0, 0) for size, border in zip(shape, paddings, strict=True)
    )


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    """Copies of the middle and, elements repeated, of each border."""
    return band_moves(call, map(edged, input_type(call).shape, call.parameters.paddings))


OPERATOR = Operator(
    name="edge_pad",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _a_pair_per_axis, padded_shape),
    infer=infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
