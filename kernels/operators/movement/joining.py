"""Operators that join tensors along an axis, or cut one into pieces."""

from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from npusim.isa.arithmetic.integer import clamp, quantized_steps
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import join, lower_pack, lower_split, lower_unpack, pack_alias, unpack_alias
from npusim.kernels.lowering.vector_work import dense_row_bytes, table_work
from npusim.kernels.lowering.work import Move, Parts, Pick, Rows, Work
from npusim.kernels.operator import parameters, rules
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
from npusim.kernels.operator.parameters import Activated, Size, Sizes
from npusim.kernels.operator.rescale import sound_scales
from npusim.kernels.operators.tables.lookup import look_up


class ConcatenationParameters(Activated):
    """axis: the axis along which the inputs are joined, counted from the front."""

    axis: Size


def rescaling_table(call: Call, position: int) -> Array | None:
    """Return the table that requantizes an input, in the order of raw bytes; None if its bytes stay.

    LiteRT's steps, in float32: f = scale * (1 / output scale), then value * f + (-zero_point * f), rounded half away
    from zero.
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
    return clamp(quantized_steps(steps, target.zero_point), *code_range(output.dtype), output.numpy_dtype)


def _concatenation_reference(call: Call[ConcatenationParameters], values: Values) -> list[Array]:
    parts = []
    for position in range(len(call.inputs)):
        part, entries = input_value(values, position), rescaling_table(call, position)
        parts.append(part if entries is None else look_up(entries, part))
    return [np.concatenate(parts, axis=call.parameters.axis)]


def _rows(call: Call[ConcatenationParameters]) -> int:
    """Return the number of contiguous pieces of an input in the output."""
    return 1 if len(call.inputs) == 1 else prod(call.outputs[0].shape[: call.parameters.axis])


def _concatenation_alias(call: Call[ConcatenationParameters]) -> tuple[Alias, ...] | None:
    """Return the inputs as contiguous parts of the output, where they are.

    They are if all axes before the joined one have one element, or there is only one input.
    """
    tables = [rescaling_table(call, position) for position in range(len(call.inputs))]
    if _rows(call) != 1 or any(entries is not None for entries in tables):
        return None
    parts, offset = [], 0
    for position in range(len(call.inputs)):
        parts.append(Alias(part=("in", position), whole=("out", 0), offset_bytes=offset))
        offset += input_type(call, position).size_bytes
    return tuple(parts)


def _workload(call: Call) -> Workload:
    rescaled = [rescaling_table(call, position) is not None for position in range(len(call.inputs))]
    return elementwise(call) if any(rescaled) else move(call)


def _concatenation_axis(call: Call[ConcatenationParameters]) -> bool:
    """axis is an axis of the output"""
    return call.parameters.axis < len(call.outputs[0].shape)


def _concatenation_infer(call: Call[ConcatenationParameters]) -> Shapes:
    axis, shape = call.parameters.axis, input_type(call).shape
    joined = sum(input_type(call, position).shape[axis] for position in range(len(call.inputs)))
    return ((*shape[:axis], joined, *shape[axis + 1 :]),)


def _joined_shape(call: Call[ConcatenationParameters]) -> bool:
    """the sizes of the inputs along the axis add up to the output's; all other sizes are equal"""
    axis, shape = call.parameters.axis, call.outputs[0].shape
    shapes = [input_type(call, position).shape for position in range(len(call.inputs))]
    if any(len(other) != len(shape) for other in shapes):
        return False
    others = all(other[:axis] + other[axis + 1 :] == shape[:axis] + shape[axis + 1 :] for other in shapes)
    return others and sum(other[axis] for other in shapes) == shape[axis]


def _no_activation(call: Call[ConcatenationParameters]) -> bool:
    """has no fused activation"""
    return call.parameters.activation == "none"


def _lower(call: Call[ConcatenationParameters], hardware: Hardware) -> Parts:
    """Return a copy per input; an input of another scale is looked up instead, a contiguous piece at a time."""
    rows, offset = _rows(call), 0
    parts: list[Move | Pick | Work] = []
    for position in range(len(call.inputs)):
        entries, row_bytes = (
            rescaling_table(call, position),
            input_type(call, position).elements // max(rows, 1),
        )
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


CONCATENATION = Operator(
    name="concatenation",
    parameters=ConcatenationParameters,
    types=ANY_ALIKE,
    rules=(
        rules.several_inputs,
        rules.per_tensor,
        sound_scales,
        _concatenation_axis,
        _joined_shape,
        _no_activation,
    ),
    infer=_concatenation_infer,
    reference=_concatenation_reference,
    workload=_workload,
    lowerings=(Lowering("dma", (), _lower),),
    alias=_concatenation_alias,
)
"""Tensors joined along one axis; 8-bit inputs of another scale are requantized."""


