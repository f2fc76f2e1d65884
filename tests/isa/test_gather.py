"""dma.gather: which rows land where, which lists it refuses, and exact occupancy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import SimulationError
from npusim.isa.hardware.file import change
from npusim.isa.instructions.gather import ANYWHERE, Gather
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.program.start import memory_of
from npusim.machine.system import execute

from .samples import program_of, tiny_hardware

CHIP = change(
    tiny_hardware(),
    {"dma.setup_cycles": 20, "dma.port_bytes_per_cycle": 8, "dma.burst_buffer_kib": 1, "dram.burst_bytes": 32,
     "dram.row_bytes": 2048},
)  # fmt: skip
LIST, RESULT = 200, 400

ROWS = Gather(index=LIST, target=RESULT, rows=2, size=2, limit0=9, dense_stride=6)
"""Three of ten rows of two bytes."""


def memory(gather: Gather, numbers: list[int]) -> Memory:
    """1, 2, 3, ... from address 0 of all memories, and the list."""
    found = memory_of(program_of([gather], constants=b""))
    for space in CHIP.spaces:
        found.bytes_at(space, 0, 100)[:] = np.arange(1, 101)
    raw = np.array(numbers, ("int32", "int64")[gather.index_type]).view(np.uint8)
    found.bytes_at(Space(gather.index_space), gather.index, len(raw))[:] = raw
    return found


def result(gather: Gather, numbers: list[int], size: int) -> list[int]:
    filled = memory(gather, numbers)
    commit(gather.execute(filled))
    return [int(each) for each in filled.bytes_at(Space(gather.target_space), RESULT, size)]


@pytest.mark.parametrize(
    ("gather", "numbers", "expected"),
    [
        (ROWS, [4, 0, 4], [9, 10, 1, 2, 9, 10, 0]),
        (replace(ROWS, index_type=1), [9, 1, 2], [19, 20, 3, 4, 5, 6, 0]),
        # a gap behind the rows of each of two tables of five rows, one list for both
        (replace(ROWS, repeats=1, rows=1, limit0=4, dense_stride=5), [3, 1],
         [7, 8, 3, 4, 0, 17, 18, 13, 14, 0]),
        # two tables with a list each
        (replace(ROWS, batches=1, rows=1, limit0=4, dense_stride=4), [3, 1, 0, 4],
         [7, 8, 3, 4, 11, 12, 19, 20]),
        # indices of two numbers into a table of 3 x 5 rows
        (replace(ROWS, rows=1, entries=1, limit0=2, limit1=4, dense_stride=4), [1, 2, 2, 4],
         [15, 16, 29, 30]),
    ],
)  # fmt: skip
def test_rows_by_index(gather: Gather, numbers: list[int], expected: list[int]) -> None:
    assert result(gather, numbers, len(expected)) == expected
    for spaces in ({"index_space": 1}, {"source_space": 1}, {"target_space": 1, "index_space": 2}):
        assert result(replace(gather, **spaces), numbers, len(expected)) == expected


TABLE = replace(ROWS, scatter=1, rows=1, limit0=3, dense_stride=4)
"""Two rows of two bytes into a table of four."""


@pytest.mark.parametrize(
    ("scatter", "numbers", "expected"),
    [
        (TABLE, [2, 0], [3, 4, 0, 0, 1, 2, 0, 0]),
        (replace(TABLE, index_type=1), [1, 1], [0, 0, 3, 4, 0, 0]),  # the last row for a place remains
        (replace(TABLE, bounds=1), [-1, -4], [3, 4, 0, 0, 0, 0, 1, 2]),
        (replace(TABLE, bounds=2), [-9, 77], [1, 2, 0, 0, 0, 0, 3, 4]),
        # two consecutive rows for the only index, which moves so that both exist; one list for two tables
        (replace(TABLE, bounds=2, span=1, rows=0, repeats=1), [3],
         [0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8]),
        # a table for each of two lists, a gap behind the rows of each batch
        (replace(TABLE, batches=1, rows=0, limit0=1, dense_stride=5), [1, 0], [0, 0, 1, 2, 6, 7, 0, 0]),
    ],
)  # fmt: skip
def test_rows_into_tables(scatter: Gather, numbers: list[int], expected: list[int]) -> None:
    assert result(scatter, numbers, len(expected)) == expected
    for spaces in ({"index_space": 1}, {"source_space": 1}, {"target_space": 1, "index_space": 2}):
        assert result(replace(scatter, **spaces), numbers, len(expected)) == expected


def test_a_scatter_pays_its_rows_and_not_the_table() -> None:
    """Two rows of two bytes into a table of 2**20 in DRAM: worst-case places, and 4 bytes through the ports."""
    scatter = replace(TABLE, target_space=1, limit0=(1 << 20) - 1)
    cost = scatter.cost(Context(CHIP))
    assert cost.cycles == 20 + 1 + 20 + 2
    assert cost.actions == {"burst_buffer_byte": 8, "scratchpad_read_byte": 12, "noc_byte": 4}
    places = Region(Space.DRAM, ANYWHERE + 30, (2, 2), (2048,))
    assert cost.dram == ((places, True),)


@pytest.mark.parametrize(
    ("gather", "numbers", "message"),
    [
        (replace(ROWS, bounds=1), [-10, 9, -11], "index 2 of the list is -11; it may be -10..-1 or 0..9"),
        (replace(ROWS, span=3), [6, 7, 0], "index 1 of the list is 7; it may be 0..6"),
        (ROWS, [4, 10, 0], "index 1 of the list is 10; it may be 0..9"),
        (ROWS, [4, 0, -1], "index 2 of the list is -1; it may be 0..9"),
        (replace(ROWS, index_type=1), [1 << 33, 0, 0], f"index 0 of the list is {1 << 33}; it may be 0..9"),
        (
            replace(ROWS, batches=1, rows=0, limit0=4),
            [4, 5],
            "index 0 of batch 1 of the list is 5; it may be 0..4",
        ),
        (
            replace(ROWS, rows=1, entries=1, limit0=2, limit1=4),
            [0, 4, 3, 0],
            "index 1 of the list is 3; it may be 0..2",
        ),
    ],
)
def test_an_index_outside_ends_the_program(gather: Gather, numbers: list[int], message: str) -> None:
    with pytest.raises(SimulationError) as fault:
        gather.execute(memory(gather, numbers))
    assert str(fault.value) == message


def test_regions_do_not_depend_on_the_list() -> None:
    gather = replace(ROWS, repeats=1, dense_stride=7)
    reads, writes = gather.regions(Context(CHIP))
    assert reads == (dense(Space.SCRATCHPAD, LIST, 12), dense(Space.SCRATCHPAD, 0, 40))
    assert writes == (Region(Space.SCRATCHPAD, RESULT, (2, 6), (7,)),)


@pytest.mark.parametrize(
    ("fields", "cycles", "actions"),
    [
        # setup, 12 bytes in 2 beats; setup, a beat for each of 3 rows
        ({}, 20 + 2 + 20 + 3, {"burst_buffer_byte": 12, "scratchpad_read_byte": 18, "scratchpad_write_byte": 6}),
        # rows of 20 bytes take 3 beats each
        ({"size": 20, "dense_stride": 60}, 22 + 20 + 9,
         {"burst_buffer_byte": 12, "scratchpad_read_byte": 72, "scratchpad_write_byte": 60}),
        ({"index_space": 1, "source_space": 1}, 22 + 23,
         {"burst_buffer_byte": 12, "noc_byte": 18, "scratchpad_write_byte": 6}),
    ],
)  # fmt: skip
def test_occupancy(fields: dict[str, Any], cycles: int, actions: dict[str, int]) -> None:
    cost = replace(ROWS, **fields).cost(Context(CHIP))
    assert (cost.cycles, cost.actions, cost.setup_cycles) == (cycles, actions, 20)


@pytest.mark.parametrize(
    ("source", "size", "late", "pitch"),
    [
        (0, 32, 0, 2048),  # whole bursts
        (64, 96, 0, 2048),
        (16, 32, 16, 2048),  # from the middle of a burst
        (0, 12, 28, 2048),  # a multiple of 4 bytes behind the beginning of one
        (1, 64, 31, 2048),
        (0, 2048, 0, 2048),
        (0, 2049, 31, 4096),
    ],
)
def test_the_port_meets_rows_as_late_in_a_burst_as_may_be(
    source: int, size: int, late: int, pitch: int
) -> None:
    gather = replace(ROWS, source_space=1, source=source, size=size, dense_stride=3 * size)
    assert gather.cost(Context(CHIP)).dram == (
        (Region(Space.DRAM, ANYWHERE + late, (3, size), (pitch,)), False),
    )


def test_a_list_is_as_long_as_the_burst_buffer() -> None:
    context = Context(CHIP)
    assert replace(ROWS, rows=255, dense_stride=512).misfits(context) == []
    assert replace(ROWS, rows=256, dense_stride=514).misfits(context) == [
        "the list has 1028 bytes; the burst buffer of tiny holds 1024, dma.burst_buffer_kib is 1"
    ]


def test_time_does_not_depend_on_the_indices() -> None:
    """Rows far apart, the same row again and again, and no data at all; the list is the program's input."""
    gather = replace(
        ROWS,
        index_space=1,
        index=512,
        source_space=1,
        source=2048,
        rows=3,
        size=16,
        limit0=99,
        dense_stride=64,
    )
    program = replace(program_of([gather], constants=b""), hardware=CHIP)
    lists = [np.array(each, np.int32).view(np.int8).reshape(2, 8) for each in ([0, 99, 3, 50], [7, 7, 7, 7])]
    cycles = {execute(program, [each]).cycles for each in lists}
    assert cycles == {execute(program, data=False).cycles}
