"""The timed model of a core: a front end, units that each run their instructions in order, and the scratchpad's banks.

All waiting is modelled here. What an instruction computes and how long it occupies its unit is defined with the
instruction (`execute`, `cost`). One loop serves every unit.

Time is counted in whole cycles of the core's clock. If the system has several clocks (`npusim.machine.clock`), events
of a memory port or of the shared host take effect at the core's next edge. The SimPy environment and the memory ports
belong to the system (`npusim.machine.system`), which also decides what a core runs and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import PortTiming
from npusim.isa.hardware.units import PRODUCERS, UNIT_NAMES, Unit
from npusim.isa.instructions.actions import port_actions
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.memory import Memory
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.instructions.table import cannot_change, decode_all
from npusim.isa.instructions.word import WORD_BYTES
from npusim.isa.program.program import Program
from npusim.isa.program.validate import validate
from npusim.machine.banks import BankPorts
from npusim.machine.clock import Clock
from npusim.machine.pacing import pace
from npusim.machine.port import MemoryPort
from npusim.machine.request import UNPACED, Pace, Requester
from npusim.machine.trace import INSTRUCTION_FETCH, OTHER_CORE, Execution, Record, Transfers

if TYPE_CHECKING:
    from npusim.machine.effects import Effects

Progress = Callable[[int, int], None]
_PROGRESS_STEP = 64

_ENOUGH = 12
"""Number of queued or running instructions at which data transfers get precedence over fetches at the memory port.

The value was measured with rising `queue_depth` and `fetch_instructions`, for 8 networks on 6 presets. A larger queue
or buffer should never be slower. If fetches always go first, they delay the data of queued instructions: 34 steps lost
up to 4.3 %. If they always go last, instructions come too late: up to 11 % slower. With 12, no step loses more than
0.7 %; with 8, three steps lose up to 2.3 %. Of 4, 6, 8, 10 and 12, 12 is the fastest.
"""


class Loaded(NamedTuple):
    """A program that is ready to run on a core: decoded, checked, with the cost of each instruction on its hardware."""

    program: Program
    context: Context
    instructions: list[Instruction]
    costs: list[Cost]


class Common(NamedTuple):
    """The part of a memory that a program only reads, and that jobs with the same program have in common.

    address: the program's address from which on it writes nothing.
    base:    byte address in the memory from which the program's addresses count there.
    """

    address: int
    base: int


_CHECKED = IdentityCache[tuple[Hardware, list[Cost]]]()
"""Hardware and costs of programs whose instructions were checked."""


def load(program: Program, hardware: Hardware) -> Loaded:
    """Decode and check a program. Raises ProgramError for one that breaks a rule of the instruction set.

    Further runs of a program whose code cannot change check only its tables: the rest takes as long as its events.
    """
    instructions, context = decode_all(program.code), Context(hardware, program.host_calls)
    checked_for, costs = _CHECKED.get(program) or (None, [])
    if checked_for is hardware:
        validate(program, ())
        return Loaded(program, context, instructions, costs)
    validate(program, instructions)
    costs = [instruction.cost(context) for instruction in instructions]
    if cannot_change(program.code):
        _CHECKED.put(program, (hardware, costs))
    return Loaded(program, context, instructions, costs)


class Watch(Protocol):
    """An observer of a launch. It sees the machine at each gap in the code, and may extend what the launch records."""

    def see(self, launch: Launch, position: int) -> None:
        """Look at the machine before the fetch of the instruction behind a gap."""

    def whole(self, record: Record) -> Record:
        """Return the record of the whole run."""


class Core:
    """One NPU of a system. It runs one program at a time.

    number: index of the core in the system, from 0.
    free:   the lock that a launch holds while it runs; launches get it in the order in which they request it.
    shared: locks of the units that belong to the system, such as the host.
    clock:  the core's clock, which is then also `env`; None if all clocks of the system are equal.
    """

    def __init__(
        self,
        env: simpy.Environment,
        ports: Mapping[Space, MemoryPort],
        hardware: Hardware,
        number: int = 0,
        shared: Mapping[Unit, simpy.Resource] = MappingProxyType({}),
        clock: Clock | None = None,
    ) -> None:
        self.env = env
        self.clock = clock
        self.ports = ports
        self.hardware = hardware
        self.number = number
        self.free = simpy.Resource(env)
        self.shared = shared

    @cached_property
    def timings(self) -> Mapping[Space, PortTiming]:
        """The timing of each memory's port, in cycles of this core."""
        return {space: self.hardware.port_timing(space) for space in self.ports}

    @cached_property
    def scratchpad(self) -> NDArray[np.uint8]:
        """The content of the scratchpad in runs with data. It stays from one launch to the next."""
        return np.zeros(self.hardware.scratchpad_bytes, np.uint8)

    def launch(
        self,
        loaded: Loaded,
        memory: Memory | None = None,
        progress: Progress | None = None,
        bases: Mapping[Space, int] = MappingProxyType({}),
        watch: Watch | None = None,
        common: Mapping[Space, Common] = MappingProxyType({}),
    ) -> Launch:
        """Start a program at its first instruction. The event `Launch.done` fires when all of it is complete.

        bases: byte address in each memory from which the program's addresses count; must be the start of a row.
               0 if none is given. The run time does not depend on it.
        watch: compares the states of the machine before equal parts of the program.
        common: the parts of memories that the program shares with other jobs.
        """
        return Launch(self, loaded, memory, progress, bases, watch, common)


