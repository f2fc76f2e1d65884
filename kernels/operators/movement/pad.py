"""pad: the input with borders of one value."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import pad_moves
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Border


class Padded(parameters.Parameters):
    """paddings: elements before and behind each axis."""

    paddings: tuple[Border, ...]


class Parameters(Padded):
    """pad_value: what the borders hold, a code in integer tensors."""

    pad_value: int | float | None = None


def pad_value(call: Call[Parameters]) -> int | float:
    """What the borders hold, by default real zero."""
    if call.parameters.pad_value is not None:
        return call.parameters.pad_value
    quantization = call.outputs[0].quantization
    return 0 if quantization is None else quantization.zero_point


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [np.pad(input_value(values), call.parameters.paddings, constant_values=pad_value(call))]


def _a_pair_per_axis(call: Call[Parameters]) -> bool:
    """paddings has two numbers for each axis"""
    return len(call.parameters.paddings) == len(input_type(call).shape)


def infer(call: Call[Padded]) -> Shapes:
    """The input's shape plus its paddings."""
    sizes = zip(input_type(call).shape, call.parameters.paddings, strict=True)
    return (tuple(size + before + after for size, (before, after) in sizes),)


def padded_shape(call: Call) -> bool:
    """the output is the input's shape plus its paddings"""
    return infer(call) == (call.outputs[0].shape,)


def _storable_value(call: Call) -> bool:
    """pad_value is a value of the output's element type"""
    element = call.outputs[0].element
    if element.kind in ("real", "complex"):
        return True
    least, most = element.limits
    return least <= pad_value(call) <= most


def _lower(call: Call, hardware: Hardware) -> Parts:
    """Fill the output, then copy the input into its middle."""
    return pad_moves(call, pad_value(call))


OPERATOR = Operator(
    name="pad",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _a_pair_per_axis, padded_shape, _storable_value),
    infer=infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (), _lower),),
)
