"""The energy of a run by component, divided by layer and over time.

Both divide the energy of `npusim.numbers.energy`, so the parts add up to the run:

    by layer    its own actions, its share of the front end's actions by instructions, its share of standing
                power by the cycles it owns, the host's energy of its instructions
    over time   the energy that a layer causes in a component is spread over the instructions of the layer on
                the units that cause it, in proportion to their duration and evenly within each; the host's
                energy over its instruction; the front end's over the run; standing power is drawn throughout

Peak power is defined over a window of fixed length (`WINDOWS_US`), independent of the run, so that peaks of runs can be
compared. Inferences follow one another, so a window may hold the end of one and the beginning of the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.cpu import host_energy_uj
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import PRODUCERS, Unit, units_of
from npusim.isa.instructions.actions import components
from npusim.isa.instructions.table import decode
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers import timeline
from npusim.numbers.energy import Energy, energy, prices, standing_mw

Amounts = NDArray[np.float64]

WINDOWS = 1000
"""Number of windows into which a run is divided for a table or a chart."""

WINDOWS_US: Mapping[str, int] = {"10 us": 10, "1 ms": 1000}
"""The windows of peak power in microseconds, by name. The shortest is that of charts.

The others are multiples of it, so that a longer window never has the higher peak.
"""

CHART_WINDOW = "10 us"

# Which units cause the energy of a component; of components that are not listed, all units of the layer.
_CAUSES: Mapping[str, tuple[Unit, ...]] = {
    component.name: units_of(unit.kind) for unit in PRODUCERS for component in unit.kind.components
}


@dataclass(frozen=True, slots=True)
class HostWork:
    """The host instructions of a run: position, energy in uJ, and reason of each."""

    positions: NDArray[np.int64]
    energy_uj: Amounts
    reasons: tuple[str, ...]


def host_work(program: Program, execution: Execution) -> HostWork:
    """Return the host instructions of a run, in program order."""
    positions = np.flatnonzero(execution.trace.unit == Unit.HOST)
    calls = [program.host_calls[getattr(decode(program.code[at]), "index")] for at in positions]  # noqa: B009
    energies = [host_energy_uj(call.workload, program.hardware) for call in calls]
    return HostWork(positions, np.array(energies, np.float64), tuple(call.reason for call in calls))


def energy_of(program: Program, executions: Sequence[Execution]) -> Energy:
    """Return the energy of one or more launches of a program on its hardware."""
    actions: Counter[str] = Counter()
    for execution in executions:
        for counts in execution.layer_actions:
            actions.update(counts)
    cycles = sum(execution.cycles for execution in executions)
    # A program has no branches, so the host does the same work in every launch.
    host_uj = float(host_work(program, executions[0]).energy_uj.sum()) * len(executions)
    return energy(actions, cycles, program.hardware, host_uj)


@dataclass(frozen=True, slots=True)
class PowerOverTime:
    """Average power in each window of a run.

    edges: cycles, int64 [windows + 1], from 0 to the end. by_component_mw: float64 [windows] each, in the order
    of `npusim.numbers.energy.Energy.by_component`; power times time adds up to the energy, by component.
    """

    edges: timeline.Times
    by_component_mw: Mapping[str, Amounts]

    @property
    def total_mw(self) -> Amounts:
        """The power of all components together in mW, float64 [windows]."""
        total = np.zeros(len(self.edges) - 1)
        for part in self.by_component_mw.values():
            total += part
        return total


@dataclass(frozen=True, slots=True)
class Charges:
    """The energy of a run in pJ, accumulated over its cycles by component and in total, and its constant power.

    standing_mw: power by component that is drawn in every cycle and is not in the accumulated energy.
    """

    by_component: Mapping[str, timeline.Accumulation]
    whole: timeline.Accumulation
    total: int
    clock_mhz: float
    standing_mw: Mapping[str, float] = field(default_factory=dict)

    @property
    def _scale(self) -> float:
        return self.clock_mhz * 1e-3  # pJ per cycle * MHz = uW

    def over_time(self, windows: int) -> PowerOverTime:
        """Return the average power in `windows` equal windows, fewer if the run has fewer cycles."""
        edges = edges_of(self.total, windows)
        scale = self._scale / np.maximum(np.diff(edges), 1)
        return PowerOverTime(
            edges,
            {
                name: np.diff(charge.by(edges)) * scale + self.standing_mw.get(name, 0.0)
                for name, charge in self.by_component.items()
            },
        )

    def moving(self, bins: int, window: int) -> MovingPower:
        """Return the power averaged over a moving window of `window` cycles, in `bins` equal bins or fewer."""
        edges = edges_of(self.total, bins)
        parts = {
            name: charge.moving_rate(edges, window, self.total) * self._scale
            + self.standing_mw.get(name, 0.0)
            for name, charge in self.by_component.items()
        }
        highest = self.whole.highest_rate(edges, window, self.total) * self._scale
        return MovingPower(edges, parts, highest + sum(self.standing_mw.values()))

    def peaks_mw(self, hardware: Hardware, average_mw: float) -> list[float]:
        """Return the peak over each of `WINDOWS_US`: none below the average, nor below that of a longer window."""
        peaks, above = list[float](), average_mw
        for name in reversed(tuple(WINDOWS_US)):  # the longest first
            window = window_cycles(hardware, name)
            if window < self.total:
                # Sums in another order than the average's may be below it by their last bit.
                rate = self.whole.peak_rate(window, self.total)
                above = max(rate * self.clock_mhz * 1e-3 + sum(self.standing_mw.values()), above)
            peaks.insert(0, above)
        return peaks


def charges(program: Program, execution: Execution) -> Charges:
    """Return the energy of a run of one program over its cycles."""
    standing, moving = standing_mw(program.hardware), moving_pj(program, execution)
    return Charges(
        {
            name: accumulated(program, execution, [moving[name]] if name in moving else [])
            for name in dict.fromkeys([*moving, *standing])
        },
        accumulated(program, execution, moving.values()),
        execution.cycles,
        program.hardware.clock_mhz,
        standing,
    )


def window_cycles(hardware: Hardware, window: str = CHART_WINDOW) -> int:
    """Return the length of a window of `WINDOWS_US` in cycles, rounded up to whole ones."""
    shortest = WINDOWS_US[CHART_WINDOW]
    return max(1, ceil(round(shortest * hardware.clock_mhz, 6))) * (WINDOWS_US[window] // shortest)


@dataclass(frozen=True, slots=True)
class MovingPower:
    """Power averaged over the `CHART_WINDOW` around each cycle, in bins of a run, inferences one after the other.

    edges:   cycles, int64 [bins + 1], from 0 to the end.
    by_component_mw: float64 [bins] each, the mean in each bin; times its length it adds up to the energy.
    highest_mw: float64 [bins], the highest in each bin; the highest of all is the peak of the run.
    """

    edges: timeline.Times
    by_component_mw: Mapping[str, Amounts]
    highest_mw: Amounts


def accumulated(
    program: Program, execution: Execution, parts: Iterable[tuple[Amounts, float]]
) -> timeline.Accumulation:
    """Accumulate energy over the run: the amounts of each instruction, plus those that belong to no instruction."""
    trace, total = execution.trace, execution.cycles
    of_instructions, of_none = np.zeros(program.instructions), 0.0
    for spread, rest in parts:
        of_instructions, of_none = of_instructions + spread, of_none + rest
    return timeline.accumulate(
        np.append(trace.started, 0), np.append(trace.ended, total), np.append(of_instructions, of_none), total
    )


def edges_of(total: int, bins: int) -> timeline.Times:
    """Return the edges of `bins` equal bins of a run, from 0 to its end; fewer bins if the run has fewer cycles."""
    return np.unique(np.linspace(0, total, bins + 1).astype(np.int64))


def moving_pj(program: Program, execution: Execution) -> dict[str, tuple[Amounts, float]]:
    """Return the dynamic energy by component in pJ: of each instruction, float64 [n], and of no instruction."""
    trace, layers, count = execution.trace, program.layer_of.astype(np.int64), len(program.layers)
    duration = np.maximum(trace.ended - trace.started, 1).astype(np.float64)
    by_unit: dict[Sequence[Unit], tuple[Amounts, Amounts]] = {}
    by_component: dict[str, tuple[Amounts, float]] = {}
    front_end = _priced(execution.layer_actions[-1:], program)
    memories = {memory.name for memory in program.hardware.memory}
    for component, amounts in _priced(execution.layer_actions[:-1], program).items():
        cause = _CAUSES.get("dram" if component in memories else component, PRODUCERS)
        if cause not in by_unit:
            causes = np.array([unit in cause for unit in Unit])
            weights = np.where(causes[trace.unit], duration, 0.0)
            by_unit[cause] = weights, np.bincount(layers, weights, count).astype(np.float64)
        weights, sums = by_unit[cause]
        shares = np.divide(amounts, sums, out=np.zeros_like(amounts), where=sums > 0)
        by_component[component] = shares[layers] * weights, float(amounts[sums == 0].sum())
    for component, amounts in front_end.items():
        spread, rest = by_component.get(component, (np.zeros(program.instructions), 0.0))
        by_component[component] = spread, rest + float(amounts.sum())
    host = host_work(program, execution)
    if len(host.positions):
        spread = np.zeros(program.instructions)
        spread[host.positions] = host.energy_uj * 1e6
        by_component["host"] = spread, 0.0
    return by_component


def layer_energy_uj(program: Program, execution: Execution) -> dict[str, Amounts]:
    """Return the energy by component and layer in uJ, float64 [layers] each.

    It adds up to the run's energy, except that a program without layers has no layer to which energy can be assigned.
    """
    hardware, count = program.hardware, len(program.layers)
    instructions = np.bincount(program.layer_of, minlength=count)[:count]
    share = instructions / max(program.instructions, 1)
    cycles = timeline.layer_cycles(program, execution.trace, execution.cycles)
    time_us: Amounts = hardware.us_of_cycles(1) * cycles.astype(np.float64)
    # mW * us = nJ
    energies: dict[str, Amounts] = {
        name: power * time_us * 1e-3 for name, power in standing_mw(hardware).items()
    }
    for component, amounts in _priced(execution.layer_actions[:-1], program).items():
        energies[component] = energies.get(component, np.zeros(count)) + amounts * 1e-6
    for component, amounts in _priced(execution.layer_actions[-1:], program).items():
        energies[component] = energies.get(component, np.zeros(count)) + amounts.sum() * share * 1e-6
    host = host_work(program, execution)
    if len(host.positions):
        charged = program.layer_of[host.positions].astype(np.int64)
        energies["host"] = np.bincount(charged, host.energy_uj, count).astype(np.float64)
    return energies


def _priced(counts: Sequence[Mapping[str, int]], program: Program) -> dict[str, Amounts]:
    """Return the energy of action counts in pJ by component, float64 [len(counts)] each."""
    price, component = prices(program.hardware), components(program.hardware)
    by_component: dict[str, list[float]] = {}
    for at, actions in enumerate(counts):
        for name, number in actions.items():
            row = by_component.get(component[name])
            if row is None:
                row = by_component[component[name]] = [0.0] * len(counts)
            row[at] += number * price[name]
    return {name: np.array(row) for name, row in by_component.items()}
