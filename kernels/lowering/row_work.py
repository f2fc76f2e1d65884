"""Lower functions of rows along an axis, such as softmax, to instructions of the vector unit."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.kernels.lowering.work import (
    Constants,
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    same_rows,
)
from npusim.kernels.operator.axes import Along, axis_of
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import ROOM, Call, need


class RowFields(NamedTuple):
    """The fields of an instruction that describe the rows of a tile."""

    input: int
    output: int
    rows: int
    depth: int
    gap: int


def _inner(call: Call[Along]) -> int:
    """Return how many rows are interleaved: the elements behind the axis."""
    return prod(input_type(call).shape[axis_of(call) + 1 :])


@need(ROOM)
def rows_at_once(call: Call[Along], hardware: Hardware) -> bool:
    """room in half of the scratchpad for input and output of the interleaved rows"""
    inner = _inner(call)
    size = input_type(call).shape[axis_of(call)] * inner * input_type(call).element.bits // 8
    return inner == 1 or 2 * size <= hardware.scratchpad_bytes // 2


def row_work(call: Call[Along], make: Callable[[RowFields], Instruction]) -> Parts:
    """Lower a function of rows along an axis: tiles of rows, or of groups of interleaved rows."""
    return row_work_by_table(call, lambda fields, table: make(fields), b"")


def row_work_by_table(
    call: Call[Along], make: Callable[[RowFields, int], Instruction], table: bytes
) -> Parts:
    """Lower a function of rows with a table that every tile needs; `make` also gets the table's address."""
    shape, axis = input_type(call).shape, axis_of(call)
    sizes = prod(shape[:axis]), shape[axis], _inner(call)
    return row_parts(call, sizes, make, Constants(table))


def row_parts(
    call: Call,
    sizes: tuple[int, int, int],
    make: Callable[[RowFields, int], Instruction],
    constants: Constants,
) -> Parts:
    """Lower a function of rows with constants that every tile needs; `make` also gets their address.

    sizes: number of sets of rows, elements of a row, interleaved rows of a set.
    """
    outer, depth, inner = sizes

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return make(RowFields(at.inputs[0], at.output, tile.rows, depth, inner - 1), at.constants)

    width = depth * inner * input_type(call).element.bits // 8
    source, target = Rows(("in", 0), outer, width), Rows(("out", 0), outer, width)
    inputs = ((source, same_rows),)
    return (
        Work(
            rows=outer,
            channels=width,
            channel_step=0,
            inputs=inputs,
            outputs=(target,),
            constants=lambda first, last: constants,
            constant_bytes=lambda first, last: constants.size_bytes,
            emit=emit,
            overwrites=(0,),
        ),
    )
