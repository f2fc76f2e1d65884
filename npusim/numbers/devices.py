"""The result of a run on several devices: cores of one system, of different hardware and clocks, one after the other.

Cycles are those of the system's clock, which is the first core's. Points in time of another clock are rounded up to it,
so that parts of the run add up to it exactly (`npusim.numbers.stage`). Energy is the sum over the launches, each on its
own hardware. A device without a running piece is power-gated and draws no power; the memories of the system are on
standby during every launch. A boundary is what runs between two pieces: transfers, and handovers by the host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, distinct_names
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import MOVING, Unit
from npusim.isa.program.executable import Executable, If, Place, Transfer, While
from npusim.machine.clock import CoreTime
from npusim.machine.job import Run
from npusim.numbers import power, timeline
from npusim.numbers.area import Area, area
from npusim.numbers.energy import Energy, standing_mw, sum_of
from npusim.numbers.layers import Boundary, Piece, pieces, share
from npusim.numbers.measure import measure
from npusim.numbers.performance import performance_info
from npusim.numbers.power import Amounts
from npusim.numbers.run import (
    DeviceResult,
    DramBytes,
    Power,
    RunCycles,
    RunEnergy,
    RunResult,
    Tops,
    WallTimes,
)
from npusim.numbers.stage import Stage
from npusim.numbers.staged import Same, StagedRun, groups, numbered, record


def charges(stages: Sequence[Stage], total: int, clock_mhz: float) -> power.Charges:
    """Return the energy of a run over its cycles, standing power included, which differs between launches.

    The energy of an instruction is spread evenly over its cycles. Energy of no instruction, and what the hardware draws
    in every cycle, is spread evenly over the launch.
    """
    rows: dict[str, list[tuple[timeline.Times, timeline.Times, Amounts]]] = {}
    for stage in stages:
        program, execution = stage.program, stage.execution
        started, ended = stage.of_run(execution.trace.started), stage.of_run(execution.trace.ended)
        begin, end = np.array([stage.start_cycle]), np.array([stage.end_cycle])
        for component, (of_instructions, rest) in power.moving_pj(program, execution).items():
            row = rows.setdefault(component, [])
            row += [(started, ended, of_instructions), (begin, end, np.array([rest]))]
        time_us = program.hardware.us_of_cycles(execution.cycles)
        for component, milliwatts in standing_mw(program.hardware).items():
            standing_pj = np.array([milliwatts * time_us * 1e3])  # mW * us = nJ
            rows.setdefault(component, []).append((begin, end, standing_pj))
    return power.Charges(
        {component: _accumulated(row, total) for component, row in rows.items()},
        _accumulated([part for row in rows.values() for part in row], total),
        total,
        clock_mhz,
    )


def _accumulated(
    parts: Sequence[tuple[timeline.Times, timeline.Times, Amounts]], total: int
) -> timeline.Accumulation:
    started, ended, amounts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return timeline.accumulate(started, ended, amounts, total)


def stage_energy(stage: Stage) -> Energy:
    """Return the energy of one launch on its hardware."""
    return power.energy_of(stage.program, [stage.execution])


@dataclass(frozen=True, kw_only=True, repr=False)
class DeviceRun(StagedRun):
    """The result of a run on several devices of one system; `hardware` is the first core's."""

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces, which are consecutive layers on one side of a device, in the order in which they run."""
        own_pieces: list[Piece] = []
        between: list[Stage] = []
        for stage in self.launches:
            if not stage.is_piece:
                between.append(stage)
                continue
            first, *others = self._pieces_of(stage)
            entered = _boundary(between, self.hardware) if own_pieces or between else None
            own_pieces += [replace(first, entered=entered), *others]
            between = []
        if between and own_pieces:
            own_pieces[-1] = replace(own_pieces[-1], left=_boundary(between, self.hardware))
        return tuple(own_pieces)

    def _pieces_of(self, stage: Stage) -> list[Piece]:
        """Return the pieces of one launch."""
        once = self._alike[id(stage.execution), stage.time]._replace(times=1)
        device = self.devices[stage.device].name
        first = stage.first_layer
        clock_mhz = self.hardware.clock_mhz
        return [
            replace(piece, first_layer=piece.first_layer + first, last_layer=piece.last_layer + first)
            for piece in pieces(stage.program, stage.in_run(), once.results(self), device, clock_mhz)
        ]

    @cached_property
    def _alike(self) -> dict[tuple[int, CoreTime], Same]:
        """The indices of launches, grouped by their timeline."""
        return {(id(same.stage.execution), same.stage.time): same for group in self._groups for same in group}

    def layer_energy_uj(self) -> dict[str, Amounts]:
        """Return the energy by component and layer in uJ, float64 [layers] each; it adds up to the run's energy."""
        energies: dict[str, Amounts] = {}
        for stage in self.launches:
            for component, amounts in power.layer_energy_uj(stage.program, stage.execution).items():
                row = energies.setdefault(component, np.zeros(len(self.program.layers)))
                row[stage.first_layer : stage.first_layer + len(amounts)] += amounts
        return energies

    @cached_property
    def _charges(self) -> power.Charges:
        return charges(self.launches, int(self.cycles), self.hardware.clock_mhz)

    def scratchpad_use(self) -> timeline.Occupancy:
        """Return the scratchpad bytes in use over time, of the device at work."""
        cycles, sizes = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
        for stage in self.launches:
            use = timeline.scratchpad_use(stage.program, stage.execution.trace)
            cycles += [stage.of_run(use.cycles), np.array([stage.end_cycle])]
            sizes += [use.sizes, np.zeros(1, np.int64)]
        at, size = np.concatenate(cycles), np.concatenate(sizes)
        last = np.flatnonzero(np.diff(at, append=-1))  # of several in one cycle the last
        return timeline.Occupancy(at[last], size[last])

    @property
    def tops(self) -> Tops:
        """Peak throughput of the fastest MAC array, because one device works at a time, and throughput of this run."""
        on_array = sum(layer.macs for layer in self.layers if layer.unit == "mac")
        reached = share(2 * on_array, self.latency_ms * 1e9)
        return Tops(max(hardware.tops for _, hardware in self.npus), reached)

    @property
    def area(self) -> Area:
        """The area of all NPUs in mm2; shared memories and their interfaces count once."""
        parts = dict(area(self.hardware).by_component)
        once = {f"{name}_interface" for name in ("dram", *(memory.name for memory in self.hardware.memory))}
        once |= {memory.name for memory in self.hardware.memory}
        for device in self.devices[1:]:
            if device.is_cpu:
                continue
            for name, mm2 in area(device.hardware).by_component.items():
                parts[name] = parts.get(name, 0.0) + mm2 * (name not in once)
        return Area(parts)


