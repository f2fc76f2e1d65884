"""Lower elementwise operators, pools, reductions and look-ups to instructions of the vector unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import format_of
from npusim.isa.instructions.reduction import FUNCTIONS as REDUCTIONS
from npusim.isa.instructions.reduction import Reduce
from npusim.isa.instructions.vector import ENTRY_BYTES, TYPES, Convert, Lookup
from npusim.isa.instructions.windows import FUNCTIONS as POOLS
from npusim.isa.instructions.windows import Pool
from npusim.kernels.lowering.work import (
    Constants,
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
    same_rows,
)
from npusim.kernels.operator.operands import code_range, input_type, quantization
from npusim.kernels.operator.operator import Call, need
from npusim.kernels.operator.rescale import (
    Multiplier,
    act_range,
    mean_multiplier,
    quantize_multiplier_of,
)

_ROW_BYTES = 1024
"""Longest row in bytes into which a dense operand is cut; a tile takes any number of rows."""


def signed(dtype: str) -> int:
    """Return the field for the signedness of an 8-bit element type."""
    return int(dtype == "int8")


def result_fields(low: int, high: int, dtype: str) -> dict[str, Any]:
    """Return the fields for the type of the results and their smallest and largest value."""
    return {
        "format": format_of(dtype if dtype == "int16" else "int8"),
        "low": low,
        "high": high,
        "signed": signed(dtype),
    }


@need("vector.int16_passes")
def int16_passes(call: Call, hardware: Hardware) -> bool:
    """passes of the vector unit for int16 (vector.int16_passes)"""
    return hardware.vector.int16_passes > 0


def dense_row_bytes(elements: int, longest: int = _ROW_BYTES) -> int:
    """Return the longest row of at most `longest` bytes that divides a dense operand into equal rows.

    1 if it is empty.
    """
    return next((size for size in range(min(elements, longest), 0, -1) if elements % size == 0), 1)


def lower_dense(
    call: Call, make: Callable[[int, int, int, int], Instruction], constants: bytes = b""
) -> Parts:
    """Lower a function of one dense operand; `make(input, output, constants, elements)` gives the instruction."""
    elements = call.outputs[0].elements
    columns = dense_row_bytes(elements)
    rows, sizes = (
        elements // columns,
        [kind.element.bits // 8 for kind in (input_type(call), call.outputs[0])],
    )
    source, target = (
        Rows((side, 0), rows, columns * size) for side, size in zip(("in", "out"), sizes, strict=True)
    )
    return (_dense_work(source, target, make, constants, columns),)


def _dense_work(
    source: Rows,
    target: Rows,
    make: Callable[[int, int, int, int], Instruction],
    constants: bytes,
    columns: int,
) -> Work:
    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return make(at.inputs[0], at.output, at.constants, tile.rows * columns)

    return Work(
        rows=target.count,
        channels=target.row_bytes,
        channel_step=0,
        inputs=((source, same_rows),),
        outputs=(target,),
        constants=lambda first, last: Constants(constants),
        constant_bytes=lambda first, last: len(constants),
        emit=emit,
        overwrites=(0,) if source.row_bytes == target.row_bytes else (),
    )


def table_work(source: Rows, target: Rows, table: Array) -> Work:
    """Return a look-up of rows of bytes in a table of 256 entries, in raw byte order.

    `target` has rows of as many entries.
    """
    entry = ENTRY_BYTES.index(table.itemsize)

    def look_up(source: int, target: int, constants: int, elements: int) -> Instruction:
        return Lookup(input=source, output=target, size=elements, table=constants, entry=entry)

    return _dense_work(source, target, look_up, table.tobytes(), source.row_bytes)


def lower_int16_table(call: Call, table: Array, **fields: Any) -> Parts:
    """Lower a function of int16 values that interpolates between the entries of a table; `fields` say how."""

    def make(source: int, target: int, constants: int, elements: int) -> Instruction:
        return Lookup(input=source, output=target, size=elements, table=constants, **fields)

    return lower_dense(call, make, table.astype("<u2").tobytes())


def lower_table(call: Call, table: Array, position: int = 0) -> Parts:
    """Lower an operator of one operand of bytes to a look-up in its table of 256 entries, in raw byte order."""
    return (_part_by_table(table, 0, call.outputs[0].elements, position),)


def _part_by_table(table: Array, first: int, elements: int, position: int = 0) -> Work:
    """Return the look-up of some elements of an operand."""
    width = table.itemsize
    row = dense_row_bytes(elements, _ROW_BYTES // width**2)  # so that rows of wide entries are not longer
    source = Rows(("in", position), elements // row, row, first)
    work = table_work(source, Rows(("out", 0), elements // row, row * width, first * width), table)
    return replace(work, look_up=width == 1 and position == 0)


def lower_tables(call: Call, tables: Sequence[Array], axis: int) -> Parts:
    """Lower an operator of one operand of bytes with a table for each position along an axis."""
    shape = call.outputs[0].shape
    inner, channels = prod(shape[axis + 1 :]), shape[axis]
    return tuple(
        _part_by_table(tables[channel], (outer * channels + channel) * inner, inner)
        for outer in range(prod(shape[:axis]))
        for channel in range(channels)
    )


def lower_average_pool(call: Call, hardware: Hardware) -> Parts:
    """Lower averages over windows."""
    return _lower_pool(call, "average")


def lower_max_pool(call: Call, hardware: Hardware) -> Parts:
    """Lower maxima over windows."""
    return _lower_pool(call, "maximum")


def _lower_pool(call: Call, function: str) -> Parts:
    low, high = act_range(call.parameters.activation, call.outputs[0])
    fields = result_fields(low, high, call.outputs[0].dtype) | {"function": POOLS.index(function)}
    return pool_parts(call, lambda window: Pool(**window, **fields))


def pool_parts(call: Call, make: Callable[[dict[str, Any]], Instruction]) -> Parts:
    """Lower a pool: tiles of rows, image by image; `make` gives the instruction from the fields of a tile's windows."""
    images, ifm_height, ifm_width, depth = input_type(call).shape
    _, ofm_height, ofm_width, _ = call.outputs[0].shape
    pixel = depth * input_type(call).element.bits // 8
    kernel_height, kernel_width = call.parameters.filter
    stride_height, stride_width = call.parameters.strides
    pad_top, pad_left = call.parameters.padding[0][0], call.parameters.padding[1][0]

    def needed(first: int, last: int) -> tuple[int, int]:
        start = max(first * stride_height - pad_top, 0)
        return start, min((last - 1) * stride_height - pad_top + kernel_height, ifm_height)

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        first, last = needed(tile.first_row, tile.last_row)
        return make(
            {
                "ifm": at.inputs[0],
                "ifm_row_stride": ifm_width * pixel,
                "ifm_height": last - first,
                "ifm_width": ifm_width,
                "depth": depth,
                "ofm": at.output,
                "ofm_row_stride": ofm_width * pixel,
                "ofm_height": tile.rows,
                "ofm_width": ofm_width,
                "kernel_height": kernel_height,
                "kernel_width": kernel_width,
                "stride_height": stride_height,
                "stride_width": stride_width,
                "pad_top": first - (tile.first_row * stride_height - pad_top),
                "pad_left": pad_left,
            }
        )

    ifm_row, ofm_row = ifm_width * pixel, ofm_width * pixel
    ifm = Rows(("in", 0), ifm_height, ifm_row, 0, ifm_height * ifm_row)
    ofm = Rows(("out", 0), ofm_height, ofm_row, 0, ofm_height * ofm_row)
    work = Work(ofm_height, pixel, 0, ((ifm, needed),), (ofm,), no_constants, no_constant_bytes, emit)
    return (replace(work, entries=images),)


