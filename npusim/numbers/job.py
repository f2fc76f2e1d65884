"""The result of a run of an executable: outputs, and sums over its launches, program by program.

Launches follow one another without gaps, so cycles, energy, bytes and work are sums over them. Each launch has its own
timeline; `JobResult.launch` returns it as the result of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.agreement import standing
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.machine.job import Part, Run
from npusim.numbers.energy import Energy, sum_of
from npusim.numbers.measure import measure
from npusim.numbers.power import energy_of
from npusim.numbers.provenance import Provenance, Uncertainty
from npusim.numbers.run import SCHEMA_VERSION, DramBytes, RunEnergy, RunResult, WallTimes


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The sums over all launches of one program, which may be a transfer or a decision.

    energy_uj:  energy of these launches in microjoules.
    dram_bytes: traffic at the DRAM port in whole bursts.
    """

    name: str
    launches: int
    instructions: int
    cycles: int
    energy_uj: RunEnergy
    macs: int
    dram_bytes: DramBytes

    def to_dict(self) -> dict[str, Any]:
        """Return the program as in the JSON."""
        return asdict(self) | {"energy_uj": dict(vars(self.energy_uj))}


@dataclass(frozen=True)
class JobResult:
    """The result of one run of an executable, a model with IF or WHILE.

    outputs, states:  by position, and by name; empty if no data was executed.
    cycles:           from the begin of the first launch to the end of the last one.
    waiting_cycles:   those of them in which launches waited for cores that other runs occupied; 0 for a run alone.
    latency_ms:       cycles / clock.
    energy_uj, macs, dram_bytes: sums over the launches.
    decisions:        by name, in order: 1 or 0 for an IF, the number of iterations for a WHILE that has ended.
    programs:         sums by program, in the order in which they first ran.
    assumed:          True if the decisions were given because no data was executed.
    """

    outputs: list[Array]
    states: Mapping[str, Array]
    cycles: int
    waiting_cycles: int
    latency_ms: float
    energy_uj: RunEnergy
    macs: int
    dram_bytes: DramBytes
    decisions: tuple[tuple[str, int], ...]
    assumed: bool
    programs: tuple[ProgramResult, ...]
    executable: Executable
    run: Run
    wall_s: WallTimes = field(default_factory=WallTimes)
    provenance: Provenance = field(default_factory=Provenance)
    source: str | None = None

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.executable.name

    @property
    def hardware(self) -> Hardware:
        """The hardware that the programs ran on."""
        return self.executable.hardware

    @property
    def uncertainty(self) -> Uncertainty:
        """The known error of latency and energy."""
        return Uncertainty(standing(self.hardware), "the model decides, no row does")

    @property
    def latency_error(self) -> float | None:
        """The typical error of the latency as a share, as of a `RunResult`; None if none is known."""
        return self.uncertainty.error("latency")

    @property
    def energy_error(self) -> float | None:
        """The typical error of the energy as a share, as of a `RunResult`; None if none is known."""
        return self.uncertainty.error("energy")

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the model's front end, such as simplifications, a line each."""
        return self.executable.notes

    def launch(self, number: int) -> RunResult:
        """Return a launch, by its number from 0, as the result of a run of its program."""
        part = self.run.parts[number]
        return measure(part.program, part.execution)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the keys of a `RunResult` for numbers of the same meaning."""
        return {
            "schema_version": SCHEMA_VERSION,
            "npusim_version": npusim_version(),
            "model": self.model,
            "hardware": self.hardware.model_dump(mode="json"),
            "cycles": {"total": self.cycles, "waiting": self.waiting_cycles},
            "latency_ms": self.latency_ms,
            "latency_error": self.latency_error,
            "energy_uj": dict(vars(self.energy_uj)),
            "energy_error": self.energy_error,
            "agreement": self.uncertainty.to_dict(),
            "macs": self.macs,
            "dram_bytes": asdict(self.dram_bytes),
            "decisions": [{"name": name, "decided": number} for name, number in self.decisions],
            "decisions_assumed": self.assumed,
            "notes": list(self.notes),
            "programs": [program.to_dict() for program in self.programs],
            "provenance": self.provenance.to_dict(self.hardware),
            "wall_s": self.wall_s.to_dict(),
        }


def measure_job(executable: Executable, run: Run, state_names: Sequence[str] = ()) -> JobResult:
    """Return the result of one run of an executable."""
    launches: dict[int, list[Part]] = {}
    for part in run.parts:
        launches.setdefault(id(part.program), []).append(part)
    energies = [
        energy_of(parts[0].program, [part.execution for part in parts]) for parts in launches.values()
    ]
    programs = tuple(map(_program, launches.values(), energies))
    return JobResult(
        outputs=list(run.outputs or ()),
        states=dict(zip(state_names, run.states, strict=False)),
        cycles=run.cycles,
        waiting_cycles=run.waiting_cycles,
        latency_ms=executable.hardware.us_of_cycles(run.cycles) * 1e-3,
        energy_uj=RunEnergy.of(sum_of(energies)),
        macs=sum(program.macs for program in programs),
        dram_bytes=DramBytes.of([part.execution for part in run.parts]),
        decisions=run.decisions,
        assumed=bool(run.decisions) and run.outputs is None,
        programs=programs,
        executable=executable,
        run=run,
    )


def _program(parts: Sequence[Part], energy: Energy) -> ProgramResult:
    program: Program = parts[0].program
    executions = [part.execution for part in parts]
    return ProgramResult(
        name=program.name,
        launches=len(parts),
        instructions=program.instructions,
        cycles=sum(execution.cycles for execution in executions),
        energy_uj=RunEnergy.of(energy),
        macs=sum(layer.workload.macs for layer in program.layers) * len(parts),
        dram_bytes=DramBytes.of(executions),
    )
