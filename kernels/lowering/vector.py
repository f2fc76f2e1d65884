"""How elementwise operators, pools, reductions and look-ups become instructions of the vector unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.reduction import Mean, Pool
from npusim.isa.instructions.vector import FUNCTIONS, Binary, Lookup, Rescale, Softmax
from npusim.kernels.lowering.work import (
    Constants,
    Parts,
    Rows,
    RowsNeeded,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
    same_rows,
)
from npusim.kernels.operator.activation import act_range
from npusim.kernels.operator.operands import code_range, input_type, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import Activation
from npusim.kernels.operator.rescale import (
    ADD_LEFT_SHIFT,
    Multiplier,
    add_multipliers,
    mean_multiplier,
    mul_multiplier,
    quantize_multiplier_of,
)

_ROW_BYTES = 1024
"""Longest row into which a dense operand is cut; a tile takes as many rows as it likes."""


def signed(dtype: str) -> int:
    """The type field of an 8-bit element type."""
    return int(dtype == "int8")


def dense_row_bytes(elements: int) -> int:
    """The longest row of at most `_ROW_BYTES` that divides a dense operand into equal rows; 1 for no elements."""
    return next((size for size in range(min(elements, _ROW_BYTES), 0, -1) if elements % size == 0), 1)


def lower_dense(
    call: Call, make: Callable[[int, int, int, int], Instruction], constants: bytes = b""
) -> Parts:
    """A function of one dense operand; `make(input, output, constants, elements)` gives the instruction."""
    elements = call.outputs[0].elements
    row_bytes = dense_row_bytes(elements)
    rows = elements // row_bytes
    return (
        _dense_work(Rows(("in", 0), rows, row_bytes), Rows(("out", 0), rows, row_bytes), make, constants),
    )


def _dense_work(
    source: Rows, target: Rows, make: Callable[[int, int, int, int], Instruction], constants: bytes
) -> Work:
    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return make(at.inputs[0], at.output, at.constants, tile.rows * target.row_bytes)

    return Work(
        rows=target.count,
        channels=target.row_bytes,
        channel_step=0,
        inputs=((source, same_rows),),
        outputs=(target,),
        constants=lambda first, last: Constants(constants),
        constant_bytes=lambda first, last: len(constants),
        emit=emit,
        overwrites=(0,),
    )


def table_work(source: Rows, target: Rows, table: Array) -> Work:
    """A look-up of rows of 8-bit codes in a 256-entry table, in raw byte order."""
    return _dense_work(source, target, _look_up, table.tobytes())


def _look_up(source: int, target: int, constants: int, elements: int) -> Instruction:
    return Lookup(input=source, output=target, size=elements, table=constants)


def lower_table(call: Call, table: Array) -> Parts:
    """An operator of one operand as a look-up in its 256-entry table, in raw byte order."""
    return lower_dense(call, _look_up, table.tobytes())


class _Grid(NamedTuple):
    """Output elements as rows x columns, and how each operand walks over them: (row stride, column stride)."""

    rows: int
    columns: int
    strides: tuple[tuple[int, int], ...]


def _grid(call: Call) -> _Grid | None:
    """A grid on which each operand is whole, one row, one column or one value; None if there is none."""
    shape, elements = call.outputs[0].shape, call.outputs[0].elements
    operands = [input_type(call, position) for position in (0, 1)]
    if all(operand.elements in (1, elements) for operand in operands):
        columns = dense_row_bytes(elements)
        strides = ((columns, 1) if operand.elements == elements else (0, 0) for operand in operands)
        return _Grid(elements // columns, columns, tuple(strides))
    for split in range(len(shape)):
        found = [_walk(operand.shape, shape, split) for operand in operands]
        if None not in found:
            strides = (each for each in found if each is not None)
            return _Grid(prod(shape[:split]), prod(shape[split:]), tuple(strides))
    return None


def _walk(shape: tuple[int, ...], output: tuple[int, ...], split: int) -> tuple[int, int] | None:
    """(row stride, column stride) of an operand when the output splits at an axis, or None."""
    padded = (1,) * (len(output) - len(shape)) + tuple(shape)
    rows, columns = prod(padded[:split]), prod(padded[split:])
    if rows not in (1, prod(output[:split])) or columns not in (1, prod(output[split:])):
        return None
    return (columns if rows > 1 else 0), int(columns > 1)


def lower_binary(call: Call, function: str, activation: Activation, fields: dict[str, Any]) -> Parts:
    """An elementwise function of two operands; one that repeats its rows is needed whole by every tile."""
    grid = _grid(call)
    if grid is None:
        raise ValueError("operands repeat in no regular pattern; the operator's rules should refuse")
    (a_row, a_column), (b_row, b_column) = grid.strides
    number = [each.name for each in FUNCTIONS].index(function)
    low, high = act_range(activation, call.outputs[0])

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return Binary(
            function=number,
            a=at.inputs[0],
            b=at.inputs[1],
            output=at.output,
            rows=tile.rows,
            columns=grid.columns,
            a_row_stride=a_row,
            b_row_stride=b_row,
            a_column_stride=a_column,
            b_column_stride=b_column,
            low=low,
            high=high,
            signed=signed(call.outputs[0].dtype),
            **fields,
        )

    return (
        Work(
            rows=grid.rows,
            channels=grid.columns,
            channel_step=0,
            inputs=tuple(_operand_rows(position, grid) for position in (0, 1)),
            outputs=(Rows(("out", 0), grid.rows, grid.columns),),
            constants=no_constants,
            constant_bytes=no_constant_bytes,
            emit=emit,
            overwrites=tuple(k for k in (0, 1) if grid.strides[k] == (grid.columns, 1)),
        ),
    )


def _operand_rows(position: int, grid: _Grid) -> tuple[Rows, RowsNeeded]:
    """The rows of an operand: its own for each output row, or one that all share."""
    row_stride, column_stride = grid.strides[position]
    width = grid.columns if column_stride else 1
    if row_stride:
        return Rows(("in", position), grid.rows, width), same_rows
    return Rows(("in", position), 1, width), _only_row


def _only_row(first: int, last: int) -> tuple[int, int]:
    return 0, 1


def _zeros(call: Call) -> dict[str, int]:
    return {
        "a_zero": quantization(input_type(call)).zero_point,
        "b_zero": quantization(input_type(call, 1)).zero_point,
        "output_zero": quantization(call.outputs[0]).zero_point,
    }


def lower_sum(call: Call, function: str) -> Parts:
    """Quantised sum or difference (`function`: "add" or "sub")."""
    found = add_multipliers(input_type(call), input_type(call, 1), call.outputs[0])
    fields = {
        **_zeros(call),
        "a_multiplier": found.first[0],
        "a_shift": found.first[1],
        "b_multiplier": found.second[0],
        "b_shift": found.second[1],
        "output_multiplier": found.output[0],
        "output_shift": found.output[1],
        "left_shift": ADD_LEFT_SHIFT,
    }
    return lower_binary(call, function, call.parameters.activation, fields)


def lower_mul(call: Call, hardware: Hardware) -> Parts:
    """Quantised product."""
    multiplier, shift = mul_multiplier(input_type(call), input_type(call, 1), call.outputs[0])
    fields = {**_zeros(call), "output_multiplier": multiplier, "output_shift": shift}
    return lower_binary(call, "mul", call.parameters.activation, fields)


def lower_selection(call: Call, name: str) -> Parts:
    """The larger or the smaller code ("maximum" or "minimum")."""
    return lower_binary(call, name[:3], "none", {})


def regular_broadcast(call: Call) -> bool:
    """on the NPU each operand is whole, or repeats as one row, one column or one value"""
    return _grid(call) is not None


def lower_average_pool(call: Call, hardware: Hardware) -> Parts:
    """Average over windows."""
    return _lower_pool(call, False)


def lower_max_pool(call: Call, hardware: Hardware) -> Parts:
    """Maximum over windows."""
    return _lower_pool(call, True)


def _lower_pool(call: Call, maximum: bool) -> Parts:
    """A pool: tiles of rows, image by image."""
    clamp = act_range(call.parameters.activation, call.outputs[0])
    images, ifm_height, ifm_width, depth = input_type(call).shape
    _, ofm_height, ofm_width, _ = call.outputs[0].shape
    kernel_height, kernel_width = call.parameters.filter
    stride_height, stride_width = call.parameters.strides
    pad_top, pad_left = call.parameters.padding[0][0], call.parameters.padding[1][0]

    def needed(first: int, last: int) -> tuple[int, int]:
        start = max(first * stride_height - pad_top, 0)
        return start, min((last - 1) * stride_height - pad_top + kernel_height, ifm_height)

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        first, last = needed(tile.first_row, tile.last_row)
        return Pool(
            maximum=int(maximum),
            ifm=at.inputs[0],
            ifm_row_stride=ifm_width * depth,
            ifm_height=last - first,
            ifm_width=ifm_width,
            depth=depth,
            ofm=at.output,
            ofm_row_stride=ofm_width * depth,
            ofm_height=tile.rows,
            ofm_width=ofm_width,
            kernel_height=kernel_height,
            kernel_width=kernel_width,
            stride_height=stride_height,
            stride_width=stride_width,
            pad_top=first - (tile.first_row * stride_height - pad_top),
            pad_left=pad_left,
            low=clamp[0],
            high=clamp[1],
            signed=signed(call.outputs[0].dtype),
        )

    ifm_row, ofm_row = ifm_width * depth, ofm_width * depth
    ifm = Rows(("in", 0), ifm_height, ifm_row, 0, ifm_height * ifm_row)
    ofm = Rows(("out", 0), ofm_height, ofm_row, 0, ofm_height * ofm_row)
    work = Work(ofm_height, depth, 0, ((ifm, needed),), (ofm,), no_constants, no_constant_bytes, emit)
    return (replace(work, entries=images),)


def adjacent_axes(call: Call) -> bool:
    """on the NPU the averaged dimensions are adjacent, dimensions of one aside"""
    return _mean_sizes(call) is not None


def _mean_sizes(call: Call) -> tuple[int, int, int] | None:
    """(outer, count, inner) of a mean over adjacent dimensions."""
    shape, axes = input_type(call).shape, set(call.parameters.axes)
    kept = [axis for axis, size in enumerate(shape) if size > 1]
    averaged = [axis for axis in kept if axis in axes]
    if not averaged:
        return prod(shape), 1, 1
    first, last = averaged[0], averaged[-1]
    if any(first < axis < last and axis not in axes for axis in kept):
        return None
    return prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])


def rescaled(ifm: TensorType, ofm: TensorType, rescale: Multiplier) -> dict[str, Any]:
    """Fields of an instruction that brings codes to another scale, over the whole range of the output's type."""
    low, high = code_range(ofm.dtype)
    return {
        "input_zero": quantization(ifm).zero_point,
        "output_zero": quantization(ofm).zero_point,
        "multiplier": rescale[0],
        "shift": rescale[1],
        "low": low,
        "high": high,
        "signed": signed(ofm.dtype),
    }


