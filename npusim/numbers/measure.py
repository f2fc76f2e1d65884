"""From a program and its timeline to the numbers of a `RunResult`."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.isa.hardware.units import UNIT_NAMES
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers import timeline
from npusim.numbers.energy import energy, floor_mw
from npusim.numbers.performance import performance_info
from npusim.numbers.power import WINDOWS_US, accumulated, host_work, layer_energy_uj, moving_pj, window_cycles
from npusim.numbers.run import (
    DramBytes,
    LayerResult,
    Power,
    RunCycles,
    RunEnergy,
    RunResult,
    WallTimes,
)
from npusim.session.states import names as state_names

if TYPE_CHECKING:
    from npusim.numbers.losses import Accounts


def measure(program: Program, execution: Execution, wall_s: WallTimes | None = None) -> RunResult:
    """Every number about one execution; the definitions are at the fields of `RunResult`."""
    hardware = program.hardware
    total = execution.cycles
    host = host_work(program, execution)
    actions: Counter[str] = Counter()
    for counts in execution.layer_actions:
        actions.update(counts)
    spent = energy(actions, total, hardware, float(host.energy_uj.sum()))
    latency_us = hardware.us_of_cycles(total)
    on_array = sum(layer.workload.macs for layer in program.layers if layer.unit == "mac")
    return RunResult(
        outputs=list(execution.outputs or ()),
        states=dict(zip(state_names(program), execution.states, strict=False)),
        cycles=RunCycles.of(timeline.busy_cycles(execution.trace, total)),
        latency_ms=latency_us * 1e-3,
        energy_uj=RunEnergy.of(spent),
        power_mw=_power(program, execution, spent.total),
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


def layer_results(program: Program, execution: Execution, accounts: Accounts) -> tuple[LayerResult, ...]:
    """The numbers of every layer; the definitions are at the fields of `LayerResult`."""
    hardware, host = program.hardware, host_work(program, execution)
    cycles = timeline.layer_cycles(program, execution.trace, execution.cycles).tolist()
    spans = timeline.layer_spans(program, execution.trace)
    energy_uj = np.sum([*layer_energy_uj(program, execution).values()], axis=0).tolist()
    reasons = dict(zip(program.layer_of[host.positions].tolist(), host.reasons, strict=True))
    tiles = _tiles(program)
    results = []
    for i, (layer, account) in enumerate(zip(program.layers, accounts.layers, strict=True)):
        actions = execution.layer_actions[i]
        span = spans[i]
        on_array = layer.workload.macs if layer.unit == "mac" else 0
        results.append(
            LayerResult(
                name=layer.name,
                op=layer.op,
                unit=layer.unit,
                input_shapes=layer.input_shapes,
                output_shapes=layer.output_shapes,
                kernel=layer.kernel,
                stride=layer.stride,
                tile=tiles[i].largest,
                dataflow="+".join(sorted(tiles[i].dataflows)),
                cycles=cycles[i],
                time_us=hardware.us_of_cycles(cycles[i]),
                macs=layer.workload.macs,
                utilization=_share(on_array, cycles[i] * hardware.macs_per_cycle),
                bytes=actions.get("dram_read_byte", 0) + actions.get("dram_write_byte", 0),
                energy_uj=energy_uj[i],
                start_cycle=span[0] if span else None,
                end_cycle=span[1] if span else None,
                reason=reasons.get(i, ""),
                lower_bound_cycles=account.bound.cycles,
                bound_by=account.bound.bound_by,
                lost_cycles=account.lost,
            )
        )
    return tuple(results)


class _Tiles(NamedTuple):
    """How a layer is cut: the largest tile on its unit, and the dataflows of all of them."""

    largest: tuple[int, ...]
    dataflows: frozenset[str]


def _tiles(program: Program) -> list[_Tiles]:
    """The tiles of each layer, read off its instructions: a program file has them as the compiler does."""
    on_unit: dict[int, set[tuple[tuple[int, ...], str]]] = {}
    for instruction, layer in zip(decode_all(program.code), program.layer_of.tolist(), strict=True):
        if instruction.tile and UNIT_NAMES[instruction.unit] == program.layers[layer].unit:
            on_unit.setdefault(layer, set()).add((instruction.tile, instruction.dataflow))
    found = []
    for layer in range(len(program.layers)):
        tiles = on_unit.get(layer, set())
        largest = max((tile for tile, _ in tiles), key=lambda tile: (prod(tile), tile), default=())
        found.append(_Tiles(largest, frozenset(dataflow for _, dataflow in tiles if dataflow)))
    return found


def _power(program: Program, execution: Execution, energy_uj: float) -> Power:
    """Average and peak power; `npusim.numbers.power` says how energy is spread over time."""
    total, hardware = execution.cycles, program.hardware
    if not total:
        return Power(0.0, 0.0, 0.0)
    moving = accumulated(program, execution, moving_pj(program, execution).values())
    average = energy_uj / hardware.us_of_cycles(total) * 1e3

    floor, peaks, above = floor_mw(hardware), list[float](), average
    for window in reversed(tuple(WINDOWS_US)):  # the longest first: shorter ones have no lower peaks
        cycles = window_cycles(hardware, window)
        if cycles < total:
            # pJ per cycle * MHz = uW. Sums in another order may be below by their last bit.
            above = max(moving.peak_rate(cycles, total) * hardware.clock_mhz * 1e-3 + floor, above)
        peaks.insert(0, above)
    return Power(average, *peaks)