def adjacent_axes(call: Call) -> bool:
    """on the NPU the averaged dimensions are adjacent, not counting dimensions of size 1"""
    return _mean_sizes(call) is not None


def _mean_sizes(call: Call) -> tuple[int, int, int] | None:
    """Return (outer, count, inner) of a mean over adjacent dimensions."""
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
    """Return the fields of a requantization to the output's scale, over the whole range of the output's type."""
    return {**_requantized(ifm, ofm, rescale), **result_fields(*code_range(ofm.dtype), ofm.dtype)}


def _requantized(ifm: TensorType, ofm: TensorType, rescale: Multiplier) -> dict[str, Any]:
    return {
        "input_zero": quantization(ifm).zero_point,
        "output_zero": quantization(ofm).zero_point,
        "multiplier": rescale[0],
        "shift": rescale[1],
    }


def lower_mean(call: Call, hardware: Hardware) -> Parts:
    """Lower a mean over adjacent dimensions."""
    sizes = _mean_sizes(call)
    if sizes is None:
        raise ValueError("averaged dimensions are not adjacent; the operator's rules should refuse")
    ifm, ofm = input_type(call), call.outputs[0]
    fields = rescaled(ifm, ofm, mean_multiplier(ifm, ofm, sizes[1]))
    return middle_reduced(call, sizes, function=REDUCTIONS.index("sum"), **fields)


def middle_reduced(call: Call, sizes: tuple[int, int, int], **fields: Any) -> Parts:
    """Lower a reduction of [outer, count, inner] over the middle; `fields` say which.

    Tiles are independent results: outer blocks, cut further along the inner axis if not even one of them fits.
    """
    outer, count, inner = sizes
    size = input_type(call).element.bits // 8

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return Reduce(
            input=at.inputs[0],
            output=at.output,
            outer=tile.rows,
            parts=1,
            middle=1,
            count=count,
            inner=tile.channels // size,
            **fields,
        )

    source, target = Rows(("in", 0), outer, count * inner * size), Rows(("out", 0), outer, inner * size)
    inputs = ((source, same_rows),)
    work = Work(outer, inner * size, 0, inputs, (target,), no_constants, no_constant_bytes, emit)
    return (replace(work, last_resort=size, sliced=True),)


def lower_quantize(call: Call, hardware: Hardware) -> Parts:
    """Lower a requantization to the scale of the output."""
    return lower_rescale(call, quantize_multiplier_of(input_type(call), call.outputs[0]))


def lower_rescale(call: Call, multiplier: Multiplier, **limits: int) -> Parts:
    """Lower a requantization of every element; `limits` replace the range of the output's type."""
    ifm, ofm = input_type(call), call.outputs[0]
    low, high = code_range(ofm.dtype)
    fields = _requantized(ifm, ofm, multiplier) | {"low": low, "high": high} | limits

    def make(source: int, target: int, constants: int, elements: int) -> Instruction:
        return Convert(
            input=source,
            output=target,
            size=elements,
            source=TYPES.index(ifm.dtype),
            target=TYPES.index(ofm.dtype),
            **fields,
        )

    return lower_dense(call, make)
