"""The lower bound: the cycles that no schedule of a program's work can beat on its hardware.

It is the largest of four times, each as if its resource were alone and never waited:

    mac     multiply-accumulates / multipliers of the array
    vector  work of the vector unit / its lanes; work is elements times the cycles of the function per element
    dram    compulsory bytes / peak bandwidth: constants and network inputs read once, network outputs written
            once, as they lie in DRAM (packed weights packed); a byte that two layers read belongs to the first.
            Where there are several memories behind ports, those of the one whose port needs longest for the network
    host    cycles of the operators that the host runs

The bound of a network takes the sums over its layers, so it is at most the sum of theirs. Operators that move
bytes inside the scratchpad or do nothing have no bound: 0, set by "none".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import PORT, RESOURCES, cycles_of
from npusim.isa.instructions.instruction import Cost
from npusim.isa.instructions.region import Region
from npusim.isa.program.program import Program
from npusim.numbers.timeline import distinct

Amounts = NDArray[np.int64]

UNBOUND = "none"
"""What sets a bound of 0."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Cycles that the work needs on each resource alone, as the module defines them; each is also an attribute.

    by_resource: mac, vector, dram, host.
    port:        the memory whose port `dram` stands for.
    """

    by_resource: Mapping[str, int]
    port: str = "dram"

    def __getattr__(self, name: str) -> int:
        """The cycles on a resource."""
        if name in RESOURCES:
            return self.by_resource[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def cycles(self) -> int:
        """The largest of them."""
        return max(self.by_resource.values())

    @property
    def bound_by(self) -> str:
        """Which of them it is; "none" if all are 0."""
        if not self.cycles:
            return UNBOUND
        return max(self.by_resource, key=lambda name: self.by_resource[name])


def busiest_port(program: Program, costs: Sequence[Cost]) -> Space:
    """The memory whose port needs longest for the compulsory bytes of a whole program; of several, the first."""
    spaces = program.hardware.outer_spaces
    if len(spaces) == 1:
        return spaces[0]
    rates = {space: program.hardware.peak_bytes_per_cycle(space) for space in spaces}
    return max(spaces, key=lambda space: compulsory_bytes(program, costs, space).sum() / rates[space])


def compulsory_bytes(program: Program, costs: Sequence[Cost], space: Space = Space.DRAM) -> Amounts:
    """Per layer, int64 [layers], the bytes that the bound counts at the port of a memory; see the module."""
    constants, inputs, outputs = (
        [(place.address, place.end) for place in places if place.space == space]
        for places in (program.images, program.inputs, program.outputs)
    )
    found: dict[bool, list[tuple[Region, int]]] = {False: [], True: []}
    for layer, cost in zip(program.layer_of.tolist(), costs, strict=True):
        for region, write in cost.dram:
            ranges = outputs if write else [*constants, *inputs]
            if region.space == space and any(low <= region.address < high for low, high in ranges):
                found[write].append((region, layer))
    count = max(len(program.layers), 1)
    return _touched_first(found[False], count) + _touched_first(found[True], count)


def _touched_first(regions: Sequence[tuple[Region, int]], layers: int) -> Amounts:
    """Per layer, the bytes of its regions that no region before touches; regions in order, with their layer."""
    if not regions:
        return np.zeros(layers, np.int64)
    starts = [_runs(region) for region, _ in regions]
    begins = np.concatenate(starts)
    counts = [len(each) for each in starts]
    ends = begins + np.repeat([region.counts[-1] for region, _ in regions], counts)
    owner = np.repeat([layer for _, layer in regions], counts)
    edges = distinct(np.concatenate((begins, ends)))
    low, high = np.searchsorted(edges, begins), np.searchsorted(edges, ends)
    cells = np.repeat(high - np.cumsum(high - low), high - low) + np.arange((high - low).sum())
    first = np.full(len(edges), -1)
    # The last of several values for a place stays; backwards that is the first to touch it.
    first[cells[::-1]] = np.repeat(owner, high - low)[::-1]
    touched = np.flatnonzero(first[:-1] >= 0)
    return np.bincount(first[touched], np.diff(edges)[touched], layers).astype(np.int64)


def _runs(region: Region) -> Amounts:
    """Where the contiguous runs of a region begin."""
    starts = np.array([region.address], np.int64)
    for count, stride in zip(region.counts, region.strides, strict=False):
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
    return starts


def needed_cycles(work: Amounts, resource: str, hardware: Hardware, space: Space = Space.DRAM) -> Amounts:
    """Cycles that amounts of work need on a resource, rounded up; the port is that of a memory."""
    per_cycle = RESOURCES[resource].per_cycle(hardware)
    if resource == PORT:
        per_cycle = hardware.peak_bytes_per_cycle(space)
    return np.array([cycles_of(amount, per_cycle) for amount in work.tolist()], np.int64)