def _boundary(stages: Sequence[Stage], hardware: Hardware) -> Boundary:
    """Return the boundary made of the steps between two pieces."""
    sizes: dict[str, int] = {}
    for stage in stages:
        for place in _crossing(stage):
            sizes[place.tensor.name] = place.tensor.type.size_bytes
    units = [stage.execution.trace.unit for stage in stages]
    cycles = sum(stage.end_cycle - stage.start_cycle for stage in stages)
    return Boundary(
        tuple(sizes),
        sum(sizes.values()),
        sum(int(np.isin(unit, MOVING).sum()) for unit in units),
        sum(_busy(stage, MOVING) for stage in stages),
        sum(_busy(stage, (Unit.HOST,)) for stage in stages),
        cycles,
        hardware.us_of_cycles(cycles),
        sum(stage_energy(stage).total for stage in stages),
    )


def _crossing(stage: Stage) -> Iterable[Place]:
    """Return the places of the values that a stage between two pieces moves or tests."""
    step = stage.step
    if isinstance(step, Transfer):
        return [source for source, _ in step.moves]
    return [step.condition] if isinstance(step, If | While) else []


def _busy(stage: Stage, units: Sequence[Unit]) -> int:
    """Return the cycles of the run in which at least one of some units works in a stage."""
    trace = stage.in_run().trace
    mine = np.isin(trace.unit, units)
    return timeline.union_cycles(trace.started[mine], trace.ended[mine])


