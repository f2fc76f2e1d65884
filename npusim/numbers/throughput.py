"""The result of several inferences on the cores of a system: throughput beside latency, use of each core, energy.

Energy is that of all actions and of the host, plus what every core and the memories draw in every cycle from the first
start to the last end. The cores share the memories behind ports, so the standby of these is counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.program.program import Program
from npusim.machine.job import Part, Run
from npusim.numbers.energy import energy, floor_mw, standing_mw
from npusim.numbers.layers import share
from npusim.numbers.power import host_work
from npusim.numbers.run import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Inference:
    """One inference: the core that ran it, its start, and its time, in ms."""

    core: int
    start_ms: float
    latency_ms: float


@dataclass(frozen=True, slots=True)
class CoreUse:
    """What a core did.

    busy:            share of the whole time in which it ran inferences.
    mac_utilization: multiply-adds over those that its array could do in the whole time.
    dram_bytes:      traffic at the DRAM port in whole bursts, fetched code included.
    dram_share:      this traffic over what passes at the DRAM's peak bandwidth in the whole time.
    """

    hardware: str
    inferences: int
    busy: float
    mac_utilization: float
    dram_bytes: int
    dram_share: float


@dataclass(frozen=True, slots=True)
class Throughput:
    """Several inferences of a model on a system.

    total_ms:   time from the first start to the last end.
    steady_per_s: inferences per second while every core runs its second or a later one; None if there is no such time.
    loading_bytes, loading_ms: constants and code of all programs, and the time to write them into their memories at the
                peak bandwidth. Equal cores have one program.
    first_loading_bytes, first_loading_ms: those of the first inference's program, which need not wait for the others.
    energy_uj:  energy of all inferences, memories and idle cores included; standby_uj is the part that does not depend
                on what the cores do.
    """

    model: str
    system: str
    hardware: Hardware
    inferences: tuple[Inference, ...]
    cores: tuple[CoreUse, ...]
    total_ms: float
    steady_per_s: float | None
    loading_bytes: int
    loading_ms: float
    first_loading_bytes: int
    first_loading_ms: float
    energy_uj: float
    standby_uj: float

    @property
    def per_s(self) -> float:
        """Inferences per second over the whole time."""
        return len(self.inferences) / self.total_ms * 1e3

    @property
    def mean_mw(self) -> float:
        """Mean power over the whole time, in mW."""
        return self.energy_uj / self.total_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the JSON of `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "npusim_version": npusim_version(),
            "model": self.model,
            "hardware": self.hardware.model_dump(mode="json"),
            "throughput": {
                "system": self.system,
                "per_s": self.per_s,
                "steady_per_s": self.steady_per_s,
                "total_ms": self.total_ms,
                "loading_bytes": self.loading_bytes,
                "loading_ms": self.loading_ms,
                "first_loading_bytes": self.first_loading_bytes,
                "first_loading_ms": self.first_loading_ms,
                "energy_uj": self.energy_uj,
                "standby_uj": self.standby_uj,
                "mean_mw": self.mean_mw,
                "inferences": [asdict(each) for each in self.inferences],
                "cores": [asdict(each) for each in self.cores],
            },
        }


def measure_system(name: str, programs: Sequence[Program], runs: Sequence[Sequence[Run]]) -> Throughput:
    """Return the result of a system whose cores ran programs that start in cycle 0.

    programs: of each core; runs: those of each core. Cycles are those of the first core's clock.
    """
    first = programs[0].hardware
    total = max(run.end_cycle for each in runs for run in each)
    total_us = first.us_of_cycles(total)
    inferences = sorted((run.start_cycle, core, run.cycles) for core, each in enumerate(runs) for run in each)
    moving = sum(_moving_uj(program, each) for program, each in zip(programs, runs, strict=True))
    standby_uj = sum(floor_mw(program.hardware) - _shared_mw(program.hardware) for program in programs)
    standby_uj = (standby_uj + _shared_mw(first)) * total_us * 1e-3
    return Throughput(
        programs[0].name,
        name,
        first,
        tuple(
            Inference(core, first.us_of_cycles(start) * 1e-3, first.us_of_cycles(cycles) * 1e-3)
            for start, core, cycles in inferences
        ),
        tuple(_use(program, each, total, total_us) for program, each in zip(programs, runs, strict=True)),
        total_us * 1e-3,
        _steady_per_s(first, runs),
        *_loading(programs),
        *_loading([programs[inferences[0][1]]]),
        moving + standby_uj,
        standby_uj,
    )


def _steady_per_s(clock: Hardware, runs: Sequence[Sequence[Run]]) -> float | None:
    """Return inferences per second from the last end of a core's first inference to the first end of a core's last one.

    An inference that is only partly in this time counts by the part of its cycles. Counted by its end it would add
    the work of the time before, and a system could seem faster than its cores alone.
    """
    if not all(runs):
        return None
    begin, end = max(each[0].end_cycle for each in runs), min(each[-1].end_cycle for each in runs)
    if end <= begin:
        return None
    done = sum(
        max(min(run.end_cycle, end) - max(run.start_cycle, begin), 0) / run.cycles
        for each in runs
        for run in each
    )
    return done / clock.us_of_cycles(end - begin) * 1e6


def _parts(runs: Sequence[Run]) -> list[Part]:
    return [part for run in runs for part in run.parts]


def _moving_uj(program: Program, runs: Sequence[Run]) -> float:
    """Return the energy of actions and of the host, without what is drawn in every cycle."""
    actions: dict[str, int] = {}
    executions = [part.execution for part in _parts(runs)]
    for execution in executions:
        for counts in execution.layer_actions:
            for action, count in counts.items():
                actions[action] = actions.get(action, 0) + count
    if not executions:
        return 0.0
    host_uj = float(host_work(program, executions[0]).energy_uj.sum()) * len(executions)
    return energy(actions, 0, program.hardware, host_uj).total


def _shared_mw(hardware: Hardware) -> float:
    """Return the standing power of the memories behind ports, on the chip or not, which all cores share."""
    shared = {"dram", *(memory.name for memory in hardware.memory)}
    return sum(power for name, power in standing_mw(hardware).items() if name in shared)


def _use(program: Program, runs: Sequence[Run], total: int, total_us: float) -> CoreUse:
    hardware = program.hardware
    executions = [part.execution for part in _parts(runs)]
    bytes_moved = sum(
        each.dram_read_bytes + each.dram_write_bytes + each.instruction_bytes for each in executions
    )
    macs = sum(layer.workload.macs for layer in program.layers if layer.unit == "mac") * len(runs)
    peak = hardware.macs_per_cycle * hardware.clock_mhz * total_us
    return CoreUse(
        hardware.name,
        len(runs),
        share(sum(run.cycles for run in runs), total),
        share(macs, peak),
        bytes_moved,
        share(bytes_moved, hardware.gb_per_s(Space.DRAM) * total_us * 1e3) if hardware.has_dram else 0.0,
    )


def _loading(programs: Sequence[Program]) -> tuple[int, float]:
    """Return the bytes of constants and code in memories behind ports, and the time in ms to write them.

    A program that several cores run counts once. All cores have the bandwidths of the first.
    """
    sizes: dict[int, int] = {}
    for program in {id(each): each for each in programs}.values():
        contents = [(image.space, image.size_bytes) for image in program.images]
        contents += [(area.space, -area.size_bytes) for area in program.spared]
        for space, size in [*contents, (program.code_space, program.code_size_bytes)]:
            if space != Space.SCRATCHPAD:
                sizes[space] = sizes.get(space, 0) + size
    first = programs[0].hardware
    ms = sum(size / first.gb_per_s(Space(space)) for space, size in sizes.items()) * 1e-6
    return sum(sizes.values()), ms
