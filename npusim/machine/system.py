"""The system: cores that share memory ports and a host, and the jobs that run on them.

A job is an executable with its data. Its steps run one after the other, each launch on the core that it names, in the
job's own part of each memory. Jobs of the same program have its constants and its code in common. Jobs run at the same
time. If they need the same core, launches get it in the order of their requests, and the scratchpad keeps the content
that the last launch left.

The clock of the first core is the system clock: the ports, the jobs and all reported system times use it. Other cores
may have other clocks (`npusim.machine.clock`).

`execute` runs a single program, as one job with one launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import simpy

from npusim.isa.base.errors import HardwareError, SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import PRODUCERS, UNIT_NAMES, Unit
from npusim.isa.instructions.memory import HostFunction
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.isa.program.validate import validate
from npusim.machine.clock import Clock, ticks_of
from npusim.machine.core import Common, Core, Launch, Progress
from npusim.machine.job import MOST_TURNS, Bindings, Job, Order, Supply
from npusim.machine.port import MemoryPort
from npusim.machine.trace import Execution

if TYPE_CHECKING:
    from npusim.isa.program.repeat import Repeat

SHARED_UNITS = (Unit.HOST,)
"""Units of which a system has only one, shared by all its cores."""


def execute(
    program: Program,
    inputs: Sequence[Array] | None = None,
    *,
    states: Sequence[Array | None] | None = None,
    host_functions: Mapping[str, HostFunction] | None = None,
    hardware: Hardware | None = None,
    data: bool = True,
    progress: Progress | None = None,
    every_layer: bool = False,
) -> Execution:
    """Run a program on the simulated machine, alone.

    inputs:   one array per `program.inputs`, same dtype and shape; not needed without data.
    states:   one array or None per `program.states`; None starts with the program's initial value.
    hardware: other hardware than the program was compiled for (same capacities; only the time changes).
    data:     False simulates only the timing: same cycles, no outputs.
    progress: called from time to time with (instructions completed, all instructions).
    every_layer: simulate all equal layers. Otherwise, without data, those that are proven to take the same cycles are
              counted (`npusim.machine.repetition`). The numbers are the same.

    Raises ProgramError for a program that breaks a rule of the instruction set, SimulationError for wrong
    inputs and for instructions that wait for each other forever.
    """
    note = ""
    if program.timing_only and not data and not every_layer:
        from npusim.isa.program.repeat import difference_of, repeats_of  # no other program has equal parts

        if repeats := repeats_of(program):
            return _execute_short(program, repeats, hardware or program.hardware, progress)
        if why := difference_of(program):
            note = f"equal layers were scheduled and simulated one by one: {why}"
    system = System((hardware or program.hardware,))
    bindings = Bindings(inputs or (), states, host_functions or {}) if data else None
    job = system.submit(Executable.of(program), bindings, progress=progress)
    system.run()
    run = job.runs[0]
    return replace(run.parts[0].execution, outputs=run.outputs, states=run.states, equal_layers=note)


def _execute_short(
    program: Program, repeats: Sequence[Repeat], hardware: Hardware, progress: Progress | None
) -> Execution:
    """Run a short form of a program of equal parts, and the whole one if the parts are proven to recur in none."""
    from npusim.machine.repetition import PartWatch  # only for programs of equal parts

    validate(program, ())
    for repeat in repeats:
        system = System((hardware,))
        job = system.submit(
            Executable.of(replace(repeat.short, hardware=program.hardware)), progress=progress
        )
        job.watch = watch = PartWatch(repeat, program.layer_of)
        system.run()
        if watch.between is not None:
            execution = job.runs[0].parts[0].execution
            layers = repeat.copies * repeat.grouped
            note = f"{layers} layers that are equal to the one before were counted, not simulated"
            return replace(execution, equal_layers=note)
    execution = execute(program, hardware=hardware, data=False, progress=progress, every_layer=True)
    return replace(execution, equal_layers=f"equal layers were simulated one by one: {watch.why}")


class System:
    """Cores with a shared host and a shared port for each memory outside the cores, in one SimPy environment.

    cores: the hardware of each core. Its memories behind ports must be equal, in ns and GB/s, because they are shared.

    Raises HardwareError if they differ.
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
        repeat: int | Supply = 1,
        tenant: str = "",
        *,
        cores: Sequence[int] | None = None,
        decisions: Mapping[str, int] | None = None,
        most_turns: int = MOST_TURNS,
        progress: Progress | None = None,
    ) -> Job:
        """Queue an executable as a job for the next `run`, and return the job.

        bindings:   the data; None simulates only the timing: same cycles, no outputs.
        at:         system cycle from which on the job may start.
        repeat:     number of runs, one after the other, with the same inputs; states continue from run to run. Jobs
                    that are given the same `Supply` take its runs in turn, each when it has ended the one before.
        tenant:     name of the owner, for the results.
        cores:      the system's core for each core that the executable names; None: the same numbers.
        decisions:  for runs without data, the result of each decision that is reached, by name: 1 or 0 for an IF, the
                    number of iterations for a WHILE.
        most_turns: maximum number of iterations of a WHILE.
        progress:   called from time to time with (instructions completed, all instructions) of each launch.

        Raises ProgramError for an executable or program that breaks a rule. Raises SimulationError for bindings and
        decisions that do not fit, for cores that do not exist or cannot be shared, for invalid times and numbers, and
        if a memory is full.
        """
        order = Order(executable, bindings, at, repeat, tenant, cores, decisions or {}, most_turns, progress)
        job = Job(order, self.cores)
        for other in self.jobs:
            if (job.holds_scratchpad or other.holds_scratchpad) and job.cores & other.cores:
                raise SimulationError(
                    f"{executable.name}: shares a core with {other.order.executable.name}, and inputs or outputs are "
                    "placed in its scratchpad; give each a core, or let another memory hold io"
                )
        self._reserve(job)
        self.env.process(job.process())
        self.jobs.append(job)
        return job

    def _reserve(self, job: Job) -> None:
        """Reserve a part of each memory for a job.

        Parts follow one another. Each begins at a row of the first bank, so that its timing does not depend on the
        jobs before it. What a program only reads lies in the part of the first job that has it. Raises SimulationError
        if a memory is full.
        """
        addresses = job.bases = dict[Space, int]()
        program, sizes = job.program, job.size_bytes
        first = next((other for other in self.jobs if other.program is program is not None), None)
        if first is not None:
            sizes = first.written_bytes
            job.common = {space: Common(sizes[space], base) for space, base in first.bases.items()}
        for space, port in self.ports.items():
            stripe, capacity = port.timing.stripe_bytes, self.cores[0].hardware.memory_bytes(space)
            address = addresses[space] = -(-self._used_bytes[space] // stripe) * stripe
            size_bytes = sizes.get(space, 0)
            if not size_bytes:
                continue
            self._used_bytes[space] = address + size_bytes
            jobs = [*self.jobs, job]
            spared = sum([other.order.executable.spared_bytes(space) for other in jobs if not other.common])
            needed = address + size_bytes - spared
            if address and needed > capacity:
                name = "DRAM" if space == Space.DRAM else self.cores[0].hardware.memory_name(space)
                raise SimulationError(
                    f"{len(jobs)} jobs need {needed} bytes of {name}, the hardware has {capacity}"
                )

    def run(self) -> None:
        """Run all jobs to their end. Raises SimulationError for a deadlock, with who waits for whom."""
        self.env.run()
        stuck = [job.launch for job in self.jobs if job.launch is not None]
        if stuck:
            several = len(self.cores) > 1
            raise SimulationError(
                "; ".join(
                    (f"core {launch.core.number}: " if several else "") + _deadlock(launch)
                    for launch in stuck
                )
            )


def _deadlock(launch: Launch) -> str:
    """Describe who waits for whom, for a launch that is not done although no events are left.

    Bank ports are never the cause, because an instruction that holds some always ends.
    """
    program, instructions = launch.program, launch.instructions

    def name(index: int) -> str:
        return f'instruction {index} ({instructions[index].mnemonic}, layer "{program.layer_name(index)}")'

    waiting = []
    stuck = dict(launch.current)
    front = launch.next_dispatch
    if front < len(instructions):
        unit = instructions[front].unit
        if unit is Unit.FRONT_END:
            stuck[unit] = front
        else:
            waiting.append(
                f"the front end with {name(front)} waits for room in the queue of {UNIT_NAMES[unit]}"
            )
    for unit, index in stuck.items():
        for number, count in instructions[index].waits:
            producer = PRODUCERS[number]
            if launch.completions[producer] < count:
                waiting.append(
                    f"{UNIT_NAMES[unit]} with {name(index)} waits for {UNIT_NAMES[producer]} "
                    f"to complete {count} instructions, it has completed {launch.completions[producer]}"
                )
    left = len(instructions) - launch.completed
    return f"{program.name}: deadlock with {left} instructions left: " + "; ".join(waiting)


def _clocks(environment: simpy.Environment, cores: Sequence[Hardware]) -> list[Clock | None]:
    """Return the clock of each core; None for every core if all clocks are equal."""
    periods = ticks_of([core.clock_mhz for core in cores])
    if set(periods) == {1}:
        return [None] * len(cores)
    clocks = {ticks: Clock(environment, ticks) for ticks in set(periods)}
    return [clocks[ticks] for ticks in periods]
