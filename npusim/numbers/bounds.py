"""The lower bound: the cycles that no schedule of a program's work can beat on its hardware.

It is the largest of four times. Each assumes that one resource works alone and never waits:

    mac     multiply-accumulates / multipliers of the array
    vector  work of the vector unit / its lanes; work is elements times the cycles of the function per element
    dram    compulsory bytes / peak bandwidth: constants and network inputs read once, network outputs written
            once, as they lie in DRAM (packed weights packed); a byte that two layers read belongs to the first.
            Where there are several memories behind ports, those of the one whose port needs longest for the network
    host    cycles of the operators that the host runs

The bound of a network uses sums over its layers, so it is at most the sum of the layers' bounds. Operators that move
bytes inside the scratchpad, or that do nothing, have a bound of 0, set by "none".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import PORT, PRODUCERS, RESOURCES, Unit, cycles_of
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.region import Region
from npusim.isa.program.program import Program
from npusim.machine.request import run_starts
from npusim.machine.trace import Trace
from npusim.numbers.timeline import Times, distinct

Amounts = NDArray[np.int64]

UNBOUND = "none"
"""The resource of a bound of 0."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Cycles that the work needs on each resource alone, as the module defines them; each is also an attribute.

    by_resource: mac, vector, dram, host.
    port:        the memory whose port `dram` stands for.
    """

    by_resource: Mapping[str, int]
    port: str = "dram"

    def __getattr__(self, name: str) -> int:
        """Return the cycles on a resource."""
        if name in RESOURCES:
            return self.by_resource[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def cycles(self) -> int:
        """The lower bound in cycles, which is the largest over the resources."""
        return max(self.by_resource.values())

    @property
    def bound_by(self) -> str:
        """The resource that sets the bound; "none" if all cycles are 0."""
        if not self.cycles:
            return UNBOUND
        return max(self.by_resource, key=lambda name: self.by_resource[name])


def busiest_port(program: Program, costs: Sequence[Cost]) -> Space:
    """Return the memory whose port needs longest for the compulsory bytes of a program; the first one of a tie."""
    spaces = program.hardware.outer_spaces
    if len(spaces) == 1:
        return spaces[0]
    rates = {space: program.hardware.peak_bytes_per_cycle(space) for space in spaces}
    return max(spaces, key=lambda space: compulsory_bytes(program, costs, space).sum() / rates[space])


def compulsory_bytes(program: Program, costs: Sequence[Cost], space: Space = Space.DRAM) -> Amounts:
    """Return the compulsory bytes of each layer at the port of a memory, int64 [layers], as the module defines them."""
    constants, inputs, outputs = (
        [(place.address, place.end) for place in places if place.space == space]
        for places in (program.images, program.inputs, program.outputs)
    )
    touched: dict[bool, list[tuple[Region, int]]] = {False: [], True: []}
    for layer, cost in zip(program.layer_of.tolist(), costs, strict=True):
        for region, write in cost.dram:
            ranges = outputs if write else [*constants, *inputs]
            if region.space == space and any(low <= region.address < high for low, high in ranges):
                touched[write].append((region, layer))
    count = max(len(program.layers), 1)
    return _touched_first(touched[False], count) + _touched_first(touched[True], count)


def _touched_first(regions: Sequence[tuple[Region, int]], layers: int) -> Amounts:
    """Return for each layer the bytes of its regions that no earlier region touches.

    regions: in program order, each with its layer.
    """
    if not regions:
        return np.zeros(layers, np.int64)
    starts = [run_starts(region) for region, _ in regions]
    begins = np.concatenate(starts)
    counts = [len(layer_starts) for layer_starts in starts]
    ends = begins + np.repeat([region.counts[-1] for region, _ in regions], counts)
    owner = np.repeat([layer for _, layer in regions], counts)
    edges = distinct(np.concatenate((begins, ends)))
    low, high = np.searchsorted(edges, begins), np.searchsorted(edges, ends)
    cells = np.repeat(high - np.cumsum(high - low), high - low) + np.arange((high - low).sum())
    first = np.full(len(edges), -1)
    # Of several assignments to a place the last one stays, so assigning backwards leaves the first region to touch it.
    first[cells[::-1]] = np.repeat(owner, high - low)[::-1]
    touched = np.flatnonzero(first[:-1] >= 0)
    return np.bincount(first[touched], np.diff(edges)[touched], layers).astype(np.int64)


def needed_cycles(work: Amounts, resource: str, hardware: Hardware, space: Space = Space.DRAM) -> Amounts:
    """Return the cycles that amounts of work need on a resource, rounded up. space: the memory of the port."""
    per_cycle = RESOURCES[resource].per_cycle(hardware)
    if resource == PORT:
        per_cycle = hardware.peak_bytes_per_cycle(space)
    return np.array([cycles_of(amount, per_cycle) for amount in work.tolist()], np.int64)


Flags = NDArray[np.bool_]

NOBODY = -1
_NODES = len(Unit)


class Needs(NamedTuple):
    """For each instruction, int64 [instructions]: the unit that it waits for longest, and the cycle when that ends.

    The cycle is 0 without waits.
    """

    unit: Times
    met: Times


def needs(trace: Trace, instructions: Sequence[Instruction]) -> Needs:
    """Return what each instruction of a trace waits for, from its wait counts."""
    waits = np.zeros((len(instructions), len(PRODUCERS)), np.int64)
    for position, instruction in enumerate(instructions):
        for unit, count in instruction.waits:
            waits[position, unit] = count
    met = np.zeros(waits.shape, np.int64)
    for unit in PRODUCERS:
        ends = np.append(0, trace.ended[trace.unit == unit])
        met[:, unit] = ends[np.minimum(waits[:, unit], len(ends) - 1)]
    return Needs(met.argmax(1), met.max(1, initial=0))


class Waiting:
    """The state of all units at given cycles: current instruction, whether it works, and what it waits for.

    current:   int64 [units, cycles], instruction of each unit; -1 for a unit that has nothing left to do.
    ready:     bool [units, cycles], the current instruction has completed its waits and not ended.
    works:     bool [units, cycles], the current instruction is between its start and its end.
    waits_for: int64 [units, cycles], the unit that it waits for, -1 for none.
    at_queue:  bool [cycles], the front end waits for room in a full queue.
    """

    def __init__(self, trace: Trace, needs: Needs, queue_depth: int, cycles: Times) -> None:
        self.cycles = cycles
        self.current = np.full((_NODES, len(cycles)), NOBODY, np.int64)
        self.ready = np.zeros((_NODES, len(cycles)), bool)
        self.works = np.zeros((_NODES, len(cycles)), bool)
        self.waits_for = np.full((_NODES, len(cycles)), NOBODY, np.int64)
        self.at_queue = np.zeros(len(cycles), bool)
        for unit in PRODUCERS:
            own = np.flatnonzero(trace.unit == unit)
            if len(own):
                self._ask_unit(unit, own, trace, needs)
        if len(trace.unit):
            self._ask_front_end(trace, needs, queue_depth)

    def _ask_unit(self, unit: Unit, own: Times, trace: Trace, needs: Needs) -> None:
        position = np.searchsorted(trace.ended[own], self.cycles, side="right")
        current = own[np.minimum(position, len(own) - 1)]
        left = position < len(own)
        self.current[unit] = np.where(left, current, NOBODY)
        self.ready[unit] = left & (self.cycles >= trace.ready[current])
        self.works[unit] = left & (self.cycles >= trace.started[current])
        undispatched = np.where(self.cycles < trace.dispatched[current], np.int64(Unit.FRONT_END), NOBODY)
        asked = np.where(self.cycles < needs.met[current], needs.unit[current], undispatched)
        self.waits_for[unit] = np.where(left, asked, NOBODY)

    def _ask_front_end(self, trace: Trace, needs: Needs, queue_depth: int) -> None:
        barrier = trace.unit == Unit.FRONT_END
        passed = np.where(barrier, trace.started, trace.dispatched)
        position = np.searchsorted(passed, self.cycles, side="right")
        current, left = np.minimum(position, len(passed) - 1), position < len(passed)
        at_barrier = left & barrier[current] & (self.cycles >= trace.dispatched[current])
        self.at_queue = left & _found_full_queue(trace, queue_depth)[current]
        asked = np.where(at_barrier, needs.unit[current], NOBODY)
        self.waits_for[Unit.FRONT_END] = np.where(self.at_queue, trace.unit[current], asked)

    def at(self, positions: Times) -> Waiting:
        """Return the state at a selection of the cycles."""
        part = object.__new__(Waiting)
        part.cycles, part.at_queue = self.cycles[positions], self.at_queue[positions]
        part.current, part.ready = self.current[:, positions], self.ready[:, positions]
        part.works = self.works[:, positions]
        part.waits_for = self.waits_for[:, positions]
        return part

    def layer_at_work(self, unit: Unit, layer_of: NDArray[np.uint32]) -> Times:
        """Return the layer that a unit works for at each cycle, -1 while it is idle.

        layer_of: the layer of each instruction.
        """
        layers = np.append(layer_of.astype(np.int64), NOBODY)
        return layers[np.where(self.works[unit], self.current[unit], NOBODY)]

    def chase(self, unit: NDArray[np.int8]) -> tuple[Times, Flags]:
        """Follow the chain of waits from each of `unit`, and return the instruction at its end; -1 for the front end.

        The instruction works, or waits for the port of a bank. Also return whether the chain passes a full queue. In
        that case the first instruction does not depend on the last one, but is queued after one that does.
        """
        column = np.arange(len(self.cycles))
        node, queued = unit.astype(np.int64), np.zeros(len(column), bool)
        for _ in range(_NODES):
            following = self.waits_for[node, column]
            moving = ~self.ready[node, column] & (following != NOBODY)
            if not moving.any():
                break
            queued |= moving & (node == Unit.FRONT_END) & self.at_queue
            node = np.where(moving, following, node)
        return np.where(self.ready[node, column], self.current[node, column], NOBODY), queued


def _found_full_queue(trace: Trace, queue_depth: int) -> Flags:
    """Return whether each instruction found its queue full.

    It did if it entered the queue at the cycle in which the instruction `queue_depth` places before left it.
    """
    full = np.zeros(len(trace.unit), bool)
    for unit in PRODUCERS:
        own = np.flatnonzero(trace.unit == unit)
        later, before = own[queue_depth:], own[: max(len(own) - queue_depth, 0)]
        full[later] = trace.dispatched[later] == trace.at_head[before]
    return full
