"""The evaluation of a trace: busy cycles of units, the layer that each cycle is attributed to, rates over time.

All functions are pure numpy over the arrays of a `Trace`; times are cycles, intervals are half-open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.units import ADVANCING, MOVING, PRODUCERS, Unit, units_of
from npusim.isa.program.program import Program
from npusim.machine.trace import Trace

Times = NDArray[np.int64]

BUSY_UNITS: Mapping[str, tuple[Unit, ...]] = {unit.kind.name: units_of(unit.kind) for unit in PRODUCERS}
"""The units whose busy cycles are counted together, by the name of their type."""


@dataclass(frozen=True, slots=True)
class BusyCycles:
    """The cycles of a run, and those in which each type of unit is busy.

    total: from the first fetch to the last completion.
    units: by type (dma, mac, vector, host), cycles in which at least one instruction of such a unit is between its
           start and its end, waits for the DRAM port included. Units work at the same time, so these do not add up.
    stall: cycles in which no computing unit works: neither the MAC array, nor the vector unit, nor the host.
    """

    total: int
    units: Mapping[str, int]
    stall: int

    def named(self) -> dict[str, int]:
        """Return all numbers by name."""
        return {"total": self.total, **self.units, "stall": self.stall}


def union_cycles(started: Times, ended: Times) -> int:
    """Return the number of cycles that at least one of the intervals [started, ended) covers."""
    order = np.argsort(started, kind="stable")
    starts, ends = started[order], ended[order]
    reached = np.maximum.accumulate(ends) if len(ends) else ends
    before = np.concatenate((starts[:1], reached[:-1]))
    return int(np.maximum(reached - np.maximum(starts, before), 0).sum())


def _runs_on(trace: Trace, units: Sequence[Unit]) -> NDArray[np.bool_]:
    """Return whether each instruction runs on one of the units, by a table of all, which is faster than `np.isin`."""
    table = np.zeros(len(Unit), bool)
    table[list(units)] = True
    return table[trace.unit]


def busy_cycles(trace: Trace, total: int) -> BusyCycles:
    """Return the busy cycles of each type of unit in a run of `total` cycles."""

    def of(*units: Unit) -> int:
        chosen = _runs_on(trace, units)
        return union_cycles(trace.started[chosen], trace.ended[chosen])

    return BusyCycles(
        total=total,
        units={name: of(*units) for name, units in BUSY_UNITS.items()},
        stall=total - of(*ADVANCING),
    )


def _working_unit(program: Program, trace: Trace) -> NDArray[np.int8]:
    """Return the unit of each instruction that advances its layer; -1 for those that do not.

    Instructions of the MAC array, the vector unit and the host advance their layer. A copy does only if the layer
    itself is a copy (concatenation, padding), not if it loads operands for another unit.
    """
    advances = _runs_on(trace, ADVANCING)
    for name in {unit.kind.name for unit in MOVING}:
        own = np.array([layer.unit == name for layer in program.layers], bool)
        units = [int(unit) for unit in MOVING if unit.kind.name == name]
        advances |= np.isin(trace.unit, units) & own[program.layer_of]
    return np.where(advances, trace.unit, np.int8(-1))


@dataclass(frozen=True, slots=True)
class Owners:
    """The instructions to which the cycles of a run are attributed, interval by interval.

    bounds:      int64 [n + 1], interval i lasts from bounds[i] to bounds[i + 1]; the first is 0.
    instruction: int64 [n], owner of each interval, -1 if no instruction of the run advances a layer.
    at_work:     bool [n], the owner is between its start and its end; else it is the next to start, or the last.
    """

    bounds: Times
    instruction: NDArray[np.int64]
    at_work: NDArray[np.bool_]


def distinct(values: Times) -> Times:
    """Return the sorted distinct values.

    It replaces `numpy.unique`, which imports all of `numpy.ma` to check for masked arrays.
    """
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def owners(program: Program, trace: Trace, total: int) -> Owners:
    """Attribute each cycle of a run of `total` cycles to one instruction.

    It is the instruction at work; of several, MAC array comes before vector unit before host before copies. In a stall
    it is the next one to start, for which all units wait. After the last instruction it is that one.
    """
    working = _working_unit(program, trace)
    active = np.flatnonzero(working >= 0)
    bounds = distinct(np.concatenate((trace.started[active], trace.ended[active], [0, total])))
    begins = bounds[:-1]
    owner, at_work = np.full(len(begins), -1, np.int64), np.zeros(len(begins), bool)
    if not len(active):
        return Owners(bounds, owner, at_work)
    in_order = active[np.argsort(trace.started[active], kind="stable")]
    upcoming = np.searchsorted(trace.started[in_order], begins, side="left")
    owner = in_order[np.minimum(upcoming, len(in_order) - 1)]
    for unit in (*reversed(MOVING), *reversed(ADVANCING)):  # the last to claim a cycle has it
        mine = in_order[working[in_order] == unit]
        if len(mine):
            running = mine[np.maximum(np.searchsorted(trace.started[mine], begins, side="right") - 1, 0)]
            busy = (trace.started[running] <= begins) & (begins < trace.ended[running])
            owner = np.where(busy, running, owner)
            at_work |= busy
    return Owners(bounds, owner, at_work)


def layer_cycles(program: Program, trace: Trace, total: int) -> Times:
    """Return the cycles that are attributed to each layer, int64 [layers]; they add up to `total`.

    Every cycle belongs to the layer of its owner (`owners`): that of the instruction at work, in a stall that
    of the next one to start, after the last one (while results go to DRAM) that of the last one. If no instruction
    advances a layer, all cycles belong to the first layer.
    """
    if not program.layers:
        return np.zeros(0, np.int64)
    owner = owners(program, trace, total)
    layers = np.where(owner.instruction >= 0, program.layer_of[owner.instruction].astype(np.int64), 0)
    return np.bincount(layers, np.diff(owner.bounds), len(program.layers)).astype(np.int64)


def layer_spans(program: Program, trace: Trace) -> list[tuple[int, int] | None]:
    """Return for each layer the start of its first instruction and the end of its last; None without instructions.

    Spans of neighbours overlap, because the weights of a layer arrive while the layer before computes.
    """
    begin = np.full(len(program.layers), np.iinfo(np.int64).max)
    end = np.full(len(program.layers), -1)
    work = np.flatnonzero(trace.unit != Unit.FRONT_END)
    np.minimum.at(begin, program.layer_of[work], trace.started[work])
    np.maximum.at(end, program.layer_of[work], trace.ended[work])
    return [(int(a), int(b)) if b >= 0 else None for a, b in zip(begin, end, strict=True)]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Bytes in use from each of `cycles` (ascending, the first is 0) until the next."""

    cycles: Times
    sizes: Times


