"""The result of a run of an executable: outputs, and sums over its launches, program by program.

Launches follow one another, so cycles, energy, bytes and work are sums over them; nothing lies between. Each launch
has its own timeline: `JobResult.launch` gives it as the result of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from npusim.isa.base.tensor import Array
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.agreement import standing
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.machine.job import Part, Run
from npusim.numbers.energy import energy, sum_of
from npusim.numbers.measure import measure
from npusim.numbers.power import host_work
from npusim.numbers.provenance import Provenance, Uncertainty
from npusim.numbers.run import SCHEMA_VERSION, DramBytes, RunEnergy, RunResult, WallTimes


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """All launches of one program of a run, which may be a transfer or a decision, together.

    cycles, macs: sums; energy_uj: of these launches, in microjoules; dram_bytes: whole bursts.
    """

    name: str
    launches: int
    instructions: int
    cycles: int
    energy_uj: RunEnergy
    macs: int
    dram_bytes: DramBytes

    def to_dict(self) -> dict[str, Any]:
        """The program in the JSON."""
        return asdict(self) | {"energy_uj": dict(vars(self.energy_uj))}


@dataclass(frozen=True)
class JobResult:
    """One run of an executable.

    outputs, states:  by position, and by name; none where no data was executed.
    cycles:           from the begin of the first launch to the end of the last one.
    waiting_cycles:   those of them in which launches waited for cores that others had; 0 alone.
    latency_ms:       cycles as time.
    energy_uj:        sum over the launches.
    macs, dram_bytes: likewise.
    decisions:        what was decided, in order, by name: 1 or 0 for an IF, its turns for a WHILE that has ended.
    programs:         in the order in which they first ran.
    assumed:          whether the decisions were given, as no data was executed.
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
        """Name of the model."""
        return self.executable.name

    @property
    def hardware(self) -> Hardware:
        """The hardware it ran on."""
        return self.executable.hardware

    @property
    def uncertainty(self) -> Uncertainty:
        """The known error of latency and energy."""
        return Uncertainty(standing(self.hardware), "the model decides, no row does")

    @property
    def latency_error(self) -> float | None:
        """As of a `RunResult`."""
        return self.uncertainty.error("latency")

    @property
    def energy_error(self) -> float | None:
        """As of a `RunResult`."""
        return self.uncertainty.error("energy")

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the model had to say, a line each."""
        return self.executable.notes

    def launch(self, number: int) -> RunResult:
        """A launch, by its number from 0, as the result of a run of its program."""
        part = self.run.parts[number]
        return measure(part.program, part.execution)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the keys of a `RunResult` where they mean the same."""
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
    """Every number about one run of an executable."""
    launches: dict[int, list[Part]] = {}
    for part in run.parts:
        launches.setdefault(id(part.program), []).append(part)
    programs = tuple(_program(parts) for parts in launches.values())
    return JobResult(
        outputs=list(run.outputs or ()),
        states=dict(zip(state_names, run.states, strict=False)),
        cycles=run.cycles,
        waiting_cycles=run.waiting_cycles,
        latency_ms=executable.hardware.us_of_cycles(run.cycles) * 1e-3,
        energy_uj=RunEnergy.of(sum_of([program.energy_uj for program in programs])),
        macs=sum(program.macs for program in programs),
        dram_bytes=DramBytes(
            sum(program.dram_bytes.read for program in programs),
            sum(program.dram_bytes.write for program in programs),
            sum(program.dram_bytes.instructions for program in programs),
        ),
        decisions=run.decisions,
        assumed=bool(run.decisions) and run.outputs is None,
        programs=programs,
        executable=executable,
        run=run,
    )


def _program(parts: Sequence[Part]) -> ProgramResult:
    program: Program = parts[0].program
    executions = [part.execution for part in parts]
    actions: Counter[str] = Counter()
    for execution in executions:
        for counts in execution.layer_actions:
            actions.update(counts)
    cycles = sum(execution.cycles for execution in executions)
    host_uj = float(host_work(program, executions[0]).energy_uj.sum()) * len(
        parts
    )  # straight-line: always the same
    return ProgramResult(
        name=program.name,
        launches=len(parts),
        instructions=program.instructions,
        cycles=cycles,
        energy_uj=RunEnergy.of(energy(actions, cycles, program.hardware, host_uj)),
        macs=sum(layer.workload.macs for layer in program.layers) * len(parts),
        dram_bytes=DramBytes(
            sum(execution.dram_read_bytes for execution in executions),
            sum(execution.dram_write_bytes for execution in executions),
            sum(execution.instruction_bytes for execution in executions),
        ),
    )
