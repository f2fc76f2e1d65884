"""The activity of the machine in every interval of a run, and the cause of intervals without computation.

A run is cut wherever an instruction changes its state (dispatched, first of its queue, ready, started, set up, ended)
or the DRAM port passes to another requester. Between two cuts nothing changes. Each interval has an owner
(`timeline.owners`), a `Doing`, and for each resource the layer that it works for. All functions are numpy over
intervals. The cause of a stall is found by following which unit waits for which (`npusim.numbers.bounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import (
    COMPUTING,
    MOVING,
    PORT,
    PRODUCERS,
    RESOURCES,
    UNIT_NAMES,
    Resource,
    Unit,
)
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.program.program import Program
from npusim.machine.trace import INSTRUCTION_FETCH, OTHER_CORE, Execution, Trace, Transfers
from npusim.numbers.bounds import NOBODY, Flags, Waiting, busiest_port, needs
from npusim.numbers.causes import ENDS, STALLS
from npusim.numbers.timeline import Owners, Times, distinct, owners

_STALL = -1
_ELSEWHERE = -2
"""Number that stands for a unit or an instruction of another core."""
_BY_NAME = {UNIT_NAMES[unit]: int(unit) for unit in MOVING} | {
    INSTRUCTION_FETCH: int(Unit.FRONT_END),
    OTHER_CORE: _ELSEWHERE,
}


_AT_ONCE = 1 << 14
"""Intervals of which the states are computed at once: a run may have millions, each with a state of every unit."""

_FIRST = len(COMPUTING)


class Doing(IntEnum):
    """The state of the machine in an interval in which nothing computes.

    Smaller numbers stand for the types of computing units at work, in the order of `COMPUTING`. `CAUSE_OF` has the
    cause of each number.
    """

    MOVES = _FIRST
    STALL_WEIGHTS = _FIRST + 1
    STALL_FEATURE_MAP = _FIRST + 2
    STALL_CONTENTION = _FIRST + 3
    STALL_DMA = _FIRST + 4
    STALL_BANK_PORTS = _FIRST + 5
    STALL_QUEUE = _FIRST + 6
    STALL_FRONT_END = _FIRST + 7
    START_UP = _FIRST + 8
    TAIL = _FIRST + 9


_WORKS = [kind.works.name for kind in (*COMPUTING, Unit.DMA0.kind) if kind.works]
CAUSE_OF = (*_WORKS, *(cause.name for cause in (*STALLS, *ENDS)))
"""By `Doing`, the cause of lost cycles of an interval in which the resource that sets the bound does not work."""


@dataclass(frozen=True, slots=True)
class PortUse:
    """The transfers at a memory's port in order, as columns: cycles, instruction, requester, and bytes.

    The instruction is -1 for instruction fetch, and -2 for an instruction of another core.
    """

    started: Times
    ended: Times
    instruction: Times
    unit: Times
    size_bytes: Times


@dataclass(frozen=True, slots=True)
class Activity:
    """The intervals of a run between two changes of state.

    cycles:  length of each interval, int64 [n]; they add up to the run.
    layer:   layer that owns it, int64 [n].
    doing:   `Doing`, int8 [n].
    serves:  for each resource (`RESOURCES`) the layer that it works for, -1 while it is idle; int64 [resources, n].
    delayed: layer whose transfer waits while instruction fetch occupies the port, -1 for none; int64 [n].
    port:    transfers at the port of the memory `space`, the busiest one (`npusim.numbers.bounds`).
    """

    cycles: Times
    layer: Times
    doing: NDArray[np.int8]
    serves: Times
    delayed: Times
    port: PortUse
    space: Space = Space.DRAM


def activity(
    program: Program,
    execution: Execution,
    instructions: Sequence[Instruction],
    costs: Sequence[Cost],
    *,
    in_time: bool = True,
) -> Activity:
    """Return the intervals of a run. instructions, costs: those of the program, in its order.

    in_time: in the order of time. Otherwise intervals in which all units are in one state and the port serves one
             requester come as one with the sum of their cycles: a run has some per instruction, but one per transfer.
    """
    trace = execution.trace
    owned = owners(program, trace, execution.cycles)
    space = busiest_port(program, costs)
    port = port_use(trace, space)
    setup_end = trace.started + np.array([cost.setup_cycles for cost in costs], np.int64)
    asks = _Asking(trace.started, setup_end, _last_byte(port, len(costs)))
    cuts = _cuts(owned, trace, asks)
    cells = _in_time(cuts, port) if in_time else _summed(cuts, port)
    begins = cuts[:-1]
    coarse = np.searchsorted(owned.bounds, begins, side="right") - 1
    owner, at_work = owned.instruction[coarse], owned.at_work[coarse]
    layer_of = np.append(program.layer_of.astype(np.int64), 0)  # the last entry is for "no instruction"
    waiting = Waiting(trace, needs(trace, instructions), program.hardware.front_end.queue_depth, begins)
    served = [
        None if name == PORT else _served(resource, waiting, program.layer_of)
        for name, resource in RESOURCES.items()
    ]
    serves = np.full((len(RESOURCES), len(cells.cycles)), NOBODY, np.int64)
    doing = _doing(trace, owner, at_work, begins)[cells.state]
    kinds, elsewhere = transfer_kinds(program, costs), _at_other_ports(costs, space)
    delayed = np.full(len(cells.cycles), NOBODY, np.int64)
    for part in parts(len(cells.cycles)):
        state, serving, doing_now = cells.state[part], cells.serving[part], doing[part]
        for row, layers in enumerate(served):
            serves[row, part] = (
                np.where(serving >= 0, layer_of[serving], NOBODY) if layers is None else layers[state]
            )
        at_start = (doing_now == Doing.START_UP) & (owner[state] != NOBODY)
        stalled = np.flatnonzero((doing_now == _STALL) | at_start)
        since = state[stalled]
        culprit, queued = waiting.at(since).chase(trace.unit[owner[since]])
        why = _why(culprit, serving[stalled], begins[since], asks, kinds, elsewhere)
        why[at_start[stalled]] = Doing.START_UP
        doing_now[stalled] = np.where(queued, Doing.STALL_QUEUE, why)
        fetching = np.flatnonzero(cells.by_fetch[part])
        since = state[fetching]
        for channel in reversed(MOVING):
            current = waiting.current[channel, since]
            waits = waiting.works[channel, since] & asks.at(current, begins[since])
            delayed[part][fetching[waits]] = layer_of[current[waits]]
    return Activity(cells.cycles, layer_of[owner[cells.state]], doing, serves, delayed, port, space)


def parts(count: int) -> list[slice]:
    """Divide `count` intervals into slices whose states fit into a processor's cache."""
    return [slice(first, first + _AT_ONCE) for first in range(0, count, _AT_ONCE)]


