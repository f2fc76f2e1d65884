"""The system: environment, ports of the memories, host and cores, and the jobs that run on them.

A job is an executable with its data: its steps follow one another, each launch on the core that it names, in the job's
own part of each memory. Jobs run at the same time. Where they want the same core, launches take turns in the order in
which they ask, and the scratchpad keeps what the last one left. All cores share the ports and the host.

The clock of the first core is the system's: that of the ports, of the jobs, and of all times that are told of the
system. Other cores may have other clocks (`npusim.machine.clock`).

`execute` is one submission of one launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import simpy

from npusim.isa.base.errors import HardwareError, SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.memory import HostFunction
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.machine.clock import Clock, ticks_of
from npusim.machine.core import Core, Progress
from npusim.machine.job import MOST_TURNS, Bindings, Job, Order
from npusim.machine.port import MemoryPort
from npusim.machine.trace import Execution

SHARED_UNITS = (Unit.HOST,)
"""Units that a system has once, for all its cores."""


def execute(
    program: Program,
    inputs: Sequence[Array] | None = None,
    *,
    states: Sequence[Array | None] | None = None,
    host_functions: Mapping[str, HostFunction] | None = None,
    hardware: Hardware | None = None,
    data: bool = True,
    progress: Progress | None = None,
) -> Execution:
    """Run a program on the simulated machine, alone.

    inputs:   one array per `program.inputs`, same dtype and shape; not needed without data.
    states:   one array or None per `program.states`; None begins as the program has it.
    hardware: another machine than the one compiled for (same capacities; only time changes).
    data:     False executes no data: same cycles, no outputs.
    progress: called now and then with (instructions completed, all instructions).

    Raises ProgramError for a program that breaks a rule of the instruction set, SimulationError for wrong
    inputs and for instructions that wait for each other forever.
    """
    system = System((hardware or program.hardware,))
    bindings = Bindings(inputs or (), states, host_functions or {}) if data else None
    job = system.submit(Executable.of(program), bindings, progress=progress)
    system.run()
    run = job.runs[0]
    return replace(run.parts[0].execution, outputs=run.outputs, states=run.states)


class System:
    """An environment, a port for each memory but the scratchpad, the host, and the cores that share them.

    cores: the hardware of each; the memories behind ports must be the same, in ns and GB/s: they belong to all.

    Raises HardwareError where they are not.
    """

    def __init__(self, cores: Sequence[Hardware]) -> None:
        first = cores[0]
        for other in cores[1:]:
            if (first.dram, first.memory) != (other.dram, other.memory):
                raise HardwareError(
                    f"{first.name} and {other.name} differ in DRAM or memory; the cores of a system share them"
                )
            for space in first.outer_spaces:
                mine, theirs = first.gb_per_s(space), other.gb_per_s(space)
                if mine != theirs:
                    raise HardwareError(
                        f"{first.memory_name(space)} follows the clock, {mine:g} GB/s at {first.clock_mhz:g} MHz and "
                        f"{theirs:g} GB/s at {other.clock_mhz:g} MHz; cores that share it have one clock"
                    )
        self.env = simpy.Environment()
        clocks = _clocks(self.env, cores)
        environments = [clock or self.env for clock in clocks]
        self.ports = {
            space: MemoryPort(environments[0], first, space, clocks[0]) for space in first.outer_spaces
        }
        units = {unit: simpy.Resource(self.env) for unit in SHARED_UNITS} if len(cores) > 1 else {}
        self.cores = tuple(
            Core(environments[number], self.ports, hardware, number, units, clocks[number])
            for number, hardware in enumerate(cores)
        )
        self.jobs: list[Job] = []
        self._used_bytes = dict.fromkeys(self.ports, 0)

    def submit(
        self,
        executable: Executable,
        bindings: Bindings | None = None,
        at: int = 0,
        repeat: int = 1,
        tenant: str = "",
        *,
        cores: Sequence[int] | None = None,
        decisions: Mapping[str, int] | None = None,
        most_turns: int = MOST_TURNS,
        progress: Progress | None = None,
    ) -> Job:
        """Have an executable run in the next `run`.

        bindings:   the data; None executes none: same cycles, no outputs.
        at:         the cycle of the system from which on it may begin; 0.
        repeat:     how often, one run after the other; inputs stay, states go on from where they were; 1.
        tenant:     whose it is, for the results.
        cores:      the core of the system for each core that the executable names; None: the same.
        decisions:  without data, what the data would decide, by name: 1 or 0 for an IF, turns for a WHILE. Of those
                    that are reached, all must be said.
        most_turns: a WHILE that goes on longer is given up.
        progress:   called now and then with (instructions completed, all instructions) of each launch.

        Raises ProgramError for an executable or program that breaks a rule, SimulationError for bindings and decisions
        that do not fit, for cores that do not exist or cannot be shared, for times and numbers that cannot be,
        and where a memory is full.
        """
        order = Order(executable, bindings, at, repeat, tenant, cores, decisions or {}, most_turns, progress)
        job = Job(order, self.cores)
        for other in self.jobs:
            if (job.holds_scratchpad or other.holds_scratchpad) and job.cores & other.cores:
                raise SimulationError(
                    f"{executable.name}: shares a core with {other.order.executable.name}, and inputs or outputs lie "
                    "in its scratchpad; give each a core, or let another memory hold io"
                )
        self.env.process(job.process(self._reserve(job)))
        self.jobs.append(job)
        return job

    def _reserve(self, job: Job) -> dict[Space, int]:
        """The address of each memory that a job has for itself: behind those before it, where the first bank's row
        begins.
        """
        found = {}
        for space, port in self.ports.items():
            stripe, capacity = port.timing.stripe_bytes, self.cores[0].hardware.memory_bytes(space)
            address = found[space] = -(-self._used_bytes[space] // stripe) * stripe
            size_bytes = job.size_bytes.get(space, 0)
            if not size_bytes:
                continue
            self._used_bytes[space] = address + size_bytes
            jobs = [*self.jobs, job]
            needed = address + size_bytes - sum([each.order.executable.spared_bytes(space) for each in jobs])
            if address and needed > capacity:
                name = "DRAM" if space == Space.DRAM else self.cores[0].hardware.memory_name(space)
                raise SimulationError(
                    f"{len(jobs)} jobs need {needed} bytes of {name}, the hardware has {capacity}"
                )
        return found

    def run(self) -> None:
        """Run until nothing happens any more. Raises SimulationError with who waits for whom if a launch is stuck."""
        self.env.run()
        stuck = [job.launch for job in self.jobs if job.launch is not None]
        if stuck:
            several = len(self.cores) > 1
            raise SimulationError(
                "; ".join(
                    (f"core {launch.core.number}: " if several else "") + launch.deadlock()
                    for launch in stuck
                )
            )


def _clocks(environment: simpy.Environment, cores: Sequence[Hardware]) -> list[Clock | None]:
    """The clock of each core; None for all where all are equal."""
    ticks = ticks_of([each.clock_mhz for each in cores])
    if set(ticks) == {1}:
        return [None] * len(cores)
    clocks = {each: Clock(environment, each) for each in set(ticks)}
    return [clocks[each] for each in ticks]
