"""From a program and its timeline to the numbers of a `RunResult`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from npusim import timeline
from npusim.energy import dynamic_pj, energy, floor_mw, prices
from npusim.isa.actions import ACTIONS
from npusim.isa.cpu import host_energy_uj
from npusim.isa.instruction import Unit
from npusim.isa.program import Program
from npusim.isa.table import decode
from npusim.performance import performance_info
from npusim.result import (
    DramBytes,
    LayerResult,
    Power,
    RunCycles,
    RunEnergy,
    RunResult,
    WallTimes,
)
from npusim.trace import Execution

if TYPE_CHECKING:
    from npusim.losses import Accounts

# Which units cause the energy of a component; of components that are not listed, all units of the layer.
_CAUSES: Mapping[str, tuple[Unit, ...]] = {
    "mac_array": (Unit.MAC,),
    "accumulator": (Unit.MAC,),
    "output_stage": (Unit.MAC,),
    "vector": (Unit.VECTOR,),
    "interconnect": timeline.DMA_UNITS,
    "dram": timeline.DMA_UNITS,
}
_COMPONENT = {action.name: action.component for action in ACTIONS}


@dataclass(frozen=True, slots=True)
class _HostWork:
    """What the host instructions of a run do: per instruction its position, energy in uJ, and reason."""

    positions: NDArray[np.int64]
    energy_uj: NDArray[np.float64]
    reasons: tuple[str, ...]


def measure(program: Program, execution: Execution, wall_s: WallTimes | None = None) -> RunResult:
    """Every number about one execution; the definitions are at the fields of `RunResult`."""
    hardware = program.hardware
    total = execution.cycles
    host = _host_work(program, execution)
    actions: Counter[str] = Counter()
    for counts in execution.layer_actions:
        actions.update(counts)
    spent = energy(actions, total, hardware, float(host.energy_uj.sum()))
    latency_us = hardware.us_of_cycles(total)
    on_array = sum(layer.workload.macs for layer in program.layers if layer.unit == "mac")
    return RunResult(
        outputs=list(execution.outputs or ()),
        cycles=RunCycles.of(timeline.busy_cycles(execution.trace, total)),
        latency_ms=latency_us * 1e-3,
        energy_uj=RunEnergy.of(spent),
        power_mw=_power(program, execution, host, spent.total),
        performance_info=performance_info(
            latency_us, spent.total, [layer.workload for layer in program.layers], hardware
        ),
        macs=sum(layer.workload.macs for layer in program.layers),
        mac_utilization=_share(on_array, total * hardware.macs_per_cycle),
        dram_bytes=DramBytes(
            execution.dram_read_bytes, execution.dram_write_bytes, execution.instruction_bytes
        ),
        scratchpad_peak_bytes=program.scratchpad_peak_bytes,
        wall_s=wall_s or WallTimes(),
        program=program,
        execution=execution,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _host_work(program: Program, execution: Execution) -> _HostWork:
    positions = np.flatnonzero(execution.trace.unit == Unit.HOST)
    calls = [program.host_calls[getattr(decode(program.code[at]), "index")] for at in positions]  # noqa: B009
    energies = [host_energy_uj(call.workload, program.hardware) for call in calls]
    return _HostWork(positions, np.array(energies, np.float64), tuple(call.reason for call in calls))


def layer_results(program: Program, execution: Execution, accounts: Accounts) -> tuple[LayerResult, ...]:
    """The numbers of every layer; the definitions are at the fields of `LayerResult`."""
    hardware, count, host = program.hardware, len(program.layers), _host_work(program, execution)
    cycles = timeline.layer_cycles(program, execution.trace, execution.cycles).tolist()
    spans = timeline.layer_spans(program, execution.trace)
    instructions = np.bincount(program.layer_of, minlength=count)
    front_end_pj = dynamic_pj(execution.layer_actions[-1], hardware)
    standing_nj = floor_mw(hardware) * hardware.us_of_cycles(1)
    host_uj = np.bincount(program.layer_of[host.positions], host.energy_uj, count)
    reasons = dict(zip(program.layer_of[host.positions].tolist(), host.reasons, strict=True))
    results = []
    for i, (layer, account) in enumerate(zip(program.layers, accounts.layers, strict=True)):
        actions = execution.layer_actions[i]
        front_end = front_end_pj * _share(int(instructions[i]), program.instructions)
        caused_uj = (dynamic_pj(actions, hardware) + front_end) * 1e-6 + float(host_uj[i])
        span = spans[i]
        on_array = layer.workload.macs if layer.unit == "mac" else 0
        results.append(
            LayerResult(
                name=layer.name,
                op=layer.op,
                unit=layer.unit,
                cycles=cycles[i],
                macs=layer.workload.macs,
                utilization=_share(on_array, cycles[i] * hardware.macs_per_cycle),
                bytes=actions.get("dram_read_byte", 0) + actions.get("dram_write_byte", 0),
                energy_uj=caused_uj + standing_nj * cycles[i] * 1e-3,
                start_cycle=span[0] if span else None,
                end_cycle=span[1] if span else None,
                reason=reasons.get(i, ""),
                lower_bound_cycles=account.bound.cycles,
                bound_by=account.bound.bound_by,
                lost_cycles=account.lost,
            )
        )
    return tuple(results)


def _power(program: Program, execution: Execution, host: _HostWork, energy_uj: float) -> Power:
    """Average and peak power.

    For the peak, the energy that a layer causes in a component is spread over the instructions of the layer
    on the units that cause it, in proportion to their duration and evenly within each; the host's energy over
    its instruction; the front end's over the run. Static and background power are drawn throughout.
    """
    total, hardware, trace = execution.cycles, program.hardware, execution.trace
    if not total:
        return Power(0.0, 0.0)
    instruction_pj, rest_pj = _instruction_pj(program, execution)
    instruction_pj[host.positions] += host.energy_uj * 1e6
    moving = timeline.accumulate(
        np.append(trace.started, 0), np.append(trace.ended, total), np.append(instruction_pj, rest_pj), total
    )
    peak_pj = moving.peak_rate(timeline.window_cycles(total), total)
    return Power(
        average=energy_uj / hardware.us_of_cycles(total) * 1e3,
        # pJ per cycle * MHz = uW
        peak=peak_pj * hardware.clock_mhz * 1e-3 + floor_mw(hardware),
    )


def _instruction_pj(program: Program, execution: Execution) -> tuple[NDArray[np.float64], float]:
    """Dynamic energy of each instruction, float64 [instructions], and what belongs to none of them, in pJ."""
    trace, hardware, layers = execution.trace, program.hardware, program.layer_of.astype(np.int64)
    price = prices(hardware)
    by_cause: dict[tuple[Unit, ...], NDArray[np.float64]] = {}
    everyone: tuple[Unit, ...] = (*timeline.DMA_UNITS, *timeline.COMPUTE_UNITS)
    for i, actions in enumerate(execution.layer_actions[:-1]):
        for name, count in actions.items():
            cause = _CAUSES.get(_COMPONENT[name], everyone)
            row = by_cause.setdefault(cause, np.zeros(len(program.layers)))
            row[i] += count * price[name]
    spread = np.zeros(program.instructions)
    rest = dynamic_pj(execution.layer_actions[-1], hardware)
    duration = np.maximum(trace.ended - trace.started, 1).astype(np.float64)
    for cause, amounts in by_cause.items():
        weights = _weights(duration, trace.unit, cause)
        sums = np.bincount(layers, weights, len(program.layers))
        shares = np.divide(amounts, sums, out=np.zeros_like(amounts), where=sums > 0)
        spread += shares[layers] * weights
        rest += float(amounts[sums == 0].sum())
    return spread, rest


def _weights(
    duration: NDArray[np.float64], unit: NDArray[np.int8], cause: Sequence[Unit]
) -> NDArray[np.float64]:
    return np.where(np.isin(unit, [int(each) for each in cause]), duration, 0.0)
