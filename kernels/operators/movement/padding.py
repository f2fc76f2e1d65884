"""Operators that add borders around a tensor."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import band_moves, edged, mirrored, pad_moves
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import code_of_zero, input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Border


class Padded(parameters.Parameters):
    """paddings: elements before and behind each axis."""

    paddings: tuple[Border, ...]


class PadParameters(Padded):
    """pad_value: the value of the borders, quantized if the tensor is."""

    pad_value: int | float | None = None


def pad_value(call: Call[PadParameters]) -> int | float:
    """Return the value of the borders, by default zero (the zero point of quantized values)."""
    if call.parameters.pad_value is not None:
        return call.parameters.pad_value
    return code_of_zero(call.outputs[0])


def _pad_reference(call: Call[PadParameters], values: Values) -> list[Array]:
    return [np.pad(input_value(values), call.parameters.paddings, constant_values=pad_value(call))]


def _pad_a_pair_per_axis(call: Call[PadParameters]) -> bool:
    """paddings has two numbers for each axis"""
    return len(call.parameters.paddings) == len(input_type(call).shape)


def infer(call: Call[Padded]) -> Shapes:
    """Return the input's shape plus its paddings."""
    sizes = zip(input_type(call).shape, call.parameters.paddings, strict=True)
    return (tuple(size + before + after for size, (before, after) in sizes),)


padded_shape = rules.inferred(infer, "the output is the input's shape plus its paddings")


def _storable_value(call: Call) -> bool:
    """pad_value is a value of the output's element type"""
    element = call.outputs[0].element
    if element.kind in ("real", "complex"):
        return True
    least, most = element.limits
    return least <= pad_value(call) <= most


def _pad_lower(call: Call, hardware: Hardware) -> Parts:
    """Fill the output, then copy the input into its middle."""
    return pad_moves(call, pad_value(call))


PAD = Operator(
    name="pad",
    parameters=PadParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _pad_a_pair_per_axis, padded_shape, _storable_value),
    infer=infer,
    reference=_pad_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _pad_lower),),
)
"""The input with borders of one value."""


class MirrorPadParameters(Padded):
    """mode: whether the edge itself is repeated ("symmetric") or not ("reflect")."""

    mode: Literal["reflect", "symmetric"] = "reflect"


def _edge(call: Call[MirrorPadParameters]) -> int:
    """Return the number of elements between a border and what it mirrors."""
    return int(call.parameters.mode == "reflect")


def _mirror_pad_reference(call: Call[MirrorPadParameters], values: Values) -> list[Array]:
    mode: Any = call.parameters.mode
    return [np.pad(input_value(values), call.parameters.paddings, mode)]


def _mirror_pad_a_pair_per_axis(call: Call[MirrorPadParameters]) -> bool:
    """paddings has two numbers for each axis, no more than the axis has elements to mirror"""
    shape, edge = input_type(call).shape, _edge(call)
    return len(call.parameters.paddings) == len(shape) and all(
        max(border) <= max(size - edge, 0)
        for size, border in zip(shape, call.parameters.paddings, strict=True)
    )


def _mirror_pad_lower(call: Call[MirrorPadParameters], hardware: Hardware) -> Parts:
    borders = zip(input_type(call).shape, call.parameters.paddings, strict=True)
    return band_moves(call, [mirrored(size, border, _edge(call)) for size, border in borders])


MIRROR_PAD = Operator(
    name="mirror_pad",
    parameters=MirrorPadParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _mirror_pad_a_pair_per_axis, padded_shape),
    infer=infer,
    reference=_mirror_pad_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _mirror_pad_lower),),
)
"""The input with borders that mirror it, with the edge ("symmetric") or without ("reflect")."""


EdgePadParameters = Padded


def _edge_pad_reference(call: Call[EdgePadParameters], values: Values) -> list[Array]:
    return [np.pad(input_value(values), call.parameters.paddings, "edge")]


def _edge_pad_a_pair_per_axis(call: Call[EdgePadParameters]) -> bool:
    """paddings has two numbers for each axis, zeros where the axis has no element to repeat"""
    shape, paddings = input_type(call).shape, call.parameters.paddings
    return len(paddings) == len(shape) and all(
        size or border == (0, 0) for size, border in zip(shape, paddings, strict=True)
    )


def _edge_pad_lower(call: Call[EdgePadParameters], hardware: Hardware) -> Parts:
    """Return copies of the middle and, elements repeated, of each border."""
    return band_moves(call, map(edged, input_type(call).shape, call.parameters.paddings))


EDGE_PAD = Operator(
    name="edge_pad",
    parameters=EdgePadParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _edge_pad_a_pair_per_axis, padded_shape),
    infer=infer,
    reference=_edge_pad_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _edge_pad_lower),),
)
"""The input with borders that repeat its outermost elements."""


OPERATORS = (
    PAD,
    MIRROR_PAD,
    EDGE_PAD,
)