def lower_mean(call: Call, hardware: Hardware) -> Parts:
    """A mean over adjacent dimensions: tiles of independent sums; of some of those side by side where not all fit."""
    sizes = _mean_sizes(call)
    if sizes is None:
        raise ValueError("averaged dimensions are not adjacent; the operator's rules should refuse")
    outer, count, inner = sizes
    ifm, ofm = input_type(call), call.outputs[0]
    fields = rescaled(ifm, ofm, mean_multiplier(ifm, ofm, count))

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return Mean(
            input=at.inputs[0],
            output=at.output,
            outer=tile.rows,
            count=count,
            inner=tile.channels,
            **fields,
        )

    source, target = Rows(("in", 0), outer, count * inner), Rows(("out", 0), outer, inner)
    inputs = ((source, same_rows),)
    work = Work(outer, inner, 0, inputs, (target,), no_constants, no_constant_bytes, emit)
    return (replace(work, last_resort=1, sliced=True),)


def lower_quantize(call: Call, hardware: Hardware) -> Parts:
    """Codes of one scale to codes of another."""
    ifm, ofm = input_type(call), call.outputs[0]
    fields = rescaled(ifm, ofm, quantize_multiplier_of(ifm, ofm))

    def make(source: int, target: int, constants: int, elements: int) -> Instruction:
        return Rescale(
            input=source,
            output=target,
            size=elements,
            input_signed=signed(ifm.dtype),
            **fields,
        )

    return lower_dense(call, make)


def softmax_work(call: Call, multiplier: int, left_shift: int, difference_min: int) -> Parts:
    """Softmax over the last axis: tiles of rows."""
    depth = call.outputs[0].shape[-1]
    rows = call.outputs[0].elements // depth

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return Softmax(
            input=at.inputs[0],
            output=at.output,
            rows=tile.rows,
            depth=depth,
            multiplier=multiplier,
            left_shift=left_shift,
            difference_min=difference_min,
            signed=signed(call.outputs[0].dtype),
        )

    inputs = ((Rows(("in", 0), rows, depth), same_rows),)
    target = Rows(("out", 0), rows, depth)
    return (Work(rows, depth, 0, inputs, (target,), no_constants, no_constant_bytes, emit, (0,)),)