class Launch:
    """One run of a program on a core. Completions, cycles and addresses count from the start of the launch.

    done:      the event that fires when the last instruction completes.
    processes: those of the launch, by the name of their unit, or "fetch" and "dispatch".
    """

    def __init__(
        self,
        core: Core,
        loaded: Loaded,
        memory: Memory | None,
        progress: Progress | None,
        bases: Mapping[Space, int],
        watch: Watch | None = None,
        common: Mapping[Space, Common] = MappingProxyType({}),
    ) -> None:
        self.core = core
        self.watch = watch
        self.processes: dict[str, simpy.Process] = {}
        self.env, self.ports, self.hardware, self.clock = core.env, core.ports, core.hardware, core.clock
        self.program, context, self.instructions, self.costs = loaded
        self.effects: Effects | None = None
        if memory is not None:
            from npusim.machine.effects import Effects  # not at the top: timing alone needs none

            self.effects = Effects(self.program, context, self.instructions, memory)
        self.progress = progress
        self.done = self.env.event()
        self.begin = int(self.env.now)
        self.transfers_before = {space: len(port.log) for space, port in self.ports.items()}
        self.common = common
        self.code_space = Space(self.program.code_space)
        own = {space: bases.get(space, 0) for space in self.ports}
        self.requesters = self._requesters(own)
        self.common_requesters = self._requesters({space: part.base for space, part in common.items()})
        code = common.get(self.code_space)
        code_base = own[self.code_space] if code is None else code.base
        self.fetcher = Requester(core.number, INSTRUCTION_FETCH, self._row(self.code_space, code_base))
        self.queues: dict[Unit, deque[int]] = {unit: deque() for unit in PRODUCERS}
        self.current: dict[Unit, int] = {}
        self.completions: dict[Unit, int] = dict.fromkeys(PRODUCERS, 0)
        self.completed = 0
        self.arrived: dict[Unit, simpy.Event] = {}
        self.room: dict[Unit, simpy.Event] = {}
        self.gates: dict[Unit, list[tuple[int, simpy.Event]]] = {unit: [] for unit in PRODUCERS}
        count = len(self.instructions)
        units = [each.unit for each in self.instructions]
        self.units = np.array(units, np.int8)
        self.banks = BankPorts(self.env, context, self.instructions, units, self.costs)
        self.dispatched, self.at_head, self.ready, self.started, self.ended = (
            np.full(count, -1, np.int64) for _ in range(5)
        )
        self.blocked_by = np.full(count, -1, np.int8)
        self.fetched: deque[int] = deque()
        self.fetch_done = self.env.event()
        self.fetch_room = self.env.event()
        self.next_dispatch = 0
        # Action counts per layer. The last entry counts the front end's own actions.
        self.accounts: list[dict[str, int]] = [{} for _ in range(len(self.program.layers) + 1)]
        self._begin(set(units) - {Unit.FRONT_END})

    def _row(self, space: Space, base: int) -> int:
        """Return the row of a memory in which a byte address lies."""
        return base // self.ports[space].timing.row_bytes

    def _requesters(self, bases: Mapping[Space, int]) -> Mapping[Space, Sequence[Requester]]:
        """Return the requester of each unit at each memory in which addresses count from a base."""
        return {
            space: [Requester(self.core.number, name, self._row(space, base)) for name in UNIT_NAMES.values()]
            for space, base in bases.items()
        }

    def _requester(self, region: Region, unit: Unit) -> Requester:
        """Return the requester of a unit's transfer, with the row from which its addresses count."""
        common = self.common.get(region.space)
        if common is not None and region.rising.address >= common.address:
            return self.common_requesters[region.space][unit]
        return self.requesters[region.space][unit]

    def _begin(self, units: set[Unit]) -> None:
        if not self.instructions:
            self.done.succeed()
            return
        self.processes["fetch"] = self.env.process(self._fetch())
        self.processes["dispatch"] = self.env.process(self._dispatch())
        for unit in sorted(units):
            self.processes[UNIT_NAMES[unit]] = self.env.process(self._unit(unit))

    # Front end: fetch, decode and dispatch in program order.

    def _fetch(self) -> Generator[simpy.Event, Any, None]:
        """Fetch instructions in program order, as long as the fetch buffer has room for one more.

        The buffer holds instructions that are requested but not yet dispatched. Each is usable one memory latency
        after its last burst. A burst that two instructions share is read once. Where the code has a gap, its address
        behind the gap is known when the barrier in front of it has arrived.
        """
        most = self.hardware.front_end.fetch_instructions
        space, port = self.code_space, self.ports[self.code_space]
        got = end = self.program.code_address
        lands, segments = 0, self.program.code_segments
        for index in range(len(self.instructions)):
            if index and index in segments:
                yield self.env.timeout(max(lands - int(self.env.now), 0))
                if self.watch is not None:
                    self.watch.see(self, index)
                got = end = segments[index]
            while index - self.next_dispatch >= most:
                self.fetch_room = self.env.event()
                yield self.fetch_room
            end += WORD_BYTES
            if end > got:
                region = dense(space, got, end - got)
                yield port.access(
                    self.fetcher, region, False, self.accounts[-1], urgent=self._short_of_instructions
                )
                got = -(-end // port.timing.burst_bytes) * port.timing.burst_bytes
                lands = int(port.env.now) + port.timing.latency_cycles
                if self.clock is not None and port.clock is not None:
                    lands = self.clock.of(lands, port.clock)
            self.fetched.append(lands)
            if not self.fetch_done.triggered:
                self.fetch_done.succeed()

    def _short_of_instructions(self) -> bool:
        """Return whether so few instructions are queued or running that units may soon run out of them."""
        return self.next_dispatch - self.completed < _ENOUGH

    def _dispatch(self) -> Generator[simpy.Event, Any, None]:
        """Decode fetched instructions in program order and append each to the queue of its unit."""
        decode = self.hardware.front_end.decode_cycles
        depth = self.hardware.front_end.queue_depth
        for index, instruction in enumerate(self.instructions):
            if not self.fetched:
                self.fetch_done = self.env.event()
                yield self.fetch_done
            if self.clock is not None:
                yield self.clock.edge()
            wait = max(self.fetched.popleft() - int(self.env.now), 0) + decode
            if wait:
                yield self.env.timeout(wait)
            unit = instruction.unit
            if unit is Unit.FRONT_END:
                yield from self._barrier(index)
            else:
                while len(self.queues[unit]) >= depth:
                    self.room[unit] = self.env.event()
                    yield self.room[unit]
                self.dispatched[index] = self.env.now
                self.queues[unit].append(index)
                waiting = self.arrived.pop(unit, None)
                if waiting is not None:
                    waiting.succeed()
            self.next_dispatch += 1
            if not self.fetch_room.triggered:
                self.fetch_room.succeed()

    def _barrier(self, index: int) -> Generator[simpy.Event, Any, None]:
        """Run an instruction of the front end itself, which stops dispatch until its waits are satisfied."""
        self.dispatched[index] = self.at_head[index] = self.env.now
        yield from self._await(index)
        self.ready[index] = self.started[index] = self.env.now
        if self.costs[index].cycles:
            yield self.env.timeout(self.costs[index].cycles)
        self.ended[index] = self.env.now
        self._count()

    # Units.

    def _unit(self, unit: Unit) -> Generator[simpy.Event, Any, None]:
        """Run the instructions of one unit in order.

        For each: wait for other units, acquire bank ports, read operands, be busy, write results, signal completion.
        Operands are read at the start and results written at the end, so that a missing wait gives wrong bytes.
        """
        env, queue, shared = self.env, self.queues[unit], self.core.shared.get(unit)
        while True:
            if not queue:
                self.arrived[unit] = env.event()
                yield self.arrived[unit]
            index = queue.popleft()
            self.current[unit] = index
            room = self.room.pop(unit, None)
            if room is not None:
                room.succeed()
            self.at_head[index] = env.now
            yield from self._await(index)
            self.ready[index] = env.now
            ports = self.banks.ask(unit)
            if ports is not None:
                yield ports
            if shared is not None:
                lock = shared.request()
                yield lock
                if self.clock is not None:
                    yield self.clock.edge()
            self.started[index] = env.now
            if self.effects is not None:
                self.effects.start(index)
            cost = self.costs[index]
            if cost.dram:
                for leg in cost.legs or (cost,):
                    yield from self._stream(unit, leg, self.accounts[self.program.layer_of[index]])
            elif cost.cycles:
                yield env.timeout(cost.cycles)
            if self.effects is not None:
                self.effects.end(index)
            self.ended[index] = env.now
            del self.current[unit]
            self.banks.release(unit)
            if shared is not None:
                shared.release(lock)
            self._complete(unit)
            self._count()

    def _await(self, index: int) -> Generator[simpy.Event, Any, None]:
        """Wait until every unit named in an instruction's waits has completed that many instructions."""
        for number, count in self.instructions[index].waits:
            producer = PRODUCERS[number]
            if self.completions[producer] < count:
                gate = self.env.event()
                self.gates[producer].append((count, gate))
                yield gate
                self.blocked_by[index] = producer

    def _stream(self, unit: Unit, cost: Cost, account: dict[str, int]) -> Generator[simpy.Event, Any, None]:
        """Run a DMA transfer: setup, then the grants at the memory ports, ending no sooner than the scratchpad side.

        Data is passed on burst by burst (cut-through). A read reaches its destination one memory latency after its
        last grant, if the scratchpad side keeps up (`npusim.machine.pacing`). A copy between two memories behind
        ports reads everything before it writes.
        """
        env = self.env
        begin = int(env.now)
        yield env.timeout(cost.setup_cycles)
        for region, write in cost.dram:
            port, requester = self.ports[region.space], self._requester(region, unit)
            landed = yield port.access(
                requester, region, write, account, self._pace(cost, region, write, begin)
            )
            arrival = 0 if write else max(port.timing.latency_cycles, landed - int(port.env.now))
            if self.clock is not None:
                yield self.clock.after(arrival, port.clock)
            elif not write:
                yield env.timeout(arrival)
        rest = 0 if cost.beats else begin + cost.cycles - int(env.now)
        if rest > 0:
            yield env.timeout(rest)

    def _pace(self, cost: Cost, region: Region, write: bool, begin: int) -> Pace:
        """Return the limits that the scratchpad side sets for a transfer's grants, in cycles of the memory port.

        begin: the core's cycle in which the transfer's setup started.
        """
        if cost.beats is None:
            return UNPACED
        port = self.ports[region.space]
        asked = pace(region, write, cost.beats, cost.setup_cycles, self.core.timings[region.space])
        return asked.begun(begin, self.clock, port.clock)

    def _complete(self, unit: Unit) -> None:
        """Count a completion of a unit and wake the instructions that waited for it."""
        completed = self.completions[unit] = self.completions[unit] + 1
        gates = self.gates[unit]
        if gates:
            open_now = [gate for gate in gates if gate[0] <= completed]
            if open_now:
                self.gates[unit] = [gate for gate in gates if gate[0] > completed]
                for _, event in open_now:
                    event.succeed()

    def _count(self) -> None:
        """Count a completed instruction of the program. End the launch after the last one."""
        self.completed += 1
        if self.next_dispatch - self.completed == _ENOUGH - 1:
            self.ports[self.code_space].hurry()
        if self.completed == len(self.instructions):
            self.done.succeed()
        if self.progress is not None and self.completed % _PROGRESS_STEP == 0:
            self.progress(self.completed, len(self.instructions))

    # Results.

    def _transfers(self, parts: Sequence[Transfers]) -> Transfers:
        """Return the transfers at the memory ports during the launch, by start cycle, in cycles of the launch.

        Transfers of other cores are all named `OTHER_CORE`.
        """
        transfers = Transfers.joined(parts)
        if len(parts) > 1:
            transfers = transfers.where(np.argsort(transfers.started, kind="stable"))
        started, ended = transfers.started, transfers.ended
        port_clock = self.ports[self.code_space].clock
        if self.clock is not None and port_clock is not None:
            started, ended = (self.clock.cycles_of(column, port_clock) for column in (started, ended))
        return transfers.at(np.maximum(started - self.begin, 0), ended - self.begin).renamed(
            lambda source: source.requester if source.core == self.core.number else OTHER_CORE
        )

    def result(self) -> Execution:
        """Return the timeline and the counts of a launch that is done."""
        record = Record(
            self.units,
            (self.dispatched, self.at_head, self.ready, self.started, self.ended),
            self.blocked_by,
            self.costs,
            self.program.layer_of,
            self.accounts,
            [port.log.since(self.transfers_before[space]) for space, port in self.ports.items()],
        )
        if self.watch is not None:
            record = self.watch.whole(record)
        off_chip = [
            port_actions(self.hardware, space) for space in self.ports if self.hardware.off_chip(space)
        ]
        return record.execution(self.begin, self._transfers(record.transfers), off_chip)