class SplitParameters(parameters.Parameters):
    """axis: the axis that is cut, counted from the front; sizes: of the pieces along it."""

    axis: Size
    sizes: Sizes


def _split_reference(call: Call[SplitParameters], values: Values) -> list[Array]:
    axis, cuts = call.parameters.axis, list(accumulate(call.parameters.sizes))[:-1]
    return [np.ascontiguousarray(piece) for piece in np.split(input_value(values), cuts, axis=axis)]


def _split_alias(call: Call[SplitParameters]) -> tuple[Alias, ...] | None:
    """Return the outputs as contiguous parts of the input, if all axes before the cut one have one element."""
    if prod(input_type(call).shape[: call.parameters.axis]) != 1:
        return None
    offsets = accumulate((output.size_bytes for output in call.outputs), initial=0)
    numbered = zip(range(len(call.outputs)), offsets, strict=False)
    return tuple(Alias(("out", number), ("in", 0), offset) for number, offset in numbered)


def _split_axis(call: Call[SplitParameters]) -> bool:
    """axis is an axis of the input"""
    return call.parameters.axis < len(input_type(call).shape)


def _pieces(call: Call[SplitParameters]) -> bool:
    """the sizes add up to that of the input along the axis"""
    return sum(call.parameters.sizes) == input_type(call).shape[call.parameters.axis]


def _split_infer(call: Call[SplitParameters]) -> Shapes:
    axis, shape = call.parameters.axis, input_type(call).shape
    return tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in call.parameters.sizes)


_split_shapes = rules.inferred(
    _split_infer, "the outputs have the input's shape but for their sizes along the axis"
)


SPLIT = Operator(
    name="split",
    parameters=SplitParameters,
    types=ANY_ALIKE,
    rules=(rules.several_outputs, _split_axis, _pieces, _split_shapes),
    infer=_split_infer,
    reference=_split_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_split),),
    alias=_split_alias,
)
"""One tensor cut along one axis into pieces."""


class PackParameters(parameters.Parameters):
    """axis: the new axis, counted from the front of the output."""

    axis: Size = 0


def _pack_reference(call: Call[PackParameters], values: Values) -> list[Array]:
    parts = [input_value(values, position) for position in range(len(call.inputs))]
    return [np.stack(parts, axis=call.parameters.axis)]


def _one_shape(call: Call[PackParameters]) -> bool:
    """all inputs have one shape, and axis is an axis of the output"""
    shape = input_type(call).shape
    return call.parameters.axis <= len(shape) and all(
        input_type(call, position).shape == shape for position in range(len(call.inputs))
    )


def _pack_infer(call: Call[PackParameters]) -> Shapes:
    shape, axis = input_type(call).shape, call.parameters.axis
    return ((*shape[:axis], len(call.inputs), *shape[axis:]),)


_packed_shape = rules.inferred(
    _pack_infer, "the output has the shape of the inputs with their number at the axis"
)


PACK = Operator(
    name="pack",
    parameters=PackParameters,
    types=ANY_ALIKE,
    rules=(rules.several_inputs, _one_shape, _packed_shape),
    infer=_pack_infer,
    reference=_pack_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_pack),),
    alias=pack_alias,
)
"""Tensors of one shape, one behind the other along a new axis."""


class UnpackParameters(parameters.Parameters):
    """axis: the axis that is removed, counted from the front."""

    axis: Size = 0


def _unpack_reference(call: Call[UnpackParameters], values: Values) -> list[Array]:
    slices = np.moveaxis(input_value(values), call.parameters.axis, 0)
    return [
        np.ascontiguousarray(part).reshape(output.shape)
        for part, output in zip(slices, call.outputs, strict=True)
    ]


def _unpack_axis(call: Call[UnpackParameters]) -> bool:
    """axis is an axis of the input, of as many elements as there are outputs"""
    shape, axis = input_type(call).shape, call.parameters.axis
    return axis < len(shape) and shape[axis] == len(call.outputs)


def _unpack_infer(call: Call[UnpackParameters]) -> Shapes:
    shape, axis = input_type(call).shape, call.parameters.axis
    return ((*shape[:axis], *shape[axis + 1 :]),) * shape[axis]


_unpack_shapes = rules.inferred(_unpack_infer, "the outputs have the input's shape without the axis")


UNPACK = Operator(
    name="unpack",
    parameters=UnpackParameters,
    types=ANY_ALIKE,
    rules=(rules.several_outputs, _unpack_axis, _unpack_shapes),
    infer=_unpack_infer,
    reference=_unpack_reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_unpack),),
    alias=unpack_alias,
)
"""The slices along one axis as tensors without it."""


OPERATORS = (
    CONCATENATION,
    SPLIT,
    PACK,
    UNPACK,
)
