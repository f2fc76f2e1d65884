"""Synchronisation: the fewest waits that keep every read and write in program order.

Two instructions on different units conflict when one writes bytes that the other touches. The later one must
wait until the unit of the earlier one has completed it, unless that already follows from other waits and from
units executing in order: for every instruction we carry how many completions of each unit are certain when it
starts (a vector clock).
"""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.instruction import PRODUCERS, Instruction, Region, Space
from npusim.isa.program import HostCall

_Access = tuple[int, int, Region, int, int]
"""(first byte, end, region, unit, instruction)."""


class _History:
    """What has touched one memory and may still matter to those that come."""

    def __init__(self) -> None:
        self.reads: list[_Access] = []
        self.writes: list[_Access] = []

    def add_write(self, region: Region, unit: int, index: int) -> None:
        """Note a write. Whoever conflicts with an access that a dense write covers conflicts with the write too."""
        start, end = region.address, region.end
        if not region.strides:
            self.reads = [each for each in self.reads if each[0] < start or each[1] > end]
            self.writes = [each for each in self.writes if each[0] < start or each[1] > end]
        self.writes.append((start, end, region, unit, index))


def _clashes(accesses: list[_Access], region: Region, unit: int) -> list[int]:
    """The instructions on other units whose accesses share bytes with a region."""
    start, end = region.address, region.end
    return [
        index
        for first, last, other, owner, index in accesses
        if first < end and start < last and owner != unit and _rows_overlap(region, other)
    ]


def overlap(a: Region, b: Region) -> bool:
    """Whether two regions share a byte; exact when they are dense or have the same outer strides."""
    if a.space != b.space or a.address >= b.end or b.address >= a.end:
        return False
    return _rows_overlap(a, b)


def _rows_overlap(a: Region, b: Region) -> bool:
    """`overlap` of two regions of one memory whose outermost bytes interleave."""
    if not a.strides and not b.strides:
        return True
    strides = a.strides or b.strides
    if (a.strides or strides) != strides or (b.strides or strides) != strides:
        return True
    pitch = strides[-1]
    if pitch == 0 or a.counts[-1] > pitch or b.counts[-1] > pitch:
        return True
    if any(stride % pitch for stride in strides):
        return True
    if not (a.strides and b.strides):
        return True
    distance = (b.address - a.address) % pitch
    return distance < a.counts[-1] or distance + b.counts[-1] > pitch


def synchronise(instructions: Sequence[Instruction], host_calls: Sequence[HostCall]) -> None:
    """Set the waits of all instructions, in place."""
    width = len(PRODUCERS)
    completed = [0] * width
    certain_of_unit: list[list[int]] = [[0] * width for _ in range(width)]
    certain_of: list[list[int]] = []
    ordinal: list[int] = []
    history = {space: _History() for space in Space}
    for index, instruction in enumerate(instructions):
        unit = int(instruction.unit)
        reads, writes = instruction.regions(host_calls)
        clashes: set[int] = set()
        for region in reads:
            clashes.update(_clashes(history[region.space].writes, region, unit))
        for region in writes:
            clashes.update(_clashes(history[region.space].writes, region, unit))
            clashes.update(_clashes(history[region.space].reads, region, unit))
        known = list(certain_of_unit[unit])
        waits = [0] * width
        for earlier in sorted(clashes, reverse=True):
            producer = int(instructions[earlier].unit)
            count = ordinal[earlier] + 1
            if known[producer] >= count:
                continue
            waits[producer] = count
            known[producer] = count
            for other, value in enumerate(certain_of[earlier]):
                if value > known[other]:
                    known[other] = value
        instruction.waits = tuple(waits)
        certain_of.append(known)
        ordinal.append(completed[unit])
        completed[unit] += 1
        certain_of_unit[unit] = [*known[:unit], completed[unit], *known[unit + 1 :]]
        for region in writes:
            history[region.space].add_write(region, unit, index)
        for region in reads:
            history[region.space].reads.append((region.address, region.end, region, unit, index))
