"""Who waits for whom at given cycles of a run, and what the last of a chain of waiting does.

Every unit has a current instruction. Either it works; or it needs another unit to complete something, which is
asked next; or it needs nothing any more but has not been dispatched, and the front end is asked: that may stand
at a barrier, or before the full queue of a unit, which are asked in turn, or fetch and decode; or it is ready and
needs ports of the scratchpad's banks, which ends the chain. Waits form no circle, or the machine would have stopped,
so chains end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.units import PRODUCERS, Unit
from npusim.isa.instructions.instruction import Instruction
from npusim.machine.trace import Trace
from npusim.numbers.timeline import Times

Flags = NDArray[np.bool_]

NOBODY = -1
_NODES = len(Unit)


class Needs(NamedTuple):
    """Per instruction, int64 [instructions]: the unit whose completion it needs last, and when that comes.

    Without waits the cycle is 0.
    """

    unit: Times
    met: Times


def needs(trace: Trace, instructions: Sequence[Instruction]) -> Needs:
    """The needs of the instructions of a trace, from their wait counts."""
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
    """At some cycles: the current instruction of every unit, whether it works, and whom it waits for.

    current:   int64 [units, cycles], -1 for a unit that has nothing left to do.
    ready:     bool [units, cycles], the current instruction is ready or at work: between its waits and its end.
    works:     bool [units, cycles], the current instruction is between its start and its end.
    waits_for: int64 [units, cycles], the unit to ask next, -1 for none.
    at_queue:  bool [cycles], the front end stands before a full queue.
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
        """The same at some of the cycles."""
        part = object.__new__(Waiting)
        part.cycles, part.at_queue = self.cycles[positions], self.at_queue[positions]
        part.current, part.ready = self.current[:, positions], self.ready[:, positions]
        part.works = self.works[:, positions]
        part.waits_for = self.waits_for[:, positions]
        return part

    def layer_at_work(self, unit: Unit, layer_of: NDArray[np.uint32]) -> Times:
        """The layer that a unit works for at each cycle, -1 while it does not; `layer_of` each instruction."""
        layers = np.append(layer_of.astype(np.int64), NOBODY)
        return layers[np.where(self.works[unit], self.current[unit], NOBODY)]

    def chase(self, unit: NDArray[np.int8]) -> tuple[Times, Flags]:
        """The instruction that works, or waits for ports of banks, at the end of each chain from the units `unit`;
        -1 for the front end.

        Also whether the chain leads past a full queue: what it began with then needs nothing of what it ends
        with, it only stands behind something that does.
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
    """Instructions that entered a queue when the one `queue_depth` before left it: it was full until then."""
    found = np.zeros(len(trace.unit), bool)
    for unit in PRODUCERS:
        own = np.flatnonzero(trace.unit == unit)
        later, before = own[queue_depth:], own[: max(len(own) - queue_depth, 0)]
        found[later] = trace.dispatched[later] == trace.at_head[before]
    return found