def _served(resource: Resource, waiting: Waiting, layer_of: NDArray[np.uint32]) -> Times:
    """Return the layer that the units of a resource work for, -1 while all of them are idle."""
    layers = np.full(len(waiting.cycles), NOBODY, np.int64)
    for unit in PRODUCERS:
        if unit.kind.resource is resource:
            layers = np.maximum(layers, waiting.layer_at_work(unit, layer_of))
    return layers


def port_use(trace: Trace, space: Space) -> PortUse:
    """Return the transfers at a memory's port. Each belongs to the instruction that its requester works on."""
    transfers = Transfers.of(trace.transfers)
    spaces = np.array([source.space for source in transfers.sources], np.int64)
    if (spaces != space).any():
        transfers = transfers.where(spaces[transfers.source] == space)
    started, ended, size = transfers.started, transfers.ended, transfers.size_bytes
    units = np.array([_BY_NAME[source.requester] for source in transfers.sources], np.int64)
    unit = units[transfers.source]
    instruction = np.where(unit == _ELSEWHERE, _ELSEWHERE, NOBODY)
    for channel in MOVING:
        mine = np.flatnonzero(unit == channel)
        own = np.flatnonzero(trace.unit == channel)
        if len(mine) and len(own):
            position = np.searchsorted(trace.ended[own], started[mine], side="right")
            instruction[mine] = own[np.minimum(position, len(own) - 1)]
    return PortUse(started, ended, instruction, unit, size)


def transfer_kinds(program: Program, costs: Sequence[Cost]) -> NDArray[np.int8]:
    """Return for each instruction the `Doing` of a wait for it: weights, feature map, or copy in the scratchpad."""

    def kind(cost: Cost) -> Doing:
        if any(program.is_constant(region.space, region.address) for region, write in cost.dram if not write):
            return Doing.STALL_WEIGHTS
        return Doing.STALL_FEATURE_MAP if cost.dram else Doing.MOVES

    return np.array([kind(cost) for cost in costs], np.int8)


def _cuts(owned: Owners, trace: Trace, asks: _Asking) -> Times:
    """Return the cycles, from 0 to the end of the run, between which no unit changes its state.

    What changes there is only whom the port serves.
    """
    moves_on = (trace.dispatched, trace.at_head, trace.ready, trace.started, trace.ended)
    cuts = distinct(np.concatenate((owned.bounds, *moves_on, asks.setup_end, asks.last_byte)))
    inside: Times = cuts[(cuts >= 0) & (cuts <= owned.bounds[-1])]
    return inside


class _Cells(NamedTuple):
    """Numbers of cycles, each in one state of the units and with one requester at the port, or none; int64 [n].

    state:    the interval between two cuts that they are part of.
    serving:  the instruction that the port serves, as in `PortUse`.
    by_fetch: bool, the port serves the instruction fetch.
    """

    cycles: Times
    state: Times
    serving: Times
    by_fetch: Flags


