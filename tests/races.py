"""Which instructions of a program touch the same bytes without one certainly being over before the other begins.

Written from the definition, with one entry per byte of memory, and not with what the scheduler uses: order comes
from the waits of the instructions, from units executing their own in program order, and from barriers, behind which
nothing is dispatched before their waits are met; and from nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.units import PRODUCERS, Unit
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Region, Space
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program

UNITS = len(PRODUCERS)


def bytes_of(region: Region) -> NDArray[np.int64]:
    """The addresses of a region, each once."""
    addresses = np.array([region.address], np.int64)
    for count, stride in zip(region.counts, (*region.strides, 1), strict=True):
        addresses = (addresses[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
    return np.unique(addresses) if region.strides else addresses


def certain_completions(instructions: Sequence[Instruction]) -> NDArray[np.int64]:
    """[instruction, unit]: how many instructions of a unit are over for certain when an instruction starts."""
    certain = np.zeros((len(instructions), UNITS), np.int64)
    of_unit: list[list[int]] = [[] for _ in range(UNITS)]
    held = np.zeros(UNITS, np.int64)
    for index, each in enumerate(instructions):
        known = held.copy()
        for unit, count in each.waits:
            known[unit] = max(known[unit], count)
        if each.unit == Unit.FRONT_END:
            for unit in np.flatnonzero(known).tolist():
                known = np.maximum(known, certain[of_unit[unit][known[unit] - 1]])
            certain[index] = held = known
            continue
        mine = of_unit[each.unit]
        if mine:
            known = np.maximum(known, certain[mine[-1]])
        known[each.unit] = len(mine)
        for unit in range(UNITS):
            if unit != each.unit and known[unit]:
                # Its starting needed what was certain then; units execute in order.
                known = np.maximum(known, certain[of_unit[unit][known[unit] - 1]])
        certain[index] = known
        mine.append(index)
    return certain


@dataclass
class _Memory:
    """Who touched each byte last: the writer, and the reader since then on each unit; -1 for nobody."""

    size: int
    writer: NDArray[np.int32] = field(init=False)
    readers: dict[int, NDArray[np.int32]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.writer = np.full(self.size, -1, np.int32)

    def readers_on(self, unit: int) -> NDArray[np.int32]:
        if unit not in self.readers:
            self.readers[unit] = np.full(self.size, -1, np.int32)
        return self.readers[unit]


def races(program: Program, instructions: Sequence[Instruction] | None = None) -> set[tuple[int, int]]:
    """Pairs (earlier, later) in program order that conflict in some byte and are not ordered."""
    instructions = decode_all(program.code) if instructions is None else instructions
    certain = certain_completions(instructions)
    ordinal = _ordinals(instructions)
    unit = np.array([int(each.unit) for each in instructions])
    memories = {space: _Memory(program.memory_bytes(space)) for space in program.hardware.spaces}
    found: set[tuple[int, int]] = set()

    def check(earlier: NDArray[np.int32], later: int) -> None:
        for each in np.unique(earlier[earlier >= 0]).tolist():
            same_unit = unit[each] == unit[later]
            if not same_unit and ordinal[each] >= certain[later, unit[each]]:
                found.add((each, later))

    for index, each in enumerate(instructions):
        reads, writes = each.regions(program.context)
        for region in reads:
            check(memories[region.space].writer[bytes_of(region)], index)
        for region in writes:
            memory, where = memories[region.space], bytes_of(region)
            check(memory.writer[where], index)
            for readers in memory.readers.values():
                check(readers[where], index)
        for region in writes:
            memory, where = memories[region.space], bytes_of(region)
            memory.writer[where] = index
            for readers in memory.readers.values():
                readers[where] = -1
        for region in reads:
            memories[region.space].readers_on(int(each.unit))[bytes_of(region)] = index
    return found


def _ordinals(instructions: Sequence[Instruction]) -> list[int]:
    """The position of each instruction among those of its unit."""
    counts = [0] * len(Unit)
    found = []
    for each in instructions:
        found.append(counts[each.unit])
        counts[each.unit] += 1
    return found


def unwritten_reads(program: Program) -> list[tuple[int, Region]]:
    """Instructions that read bytes which nobody wrote: no input, no constant, no instruction before them."""
    defined = {space: np.zeros(program.memory_bytes(space), bool) for space in program.hardware.spaces}
    for place in (*program.images, *program.inputs):
        defined[Space(place.space)][place.address : place.end] = True
    found = []
    for index, each in enumerate(decode_all(program.code)):
        reads, writes = each.regions(program.context)
        found += [(index, region) for region in reads if not defined[region.space][bytes_of(region)].all()]
        for region in writes:
            defined[region.space][bytes_of(region)] = True
    return found
