"""The computation of the numbers of a `RunResult` from a program and its timeline."""

from __future__ import annotations

from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers import timeline
from npusim.numbers.energy import standing_mw
from npusim.numbers.layers import share
from npusim.numbers.performance import performance_info
from npusim.numbers.power import Charges, accumulated, energy_of, moving_pj
from npusim.numbers.run import (
    DramBytes,
    Power,
    RunCycles,
    RunEnergy,
    RunResult,
    WallTimes,
)


def measure(program: Program, execution: Execution, wall_s: WallTimes | None = None) -> RunResult:
    """Return the result of one execution; `RunResult` defines its numbers."""
    hardware = program.hardware
    total = execution.cycles
    spent = energy_of(program, [execution])
    latency_us = hardware.us_of_cycles(total)
    on_array = sum(layer.workload.macs for layer in program.layers if layer.unit == "mac")
    return RunResult(
        outputs=list(execution.outputs or ()),
        states=dict(zip(program.state_names, execution.states, strict=False)),
        cycles=RunCycles.of(timeline.busy_cycles(execution.trace, total)),
        latency_ms=latency_us * 1e-3,
        energy_uj=RunEnergy.of(spent),
        power_mw=_power(program, execution, spent.total),
        performance_info=performance_info(
            latency_us, spent.total, [layer.workload for layer in program.layers], hardware
        ),
        macs=sum(layer.workload.macs for layer in program.layers),
        mac_utilization=share(on_array, total * hardware.macs_per_cycle),
        dram_bytes=DramBytes.of([execution]),
        scratchpad_peak_bytes=program.scratchpad_peak_bytes,
        wall_s=wall_s or WallTimes(),
        program=program,
        execution=execution,
    )


def _power(program: Program, execution: Execution, energy_uj: float) -> Power:
    """Return average and peak power; `npusim.numbers.power` explains how energy is spread over time."""
    total, hardware = execution.cycles, program.hardware
    if not total:
        return Power(0.0, 0.0, 0.0)
    average = energy_uj / hardware.us_of_cycles(total) * 1e3
    whole = accumulated(program, execution, moving_pj(program, execution).values())
    charges = Charges({}, whole, total, hardware.clock_mhz, standing_mw(hardware))
    return Power(average, *charges.peaks_mw(hardware, average))
