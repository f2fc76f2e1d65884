"""A job runs an executable with its data on the cores of a system, step by step."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import simpy

from npusim.isa.base.errors import SimulationError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Placement
from npusim.isa.instructions.memory import HostFunction, Memory, Spaces, check_values
from npusim.isa.instructions.region import Space
from npusim.isa.program.executable import (
    DECISION,
    HANDOVER,
    OWN,
    Executable,
    If,
    Launch,
    Place,
    Step,
    While,
    link,
    walk,
)
from npusim.isa.program.program import Program
from npusim.isa.program.start import memory_of
from npusim.machine.clock import CoreTime
from npusim.machine.core import Common, Core, Loaded, Progress, load
from npusim.machine.core import Launch as LaunchOnCore
from npusim.machine.trace import Execution

if TYPE_CHECKING:
    from npusim.machine.repetition import PartWatch

MOST_TURNS = 10_000
"""Iterations after which a WHILE loop that has not ended is reported as an error."""


class Supply:
    """Runs that several jobs share: a job that has ended one takes the next, until none is left."""

    def __init__(self, number: int) -> None:
        self.left = number

    def take(self) -> bool:
        """Take a run, and return whether one was left."""
        self.left -= 1
        return self.left >= 0


class Bindings(NamedTuple):
    """The data of a job.

    inputs: one array per input of the executable, in its dtype and shape.
    states: one array or None per state. None starts with the initial value from the program, for one state or all.
    host_functions: the functions that the host computes, by operator.
    """

    inputs: Sequence[Array]
    states: Sequence[Array | None] | None = None
    host_functions: Mapping[str, HostFunction] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Order:
    """The arguments of `npusim.machine.system.System.submit`: an executable, its data and its schedule."""

    executable: Executable
    bindings: Bindings | None = None
    at: int = 0
    repeat: int | Supply = 1
    tenant: str = ""
    cores: Sequence[int] | None = None
    decisions: Mapping[str, int] = field(default_factory=dict)
    most_turns: int = MOST_TURNS
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One launch of a job: a program on a core.

    step:        the step of the executable that the launch performs.
    asked_cycle, start_cycle: system cycles in which the core was requested and granted.
    execution:   timeline and counts in core cycles, from the core's first edge after the start.
    time:        the conversion of these times to system cycles.
    bases:       byte address in each memory from which the program's addresses count.
    """

    step: Step
    program: Program
    core: int
    asked_cycle: int
    start_cycle: int
    execution: Execution
    time: CoreTime
    bases: Mapping[Space, int]

    @property
    def end_cycle(self) -> int:
        """The first system cycle after the launch's last completion."""
        return self.start_cycle + self.time.cycle(self.execution.cycles)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job's executable, from the start of its first launch to the end of its last; in system cycles.

    parts:     its launches, in order; transfers between cores and decisions are launches too.
    decisions: (name, result) in order: 1 or 0 for an IF, the number of iterations for a WHILE.
    outputs, states: one array per output and state of the executable; None and () without data.
    """

    start_cycle: int
    end_cycle: int
    parts: tuple[Part, ...]
    decisions: tuple[tuple[str, int], ...]
    outputs: tuple[Array, ...] | None
    states: tuple[Array, ...]

    @property
    def cycles(self) -> int:
        """Cycles from start to end, including waits for cores between launches."""
        return self.end_cycle - self.start_cycle

    @property
    def waiting_cycles(self) -> int:
        """Cycles in which the run's launches, including the first, waited for busy cores."""
        return sum(part.start_cycle - part.asked_cycle for part in self.parts)