def _in_time(cuts: Times, port: PortUse) -> _Cells:
    """Return the intervals between cuts, cut again where the port passes to another requester, in order of time."""
    fine = distinct(np.concatenate((cuts, port.started, port.ended)))
    bounds = fine[(fine >= 0) & (fine <= cuts[-1])]
    begins = bounds[:-1]
    transfer = _latest(port.started, port.ended, begins)
    return _Cells(
        np.diff(bounds),
        np.searchsorted(cuts, begins, side="right") - 1,
        np.append(port.instruction, NOBODY)[transfer],
        (np.append(port.unit, NOBODY)[transfer] == Unit.FRONT_END) & (transfer >= 0),
    )


def _summed(cuts: Times, port: PortUse) -> _Cells:
    """Return the cycles of each requester between two cuts as one cell, and those in which the port is idle.

    Between cuts all transfers of a requester belong to one instruction, because the end of an instruction is a cut.
    """
    idle = np.diff(cuts)
    cells = []
    for unit in distinct(port.unit).tolist():
        mine = np.flatnonzero(port.unit == unit)
        started, ended = port.started[mine], port.ended[mine]
        begun = np.searchsorted(started, cuts, side="right")
        to_come = np.maximum(np.append(0, ended)[begun] - cuts, 0)  # of the last transfer that has begun
        cycles = np.diff(np.append(0, np.cumsum(ended - started))[begun] - to_come)
        state = np.flatnonzero(cycles)
        last = np.searchsorted(started, cuts[1:][state], side="left") - 1
        by_fetch = np.full(len(state), unit == Unit.FRONT_END)
        cells.append(_Cells(cycles[state], state, port.instruction[mine[last]], by_fetch))
        idle = idle - cycles
    state = np.flatnonzero(idle)
    nobody = np.full(len(state), NOBODY, np.int64)
    cells.append(_Cells(idle[state], state, nobody, np.zeros(len(state), bool)))
    return _Cells(*(np.concatenate(columns) for columns in zip(*cells, strict=True)))


def _latest(started: Times, ended: Times, begins: Times) -> Times:
    """Return the number of the interval that each cycle is in; -1 for none."""
    if not len(started):
        return np.full(len(begins), NOBODY, np.int64)
    positions = np.searchsorted(started, begins, side="right") - 1
    return np.where((positions >= 0) & (begins < ended[positions]), positions, NOBODY)


def _last_byte(port: PortUse, instructions: int) -> Times:
    """Return the cycle at which the last byte of each instruction has passed the DRAM port; 0 without traffic."""
    last = np.zeros(instructions, np.int64)
    mine = np.flatnonzero(port.instruction >= 0)
    last[port.instruction[mine]] = port.ended[mine]  # in order: the last transfer of an instruction stays
    return last


def _doing(trace: Trace, owner: Times, at_work: Flags, begins: Times) -> NDArray[np.int8]:
    """Return the `Doing` of each interval, without the causes of stalls between first and last computation."""
    doing = np.full(len(begins), _STALL, np.int8)
    if not at_work.any():
        doing[:] = Doing.START_UP
        return doing
    of_unit = np.array(
        [COMPUTING.index(unit.kind) if unit.kind.advances else Doing.MOVES for unit in Unit], np.int8
    )
    doing[at_work] = of_unit[trace.unit[owner[at_work]]]
    working = np.flatnonzero(at_work)
    doing[: working[0]] = Doing.START_UP
    doing[working[-1] + 1 :] = Doing.TAIL
    return doing


class _Asking(NamedTuple):
    """The start of each instruction, and the cycles from and to which it uses or requests the DRAM port, int64 [n]."""

    started: Times
    setup_end: Times
    last_byte: Times

    def at(self, instruction: Times, cycles: Times) -> Flags:
        """Return whether instructions request the port at given cycles."""
        return (cycles >= self.setup_end[instruction]) & (cycles < self.last_byte[instruction])


def _at_other_ports(costs: Sequence[Cost], space: Space) -> Flags:
    """Return for each instruction whether all bytes that it streams pass ports of other memories."""
    return np.array([bool(cost.dram) and all(r.space != space for r, _ in cost.dram) for cost in costs], bool)


def _why(
    culprit: Times,
    serving: Times,
    begins: Times,
    asks: _Asking,
    kinds: NDArray[np.int8],
    elsewhere: Flags,
) -> NDArray[np.int8]:
    """Return the `Doing` of stalls whose chain of waiting ends at an instruction `culprit` (-1: at the front end)."""
    behind_another = asks.at(culprit, begins) & (serving != NOBODY)
    on_the_way = np.where(behind_another, Doing.STALL_CONTENTION, Doing.STALL_DMA)
    known = (culprit == serving) | (kinds[culprit] == Doing.MOVES) | elsewhere[culprit]
    why = np.where(known, kinds[culprit], on_the_way)
    why = np.where(begins < asks.started[culprit], Doing.STALL_BANK_PORTS, why)
    return np.where(culprit == NOBODY, Doing.STALL_FRONT_END, why).astype(np.int8)