def measure_devices(
    executable: Executable,
    run: Run,
    devices: Sequence[tuple[str, Hardware]],
    wall_s: WallTimes | None = None,
    cpus: Collection[int] = (),
) -> RunResult:
    """Return the result of a run of an executable whose cores are devices.

    devices: name and hardware of each core of the executable, by number; the clock of the first is the system's.
    cpus:    numbers of the devices that are a CPU, the host of their hardware, whose NPU is idle meanwhile.

    For a single launch on the first device, it is the result of `npusim.numbers.measure.measure` with the devices.
    """
    if not run.parts:
        raise SimulationError(f"{executable.name}: nothing was launched, so there is nothing to measure")
    stages = _stages(run)
    results = _devices(stages, devices, cpus)
    outputs, states = list(run.outputs or ()), _named(executable, run)
    only = stages[0]
    if len(stages) == 1 and only.is_piece and only.time.same and not only.device:
        whole = measure(replace(only.program, name=executable.name), only.execution, wall_s)
        return replace(whole, outputs=outputs, states=states, devices=results)
    hardware = devices[0][1]
    program, execution = record(executable.name, hardware, stages)
    total = stages[-1].end_cycle
    spent = sum_of([stage_energy(stage) for stage in stages])
    latency_us = hardware.us_of_cycles(total)
    layers = [layer for stage in stages for layer in stage.program.layers]
    on_array = sum(layer.workload.macs for layer in layers if layer.unit == "mac")
    room = sum(
        stage.execution.cycles * stage.program.hardware.macs_per_cycle
        for stage in stages
        if stage.is_piece and stage.device not in cpus
    )
    return DeviceRun(
        outputs=outputs,
        states=states,
        cycles=RunCycles.of(timeline.busy_cycles(execution.trace, total)),
        latency_ms=latency_us * 1e-3,
        energy_uj=RunEnergy.of(spent),
        power_mw=_power(stages, total, hardware, spent.total),
        performance_info=performance_info(
            latency_us,
            spent.total,
            [layer.workload for stage in stages if stage.is_piece for layer in stage.program.layers],
            hardware,
        ),
        macs=sum(layer.workload.macs for layer in layers),
        mac_utilization=share(on_array, room),
        dram_bytes=DramBytes.of([execution]),
        scratchpad_peak_bytes=max(stage.program.scratchpad_peak_bytes for stage in stages),
        wall_s=wall_s or WallTimes(),
        program=program,
        execution=execution,
        devices=results,
        launches=stages,
    )


def _stages(run: Run) -> tuple[Stage, ...]:
    """Return the launches of a run. A launch includes the cycles in which it waits for its core."""
    stages = []
    for number, part in enumerate(run.parts):
        begin = part.asked_cycle if number else part.start_cycle
        stages.append(
            Stage(
                part.program,
                part.execution,
                begin - run.start_cycle,
                part.end_cycle - run.start_cycle,
                part.time._replace(late=part.time.late + part.start_cycle - begin),
                part.core,
                part.step,
                bases=part.bases,
            )
        )
    return numbered(stages)


def _devices(
    stages: Sequence[Stage], devices: Sequence[tuple[str, Hardware]], cpus: Collection[int]
) -> tuple[DeviceResult, ...]:
    runs = []
    for core, (name, hardware) in enumerate(devices):
        mine = [stage for stage in stages if stage.device == core and stage.is_piece]
        cycles = sum(stage.end_cycle - stage.start_cycle for stage in mine)
        layers = [layer for first, *_ in groups(mine) for layer in first.program.layers]
        runs.append(
            DeviceResult(
                name=name,
                core=core,
                is_cpu=core in cpus,
                hardware=hardware,
                launches=len(mine),
                layers=len(layers),
                cycles=cycles,
                time_us=devices[0][1].us_of_cycles(cycles),
                energy_uj=sum(stage_energy(stage).total for stage in mine),
                macs=sum(layer.workload.macs for stage in mine for layer in stage.program.layers),
            )
        )
    return tuple(runs)


def _named(executable: Executable, run: Run) -> dict[str, Array]:
    """Return the final content of the model's states, by name."""
    names = distinct_names([place.tensor for place in executable.states])
    return dict(zip(names, run.states, strict=False))


def _power(stages: Sequence[Stage], total: int, hardware: Hardware, energy_uj: float) -> Power:
    if not total:
        return Power(0.0, 0.0, 0.0)
    average = energy_uj / hardware.us_of_cycles(total) * 1e3
    return Power(average, *charges(stages, total, hardware.clock_mhz).peaks_mw(hardware, average))