class Job:
    """A submitted order and its results.

    runs:   the completed runs, one per repetition; none if other jobs took all of a `Supply`.
    holds_scratchpad: inputs or outputs are placed in the scratchpad of the core, so no other job may use the core.
    launch: the running launch; None between launches.
    watch:  compares the states of the machine before equal parts of a launch.
    common: the parts of memories that the job shares with an earlier one of the same program.
    bases:  byte address in each memory at which the job's part begins.
    """

    def __init__(self, order: Order, cores: Sequence[Core]) -> None:
        self.order = order
        self.tenant = order.tenant
        self.runs: list[Run] = []
        self.launch: LaunchOnCore | None = None
        self.watch: PartWatch | None = None
        self._supply = order.repeat if isinstance(order.repeat, Supply) else Supply(order.repeat)
        if order.at < 0 or self._supply.left < 1:
            raise SimulationError(
                f"{order.executable.name}: at cycle {order.at}, {self._supply.left} times; "
                "may be from cycle 0 on, once or more"
            )
        self._linked = link(order.executable)
        self.size_bytes = self._linked.size_bytes
        self._cores = _chosen(order, cores)
        self.cores = frozenset(core.number for core in self._cores)
        places = (*order.executable.inputs, *order.executable.outputs)
        self.holds_scratchpad = any(place.tensor.space == Space.SCRATCHPAD for place in places)
        self._loaded: dict[tuple[int, int], Loaded] = {}
        for step in walk(order.executable.steps):
            self._load(step)
        self._check_data()
        self.bases: Mapping[Space, int] = {}
        self.common: Mapping[Space, Common] = {}
        self._env, self._clock = cores[0].env, cores[0].clock
        self._parts: list[Part] = []
        self._decisions: list[tuple[str, int]] = []
        self._whole: Spaces | None = None
        self._memories: dict[int, Memory] = {}

    @property
    def program(self) -> Program | None:
        """The program of a job that has only one; None if there are several or steps between them."""
        return self._linked.programs[0] if len(self._linked.programs) == 1 else None

    @cached_property
    def written_bytes(self) -> Mapping[Space, int]:
        """The address in each memory from which on the only program of the job writes nothing."""
        ends = dict.fromkeys(self.size_bytes, 0)
        ((number, _), loaded), *_ = self._loaded.items()
        program = self._linked.programs[number]
        calls = [place for call in program.host_calls for place in call.outputs]
        for place in (*program.inputs, *program.outputs, *program.states, *calls):
            if place.space in ends:
                ends[Space(place.space)] = max(ends[Space(place.space)], place.end)
        for cost in loaded.costs:
            for region, write in cost.dram:
                if write:
                    ends[region.space] = max(ends[region.space], region.rising.end)
        return ends

    def process(self) -> Generator[simpy.Event, Any, None]:
        """Run all repetitions of the job as a SimPy process."""
        order = self.order
        if order.at:
            yield self._env.timeout(order.at)
        self._bind()
        while self._supply.take():
            self._parts, self._decisions = [], []
            begin = int(self._env.now)
            yield from self._take(order.executable.steps)
            parts = tuple(self._parts)
            outputs, states = self._results()
            self.runs.append(
                Run(
                    parts[0].start_cycle if parts else begin,
                    parts[-1].end_cycle if parts else begin,
                    parts,
                    tuple(self._decisions),
                    outputs,
                    states,
                )
            )

    # Before anything runs.

    def _load(self, step: Step) -> None:
        """Decode and check the program of a step for its core, if not done before."""
        number = self._number(step)
        if step.core >= len(self._cores):
            raise SimulationError(
                f"{self.order.executable.name}: runs on core {step.core}, there are {len(self._cores)}"
            )
        key = number, step.core
        if key not in self._loaded:
            self._loaded[key] = load(self._linked.programs[number], self._cores[step.core].hardware)

    def _number(self, step: Step) -> int:
        """Return the index of a step's program: a compiled one, or the glue code of a transfer or decision."""
        return step.program if isinstance(step, Launch) else self._linked.glue[step]

    def _check_data(self) -> None:
        """Raise SimulationError for data of a wrong shape or type and for decisions with unknown names."""
        executable, bindings = self.order.executable, self.order.bindings
        if bindings is not None:
            check_values("input", [place.tensor for place in executable.inputs], bindings.inputs)
            if bindings.states is not None:
                check_values("state", [place.tensor for place in executable.states], bindings.states)
        known = executable.decisions
        for name in self.order.decisions:
            if name not in known:
                near = nearest(name, known)
                hint = f'did you mean "{near}"?' if near else f"there are: {', '.join(known) or 'none'}"
                raise SimulationError(f'{executable.name}: nothing named "{name}" is decided, {hint}')

    # Data.

    def _bind(self) -> None:
        """Allocate the job's memories, map each program's memories onto them and store inputs and states."""
        bindings, executable, linked = self.order.bindings, self.order.executable, self._linked
        if bindings is None:
            return
        whole = {space: np.zeros(size_bytes, np.uint8) for space, size_bytes in linked.size_bytes.items()}
        ((own_space, own),) = linked.bases[OWN].items()
        whole[own_space][own : own + len(executable.values)] = np.frombuffer(executable.values, np.uint8)
        self._whole = Spaces({Space.SCRATCHPAD: self._cores[0].scratchpad, **whole})
        of_glue: Mapping[str, HostFunction] = {DECISION: lambda *_: (), HANDOVER: lambda *_: ()}
        glue = set(linked.glue.values())
        for number, program in enumerate(linked.programs):
            bases = linked.base(number)
            windows = {
                space: content[bases.get(space, 0) :][: program.memory_bytes(space)]
                for space, content in whole.items()
            }
            functions = of_glue if number in glue else bindings.host_functions
            self._memories[number] = memory_of(program, functions, windows)
        places = (*executable.inputs, *executable.states)
        for place, value in zip(places, (*bindings.inputs, *(bindings.states or ())), strict=False):
            if value is not None:
                self._whole.store(self._absolute(place), value)

    def _absolute(self, place: Place) -> Placement:
        """Return the placement of a tensor in the job's memories instead of its program's."""
        tensor = place.tensor
        return Placement(tensor.name, tensor.type, self._linked.address(place), tensor.space)

    def _results(self) -> tuple[tuple[Array, ...] | None, tuple[Array, ...]]:
        """Return the outputs and the states of a run; None and () without data."""
        if self._whole is None:
            return None, ()
        executable = self.order.executable
        outputs = self._whole.load_each([self._absolute(place) for place in executable.outputs])
        return outputs, tuple(self._whole.load(self._absolute(place)) for place in executable.states)

    # Steps.

    def _take(self, steps: Sequence[Step]) -> Generator[simpy.Event, Any, None]:
        """Run steps one after the other, following the branches of IF steps."""
        for step in steps:
            if isinstance(step, While):
                yield from self._loop(step)
                continue
            yield from self._launch(step)
            if isinstance(step, If):
                holds = self._holds(step, 0)
                self._decisions.append((step.name, int(holds)))
                yield from self._take(step.then if holds else step.otherwise)

    def _loop(self, step: While) -> Generator[simpy.Event, Any, None]:
        """Run a WHILE loop: test, decide, body. Raises SimulationError after too many iterations."""
        iterations, most = 0, self.order.most_turns
        while True:
            yield from self._take(step.test)
            yield from self._launch(step)
            if not self._holds(step, iterations):
                break
            if iterations == most:
                raise SimulationError(
                    f'{self.order.executable.name}: "{step.name}" still goes on after {most} iterations'
                )
            yield from self._take(step.body)
            iterations += 1
        self._decisions.append((step.name, iterations))

    def _holds(self, step: If | While, iterations: int) -> bool:
        """Return whether the condition of a step holds after a number of loop iterations (0 for an IF).

        Without data the answer comes from the order's `decisions`. Raises SimulationError if the name is missing.
        """
        if self._whole is not None:
            return bool(self._whole.bytes_of(self._absolute(step.condition))[0])
        decision = self.order.decisions.get(step.name)
        if decision is None:
            expected = "1 or 0" if isinstance(step, If) else "its number of iterations"
            raise SimulationError(
                f'{self.order.executable.name}: what "{step.name}" decides depends on data; '
                f"without data, decisions must say it: {expected}"
            )
        return decision > iterations

    def _launch(self, step: Step) -> Generator[simpy.Event, Any, None]:
        """Wait for the core of a step, run the step's program on it and record the launch."""
        number, core = self._number(step), self._cores[step.core]
        asked = int(self._env.now)
        with core.free.request() as lock:
            yield lock
            start = int(self._env.now)
            memory = self._memories.get(number)
            if memory is not None:
                memory.spaces[Space.SCRATCHPAD] = core.scratchpad
            loaded = self._loaded[number, step.core]
            windows = self._linked.base(number)
            bases = {space: base + windows.get(space, 0) for space, base in self.bases.items()}
            if core.clock is not None:
                yield core.clock.edge()
            launch = self.launch = core.launch(
                loaded, memory, self.order.progress, bases, self.watch, self.common
            )
            yield launch.done
            if self._clock is not None:
                yield self._clock.edge()
        time = self._time(core, launch.begin, start)
        self._parts.append(
            Part(step, loaded.program, core.number, asked, start, launch.result(), time, bases)
        )
        self.launch = None

    def _time(self, core: Core, begin: int, start: int) -> CoreTime:
        """Return the time conversion of a launch.

        begin: the core cycle in which it starts.
        start: the system cycle in which it got the core.
        """
        if core.clock is None or self._clock is None:
            return CoreTime()
        ratio = Fraction(core.clock.ticks, self._clock.ticks)
        return CoreTime(begin * ratio - start, ratio)


def _chosen(order: Order, cores: Sequence[Core]) -> tuple[Core, ...]:
    """Return the system's core for each core that the executable names. Raises SimulationError for unknown cores."""
    numbers = range(len(cores)) if order.cores is None else order.cores
    for number in numbers:
        if not 0 <= number < len(cores):
            raise SimulationError(f"core {number} does not exist; the system has 0..{len(cores) - 1}")
    return tuple(cores[number] for number in numbers)
