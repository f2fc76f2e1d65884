"""Every row: unique, documented, costed, and touching exactly the memory that it says it touches.

The last is what synchronisation relies on: waits are derived from `regions`, so an instruction that read or
wrote a byte outside them would race.
"""

from __future__ import annotations

import inspect
from collections import Counter

import numpy as np
import pytest

from npusim.isa.base.cause import Cause
from npusim.isa.base.errors import SimulationError
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.actions import ACTIONS
from npusim.isa.instructions.elementwise import MEANINGS, NAMES, Binary
from npusim.isa.instructions.gather import ANYWHERE
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.memory import Memory
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.instructions.table import ROWS, all_instructions

from ..examples import NIGHT
from .samples import CALLS, executions, filled_memory, legal_instructions, program_of, tiny_hardware

rows = pytest.mark.parametrize("row", all_instructions(), ids=lambda row: row.mnemonic)
SAMPLES = 25 if NIGHT else 10
CONTEXT = Context(tiny_hardware(), CALLS)

Masks = dict[Space, np.ndarray]


def touched(regions: tuple[Region, ...], memory: Memory) -> Masks:
    """For each space, which bytes the regions cover."""
    masks = {space: np.zeros(len(content), bool) for space, content in memory.spaces.items()}
    for region in regions:
        starts = np.array([region.address])
        for count, stride in zip(region.counts, region.strides, strict=False):
            starts = (starts[:, np.newaxis] + np.arange(count) * stride).ravel()
        masks[region.space][starts[:, np.newaxis] + np.arange(region.counts[-1])] = True
    return masks


def test_opcodes_and_mnemonics_are_unique() -> None:
    assert max(Counter(row.opcode for row in all_instructions()).values()) == 1
    assert max(Counter(row.mnemonic for row in all_instructions()).values()) == 1
    assert all(0 < row.opcode < 256 for row in all_instructions())


def test_the_table_states_opcode_and_unit_as_the_rows_do() -> None:
    assert [(opcode, unit) for opcode, unit, _ in ROWS] == [
        (row.opcode, row.home) for row in all_instructions()
    ]


def test_rows_of_one_unit_declare_the_same_causes() -> None:
    """`npusim.numbers.causes` reads the causes of one row per unit."""
    causes: dict[Unit, set[tuple[Cause, ...]]] = {}
    for row in all_instructions():
        causes.setdefault(row.home, set()).add(row.causes)
    assert {unit: len(each) for unit, each in causes.items()} == dict.fromkeys(causes, 1)


@rows
def test_every_row_is_documented(row: type[Instruction]) -> None:
    assert inspect.getdoc(row) != inspect.getdoc(Instruction)
    for method in ("execute", "cost"):
        assert getattr(row, method) is not getattr(Instruction, method), f"{method} is missing"
        assert getattr(row, method).__doc__
    for spec in row.specs:
        assert spec.doc, spec.name
        assert spec.name.isidentifier()
        assert spec.name != "wait"
    names = [spec.name for spec in row.specs]
    assert len(set(names)) == len(names)


def test_the_elementwise_functions_are_those_of_the_field() -> None:
    choices = next(spec.choices for spec in Binary.specs if spec.name == "function")
    assert choices == NAMES == tuple(MEANINGS)
    assert set(choices) == {name for name, _ in Binary.ways}


@pytest.mark.slow
@rows
def test_every_row_is_costed(row: type[Instruction]) -> None:
    known = {action.name for action in ACTIONS}
    for instruction in legal_instructions(row, SAMPLES):
        cost = instruction.cost(CONTEXT)
        assert type(cost.cycles) is int
        assert cost.cycles >= cost.setup_cycles >= 0
        assert cost.cycles >= cost.array_cycles >= 0
        assert cost.cycles > 0 or instruction.unit is Unit.FRONT_END
        assert set(cost.actions) <= known
        assert all(type(count) is int and count >= 0 for count in cost.actions.values())
        reads, writes = instruction.regions(CONTEXT)
        streamed = {(region, False) for region in reads} | {(region, True) for region in writes}
        known_places = {(region.rising, write) for region, write in cost.dram if region.address < ANYWHERE}
        assert known_places <= streamed
        assert cost == instruction.cost(CONTEXT)


