"""mirror_pad: the input with borders that mirror it, with the edge ("symmetric") or without ("reflect")."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import band_moves, mirrored
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.movement.pad import Padded, infer, padded_shape


class Parameters(Padded):
    """mode: whether the edge itself is repeated."""

    mode: Literal["reflect", "symmetric"] = "reflect"


def _edge(call: Call[Parameters]) -> int:
    """Elements between a border and what it mirrors."""
    return int(call.parameters.mode == "reflect")


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    mode: Any = call.parameters.mode
    return [np.pad(input_value(values), call.parameters.paddings, mode)]


def _a_pair_per_axis(call: Call[Parameters]) -> bool:
    """paddings has two numbers for each axis, no more than the axis has elements to mirror"""
    shape, edge = input_type(call).shape, _edge(call)
    return len(call.parameters.paddings) == len(shape) and all(
        max(border) <= max(size - edge, 0)
        for size, border in zip(shape, call.parameters.paddings, strict=True)
    )


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    borders = zip(input_type(call).shape, call.parameters.paddings, strict=True)
    return band_moves(call, [mirrored(size, border, _edge(call)) for size, border in borders])


OPERATOR = Operator(
    name="mirror_pad",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _a_pair_per_axis, padded_shape),
    infer=infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
