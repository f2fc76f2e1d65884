"""Synchronisation: the fewest waits that keep every read and write in program order.

Two instructions on different units conflict if one writes bytes that the other accesses. The later one must wait until
the unit of the earlier one has completed it, unless other waits and the in-order execution of each unit imply that.
For every instruction, a vector clock holds how many completions of each unit are certain when it starts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from npusim.isa.hardware.units import PRODUCERS
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.region import Region, Space
from npusim.isa.instructions.word import WAITS, Waits
from npusim.scheduler.emit.sequence import Timeline
from npusim.scheduler.fit.allocate import Spans

_RECENT = 16
"""Number of recent accesses that are searched one by one; older ones are found through an index of addresses. Loads run
up to hundreds of instructions ahead in a chain of 16,000 layers, where 128 took a third longer."""

_NOTHING: Mapping[int, tuple[int, ...]] = MappingProxyType({})

_Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]


class Accesses:
    """The regions of one memory that one unit read or wrote, in program order.

    newest: the position of the last access.

    `_far` indexes the first `_indexed` of them by address and keeps the last of equal ones. Most searches end among
    the recent accesses, so the index is brought up to date only when it is used.
    """

    def __init__(self) -> None:
        self._all: list[tuple[int, int, Region, int]] = []
        self._low, self._high = 1 << 64, 0
        self.newest = -1
        self._far: Spans[_Key, tuple[int, int, Region, int]] = Spans()
        self._indexed = 0

    def add(self, region: Region, end: int, position: int) -> None:
        """Note an access by the instruction at a position of the program. end: `region.end`."""
        start = region.address
        self._all.append((start, end, region, position))
        self.newest = position
        if start < self._low:
            self._low = start
        if end > self._high:
            self._high = end

    def latest(self, region: Region, end: int, certain: int) -> int | None:
        """Return the last instruction after the position `certain` that shares bytes with a region.

        end: `region.end`.
        """
        start, accesses = region.address, self._all
        if end <= self._low or start >= self._high:
            return None
        for first, last, other, position in islice(reversed(accesses), _RECENT):
            if position <= certain:
                return None
            if first < end and start < last and _rows_overlap(region, other):
                return position
        return self._latest_by_address(region, end, certain) if len(accesses) > _RECENT else None

    def _latest_by_address(self, region: Region, end: int, certain: int) -> int | None:
        """Return the last instruction that shares bytes with a region, as `latest` does, by the index of addresses."""
        for access in self._all[self._indexed :]:
            first, last, other, _ = access
            self._far.add(first, last - 1, (first, last, other.counts, other.strides), access)
        self._indexed = len(self._all)
        start = region.address
        newest = certain
        for block in self._far.near(start, end - 1):
            for first, last, other, position in reversed(block.values()):
                if position <= newest:
                    break
                if first < end and start < last and _rows_overlap(region, other):
                    newest = position
                    break
        return newest if newest > certain else None


_Histories = Mapping[Space, dict[int, Accesses]]
"""Accesses by memory and unit."""

_Ended = tuple[Region, int]
"""A region, and the address after its last byte."""


def _clashes(
    histories: _Histories, regions: Sequence[_Ended], unit: int, certain: Sequence[int]
) -> Iterator[int]:
    """Yield the last conflicting instruction of each other unit, for each region.

    Units complete in order, so waiting for the last one suffices.
    certain: for each unit, the position of its last instruction that is known to have completed.
    """
    for region, end in regions:
        for other, accesses in histories[region.space].items():
            if other != unit and accesses.newest > certain[other]:
                latest = accesses.latest(region, end, certain[other])
                if latest is not None:
                    yield latest


def overlap(a: Region, b: Region) -> bool:
    """Return True if two regions share a byte. It is exact if both are dense or have the same outer strides."""
    if a.space != b.space or a.address >= b.end or b.address >= a.end:
        return False
    return _rows_overlap(a, b)


def _rows_overlap(a: Region, b: Region) -> bool:
    """Return True if two regions whose address ranges overlap share a byte, or if that is uncertain."""
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


class Ordered(NamedTuple):
    """Instructions with their layers and waits, and barriers for the waits that an instruction cannot encode.

    barriers: ascending timeline positions of the instructions that a barrier precedes.
    """

    instructions: list[Instruction]
    layers: list[int]
    waits: list[Waits]
    barriers: list[int]

    def append(self, instruction: Instruction, layer: int, waits: Waits) -> None:
        """Append an instruction."""
        self.instructions.append(instruction)
        self.layers.append(layer)
        self.waits.append(waits)

    def position(self, given: int) -> int:
        """Return the program position of an instruction at a timeline position; barriers before it count."""
        return given + bisect_right(self.barriers, given)


def ordered(timeline: Timeline, context: Context) -> Ordered:
    """Return a timeline with waits. Those that an instruction cannot encode go to a barrier in front of it.

    A barrier stalls the front end. It waits only for instructions dispatched before it, so it cannot deadlock.
    """
    waits = synchronise(timeline.instructions, context, timeline.behind)
    front_end = context.hardware.front_end
    layer_cycles, to_prepare = front_end.layer_cycles, front_end.layer_cycles + front_end.inference_cycles
    if not to_prepare and all(len(own_waits) <= WAITS for own_waits in waits):
        return Ordered(timeline.instructions, timeline.layers, waits, [])
    result = Ordered([], [], [], [])
    prepared: set[int] = set()
    completed = [0] * len(PRODUCERS)
    for position, needed in enumerate(waits):
        layer, excess = timeline.layers[position], max(len(needed) - WAITS, 0)
        if to_prepare and layer not in prepared:
            prepared.add(layer)
            apart = context.hardware.overlap != "all"
            before = [(unit, count) for unit, count in enumerate(completed) if count and apart]
            for barrier, counts in _preparation(before, to_prepare):
                result.append(barrier, layer, counts)
                result.barriers.append(position)
            to_prepare = layer_cycles
        completed[int(timeline.instructions[position].unit)] += 1
        for first in range(0, excess, WAITS):
            result.append(Barrier(), layer, needed[first : min(first + WAITS, excess)])
            result.barriers.append(position)
        result.append(timeline.instructions[position], layer, needed[excess:])
    return result


def _preparation(before: Sequence[tuple[int, int]], cycles: int) -> Iterator[tuple[Barrier, Waits]]:
    """Return the barriers that model the preparation of a layer, after what the layer waits for."""
    groups = [tuple(before[first : first + WAITS]) for first in range(0, len(before), WAITS)] or [()]
    for counts in groups[:-1]:
        yield Barrier(), counts
    yield Barrier(cycles=cycles), groups[-1]


def synchronise(
    instructions: Sequence[Instruction], context: Context, behind: Mapping[int, tuple[int, ...]] = _NOTHING
) -> list[Waits]:
    """Return the waits of all instructions, without the limit of the encoding. behind: see `Timeline`."""
    width = len(PRODUCERS)
    of_unit: list[list[int]] = [[] for _ in range(width)]
    certain_of_unit: list[list[int]] = [[0] * width for _ in range(width)]
    certain_of: list[list[int]] = []
    ordinal: list[int] = []
    reads_of: defaultdict[Space, dict[int, Accesses]] = defaultdict(dict)
    writes_of: defaultdict[Space, dict[int, Accesses]] = defaultdict(dict)
    waits_of: list[Waits] = []
    for index, instruction in enumerate(instructions):
        unit = int(instruction.unit)
        reads, writes = ([(area, area.end) for area in regions] for regions in instruction.regions(context))
        known = list(certain_of_unit[unit])
        certain = [of_unit[u][known[u] - 1] if known[u] else -1 for u in range(width)]
        clashes = {
            *_clashes(writes_of, (*reads, *writes), unit, certain),
            *_clashes(reads_of, writes, unit, certain),
            *behind.get(index, ()),
        }
        waits: dict[int, int] = {}
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
        waits_of.append(tuple(sorted(waits.items())))
        certain_of.append(known)
        ordinal.append(len(of_unit[unit]))
        of_unit[unit].append(index)
        certain_of_unit[unit] = [*known[:unit], len(of_unit[unit]), *known[unit + 1 :]]
        for history, regions in ((reads_of, reads), (writes_of, writes)):
            for region, end in regions:
                of_units = history[region.space]
                if unit not in of_units:
                    of_units[unit] = Accesses()
                of_units[unit].add(region, end, index)
    return waits_of
