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

_Access = tuple[int, int, Region, int, int, bool]
"""(first byte, end, region, unit, instruction, writes)."""


def overlap(a: Region, b: Region) -> bool:
    """Whether two regions share a byte; exact when they are dense or have the same outer strides."""
    if a.space != b.space or a.address >= b.end or b.address >= a.end:
        return False
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
    accesses: dict[Space, list[_Access]] = {space: [] for space in Space}
    for index, instruction in enumerate(instructions):
        unit = int(instruction.unit)
        reads, writes = instruction.regions(host_calls)
        known = list(certain_of_unit[unit])
        needed = _conflicts(accesses, unit, reads, writes)
        waits = [0] * width
        for earlier in sorted(needed, reverse=True):
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
        after = list(known)
        after[unit] = completed[unit]
        certain_of_unit[unit] = after
        for region in writes:
            _retire(accesses[region.space], region)
            accesses[region.space].append((region.address, region.end, region, unit, index, True))
        for region in reads:
            accesses[region.space].append((region.address, region.end, region, unit, index, False))


def _conflicts(
    accesses: dict[Space, list[_Access]], unit: int, reads: Sequence[Region], writes: Sequence[Region]
) -> set[int]:
    """Earlier instructions on other units whose bytes clash with these reads and writes."""
    found: set[int] = set()
    for region in reads:
        start, end = region.address, region.end
        for first, last, other, owner, index, writing in accesses[region.space]:
            if writing and first < end and start < last and owner != unit and overlap(region, other):
                found.add(index)
    for region in writes:
        start, end = region.address, region.end
        for first, last, other, owner, index, _ in accesses[region.space]:
            if first < end and start < last and owner != unit and overlap(region, other):
                found.add(index)
    return found


def _retire(accesses: list[_Access], region: Region) -> None:
    """Forget accesses that a dense write covers: whoever conflicts with them conflicts with it as well."""
    if region.strides:
        return
    start, end = region.address, region.end
    accesses[:] = [each for each in accesses if each[0] < start or each[1] > end]