def scratchpad_use(program: Program, trace: Trace) -> Occupancy:
    """Return the scratchpad bytes in use: each buffer from the start of its first instruction to the end of its last.

    A buffer may reuse the bytes of rows that are read already, while other rows of the old buffer are still in use. So
    the sum of whole buffers is limited to the size of the scratchpad.
    """
    sizes = np.array([buffer.size_bytes for buffer in program.buffers], np.int64)
    first = np.array([buffer.first_instruction for buffer in program.buffers], np.int64)
    last = np.array([buffer.last_instruction for buffer in program.buffers], np.int64)
    changed_at = np.concatenate(([0], trace.started[first], trace.ended[last]))
    cycles, position = np.unique(changed_at, return_inverse=True)
    changes = np.bincount(position, np.concatenate(([0], sizes, -sizes)), len(cycles))
    use = np.minimum(np.cumsum(changes).astype(np.int64), program.hardware.scratchpad_bytes)
    return Occupancy(cycles, use)


@dataclass(frozen=True, slots=True)
class Accumulation:
    """An amount that grows along the run, piecewise linearly: `reached[i]` by the cycle `corners[i]`."""

    corners: Times
    reached: NDArray[np.float64]

    def by(self, cycles: Times) -> NDArray[np.float64]:
        """Return the amount reached by each of `cycles`, in the same shape."""
        return np.interp(cycles, self.corners, self.reached)

    def peak_rate(self, window: int, total: int) -> float:
        """Return the highest average per cycle over any `window` consecutive cycles of runs back to back.

        total: cycles of one run. The run repeats, so every cycle lies in equally many windows. The mean over all
        windows is therefore the average of the run, and the highest is never below it. A window that is at least as
        long as the run gives that average. The rate is constant between corners, so the best window begins or ends at
        one.
        """
        if window >= total:
            return float(self.reached[-1]) / max(total, 1)
        after = self._repeated(self.corners + window, total) - self.reached
        before = self.reached - self._repeated(self.corners - window, total)
        return float(max(after.max(), before.max())) / window

    def moving_rate(self, edges: Times, window: int, total: int) -> NDArray[np.float64]:
        """Return for each bin between `edges` the mean of the moving average over `window` cycles, runs back to back.

        Multiplied by the bins' lengths, it adds up to the amount.
        """
        if window >= total:
            return np.full(len(edges) - 1, self.reached[-1] / max(total, 1))
        half = window / 2
        grown = self._sums(edges + half, total) - self._sums(edges - half, total)
        rates: NDArray[np.float64] = np.diff(grown) / (window * np.maximum(np.diff(edges), 1))
        return rates

    def highest_rate(self, edges: Times, window: int, total: int) -> NDArray[np.float64]:
        """Return for each bin between `edges` the highest moving average over `window` cycles.

        The maximum over the bins is the peak.
        """
        if window >= total:
            return np.full(len(edges) - 1, self.reached[-1] / max(total, 1))
        half = window / 2
        turns = np.concatenate((self.corners + half, self.corners - half)) % total
        at = np.sort(np.concatenate((turns, edges.astype(np.float64))))
        rates = (self._repeated(at + half, total) - self._repeated(at - half, total)) / window
        firsts, ends = (
            np.searchsorted(at, edges[:-1], side="left"),
            np.searchsorted(at, edges[1:], side="right"),
        )
        return np.array([rates[first:end].max() for first, end in zip(firsts, ends, strict=True)])

    def _repeated(self, cycles: NDArray[Any], total: int) -> NDArray[np.float64]:
        """Return the amount reached by each of `cycles` when runs of `total` cycles repeat; negative before cycle 0."""
        runs, within = np.divmod(cycles, total)
        reached: NDArray[np.float64] = self.by(within) + runs * self.reached[-1]
        return reached

    def _sums(self, cycles: NDArray[Any], total: int) -> NDArray[np.float64]:
        """Return the integral of `_repeated` from 0 to each of `cycles`."""
        pieces = np.diff(self.corners) * (self.reached[1:] + self.reached[:-1]) / 2
        sums = np.concatenate(([0.0], np.cumsum(pieces)))
        runs, within = np.divmod(cycles, total)
        piece = np.searchsorted(self.corners, within, side="right") - 1
        part = (within - self.corners[piece]) * (self.reached[piece] + self.by(within)) / 2
        whole = self.reached[-1]
        run = sums[-1] + (total - self.corners[-1]) * whole
        earlier = runs * run + whole * (total * runs * (runs - 1) / 2 + runs * within)
        grown: NDArray[np.float64] = earlier + sums[piece] + part
        return grown


def accumulate(started: Times, ended: Times, amounts: NDArray[np.float64], total: int) -> Accumulation:
    """Spread each amount evenly over its interval [started, ended), and accumulate all of them over a run.

    An amount without duration falls into the cycle it starts in (at the end of the run: into the last one).
    """
    begins = np.minimum(started, max(total - 1, 0))
    ends = np.maximum(ended, begins + 1)
    rates = amounts / (ends - begins)
    corners = np.concatenate((begins, ends, [0]))
    slopes = np.concatenate((rates, -rates, [0.0]))
    order = np.argsort(corners, kind="stable")
    corners = corners[order]
    growth = np.cumsum(slopes[order])[:-1] * np.diff(corners)
    return Accumulation(corners, np.concatenate(([0.0], np.cumsum(growth))))