def values_of(instruction: Instruction, memory: Memory) -> list[np.ndarray] | str:
    """What an instruction will write, or the message if its operands make no sense."""
    try:
        return [values.copy() for _, values in instruction.execute(memory)]
    except SimulationError as fault:
        return str(fault)


def same(first: list[np.ndarray] | str, second: list[np.ndarray] | str) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return first is second
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


@pytest.mark.slow
@rows
def test_execute_writes_what_regions_say(row: type[Instruction]) -> None:
    for instruction, memory in executions(row, SAMPLES):
        before = {space: content.copy() for space, content in memory.spaces.items()}
        writes = instruction.execute(memory)
        for space, content in memory.spaces.items():
            assert np.array_equal(content, before[space]), "something is visible before the instruction ends"
            content[:] = 0
        for target, _ in writes:
            assert target.dtype.kind != "b", "not every byte is one of these"
            target[...] = np.frombuffer(b"\xff" * target.dtype.itemsize, target.dtype)[0]
        declared = touched(instruction.regions(CONTEXT)[1], memory)
        for space, content in memory.spaces.items():
            assert np.array_equal(content == 255, declared[space]), instruction


@rows
def test_execute_reads_nothing_but_what_regions_say(row: type[Instruction]) -> None:
    for instruction, memory in executions(row, SAMPLES):
        declared = touched(instruction.regions(CONTEXT)[0], memory)
        other = filled_memory(program_of([instruction]), seed=1234)
        for space, content in memory.spaces.items():
            other.spaces[space][declared[space]] = content[declared[space]]
        assert same(values_of(instruction, memory), values_of(instruction, other)), instruction


@rows
def test_what_is_read_matters(row: type[Instruction]) -> None:
    """No region is declared for nothing: among some instructions, other bytes in it give another result."""
    regions, matters = 0, set()
    for tried, (instruction, memory) in enumerate(executions(row, 50)):
        if tried >= 2 * SAMPLES and matters == set(range(regions)):
            break
        reads = instruction.regions(CONTEXT)[0]
        regions = max(regions, len(reads))
        results = values_of(instruction, memory)
        for position, region in enumerate(reads):
            mask = touched((region,), memory)[region.space]
            memory.spaces[region.space][mask] ^= 0x15
            if not same(results, values_of(instruction, memory)):
                matters.add(position)
            memory.spaces[region.space][mask] ^= 0x15
    assert matters == set(range(regions))


@rows
def test_results_do_not_alias_memory(row: type[Instruction]) -> None:
    """Operands are read at the start: what happens to memory before the end does not change the result."""
    for instruction, memory in executions(row, SAMPLES):
        writes = instruction.execute(memory)
        early = [values.copy() for _, values in writes]
        for content in memory.spaces.values():
            content[:] ^= 0xFF
        assert same(early, [values for _, values in writes]), instruction


REGIONS = [
    # counts, strides, end - address, bytes, overlaps itself
    ((5,), (), 5, 5, False),
    ((3, 5), (5,), 15, 15, False),
    ((3, 5), (4,), 13, 15, True),
    ((3, 5), (0,), 5, 15, True),
    ((1, 5), (0,), 5, 5, False),
    ((2, 3, 5), (100, 5), 115, 30, False),
    ((2, 3, 5), (5, 10), 30, 30, False),  # interleaved: the outer stride is the smaller one
    ((2, 3, 5), (14, 5), 29, 30, True),
]


@pytest.mark.parametrize(("counts", "strides", "span", "size", "overlaps"), REGIONS)
def test_regions(
    counts: tuple[int, ...], strides: tuple[int, ...], span: int, size: int, overlaps: bool
) -> None:
    region = Region(Space.DRAM, 1000, counts, strides)
    assert region.end == 1000 + span
    assert region.size_bytes == size
    assert region.overlaps_itself is overlaps
    assert dense(Space.DRAM, 1000, 8) == Region(Space.DRAM, 1000, (8,), ())
