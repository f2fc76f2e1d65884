"""concatenation: tensors joined along one axis; 8-bit inputs of another scale are rescaled."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.arithmetic.integer import clamp, codes_of_reals
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import join
from npusim.kernels.lowering.vector import dense_row_bytes, table_work
from npusim.kernels.lowering.work import Move, Parts, Pick, Rows, Work
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import (
    code_range,
    elementwise,
    input_type,
    input_value,
    move,
    quantization,
)
from npusim.kernels.operator.operator import Alias, Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Activated, Size
from npusim.kernels.operator.rescale import sound_scales
from npusim.kernels.operators.tables.lookup import look_up


class Parameters(Activated):
    """axis: along which the inputs are joined, counted from the front."""

    axis: Size


def table(call: Call, position: int) -> Array | None:
    """The output code of each of an input's 256 codes, in raw byte order; None if its bytes stay.

    LiteRT's steps, in float32: f = scale * (1 / output scale), then code * f + (-zero_point * f), rounded
    half away from zero.
    """
    tensor, output = input_type(call, position), call.outputs[0]
    if not output.quantized8 or tensor.quantization == output.quantization:
        return None
    source, target = quantization(tensor), quantization(output)
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.float32(source.scale) * (np.float32(1) / np.float32(target.scale))
        offset = np.float32(-source.zero_point) * factor
        codes = np.arange(256, dtype=np.uint8).view(tensor.numpy_dtype).astype(np.float32)
        steps = codes * factor + offset
    return clamp(codes_of_reals(steps, target.zero_point), *code_range(output.dtype), output.numpy_dtype)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    parts = []
    for position in range(len(call.inputs)):
        part, entries = input_value(values, position), table(call, position)
        parts.append(part if entries is None else look_up(entries, part))
    return [np.concatenate(parts, axis=call.parameters.axis)]


def _rows(call: Call[Parameters]) -> int:
    """Contiguous pieces of an input in the output."""
    return 1 if len(call.inputs) == 1 else prod(call.outputs[0].shape[: call.parameters.axis])


def _alias(call: Call[Parameters]) -> tuple[Alias, ...] | None:
    """Each input is a contiguous part of the output when all axes before the joined one have one element, or it is
    the only one.
    """
    tables = [table(call, position) for position in range(len(call.inputs))]
    if _rows(call) != 1 or any(entries is not None for entries in tables):
        return None
    parts, offset = [], 0
    for position in range(len(call.inputs)):
        parts.append(Alias(part=("in", position), whole=("out", 0), offset_bytes=offset))
        offset += input_type(call, position).size_bytes
    return tuple(parts)


def _workload(call: Call) -> Workload:
    rescaled = [table(call, position) is not None for position in range(len(call.inputs))]
    return elementwise(call) if any(rescaled) else move(call)


def _axis(call: Call[Parameters]) -> bool:
    """axis is an axis of the output"""
    return call.parameters.axis < len(call.outputs[0].shape)


def _infer(call: Call[Parameters]) -> Shapes:
    axis, shape = call.parameters.axis, input_type(call).shape
    joined = sum(input_type(call, position).shape[axis] for position in range(len(call.inputs)))
    return ((*shape[:axis], joined, *shape[axis + 1 :]),)


def _joined_shape(call: Call[Parameters]) -> bool:
    """the sizes of the inputs along the axis add up to the output's; all other sizes are equal"""
    axis, shape = call.parameters.axis, call.outputs[0].shape
    shapes = [input_type(call, position).shape for position in range(len(call.inputs))]
    if any(len(other) != len(shape) for other in shapes):
        return False
    others = all(other[:axis] + other[axis + 1 :] == shape[:axis] + shape[axis + 1 :] for other in shapes)
    return others and sum(other[axis] for other in shapes) == shape[axis]


def _no_activation(call: Call[Parameters]) -> bool:
    """has no fused activation"""
    return call.parameters.activation == "none"


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    """A copy per input; an input of another scale is looked up instead, a contiguous piece at a time."""
    rows, offset = _rows(call), 0
    parts: list[Move | Pick | Work] = []
    for position in range(len(call.inputs)):
        entries, row_bytes = table(call, position), input_type(call, position).elements // max(rows, 1)
        if entries is None:
            parts += join(call, position, offset)
        elif row_bytes:
            pitch, inner = call.outputs[0].elements // rows, dense_row_bytes(row_bytes)
            for piece in range(rows):
                source = Rows(("in", position), row_bytes // inner, inner, piece * row_bytes)
                target = Rows(("out", 0), row_bytes // inner, inner, piece * pitch + offset)
                parts.append(table_work(source, target, entries))
        offset += row_bytes
    return tuple(parts)


OPERATOR = Operator(
    name="concatenation",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(
        rules.several_inputs,
        rules.per_tensor,
        sound_scales,
        _axis,
        _joined_shape,
        _no_activation,
    ),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(Lowering("dma", (), _lower),),
    alias=_alias,
)
