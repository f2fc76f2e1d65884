"""A core: a front end, units that each run their own instructions in order, and the scratchpad's banks.

All waiting happens here; what an instruction does and occupies is its row's business (`execute`, `cost`).
One loop serves every unit. Time is counted in whole cycles of the core's clock; where that is not everybody's
(`npusim.machine.clock`), what comes from a port or from the shared host is taken at the core's next edge. The
environment and the ports of the memories belong to the system (`npusim.machine.system`), which also says what a core
runs, and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from npusim.isa.base.errors import OperandFault, SimulationError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import PortTiming
from npusim.isa.hardware.units import PRODUCERS, UNIT_NAMES, Unit
from npusim.isa.instructions.actions import port_actions
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.memory import Memory, Write, commit
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.word import WORD_BYTES
from npusim.isa.program.program import Program
from npusim.isa.program.validate import validate
from npusim.machine.banks import BankPorts
from npusim.machine.clock import Clock
from npusim.machine.pacing import pace
from npusim.machine.port import UNPACED, MemoryPort, Pace, Requester
from npusim.machine.trace import INSTRUCTION_FETCH, OTHER_CORE, Execution, Trace, Transfer

Progress = Callable[[int, int], None]
_PROGRESS_STEP = 64

_ENOUGH = 12
"""Instructions that are queued or running from which on data goes before further ones at the port.

While fetches always went first, they delayed the data of what was queued, and on ladders of `queue_depth` and
`fetch_instructions` (8 networks on 6 presets) 34 steps lost up to 4.3 %; always last, they came too late, up to 11 %
slower. With 12 no step loses over 0.7 %, with 8 three lose up to 2.3 %; of 4, 6, 8, 10 and 12, 12 is the fastest.
"""


class Loaded(NamedTuple):
    """A program as a core runs it: decoded, checked, and what each instruction costs on the core's hardware."""

    program: Program
    context: Context
    instructions: list[Instruction]
    costs: list[Cost]


def load(program: Program, hardware: Hardware) -> Loaded:
    """Decode and check a program. Raises ProgramError for one that breaks a rule of the instruction set."""
    instructions = decode_all(program.code)
    validate(program, instructions)
    context = Context(hardware, program.host_calls)
    return Loaded(program, context, instructions, [each.cost(context) for each in instructions])


class Core:
    """One NPU of a system: it runs one program at a time.

    number: its place in the system, from 0.
    free:   who may run a program; launches take turns in the order in which they ask.
    shared: of the units that belong to the system and not to the core, who may use them.
    clock:  the core's, which `env` is then; None where all clocks of the system are equal.
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
        """The ports of the memories in cycles of the core."""
        return {space: self.hardware.port_timing(space) for space in self.ports}

    @cached_property
    def scratchpad(self) -> NDArray[np.uint8]:
        """Its bytes, where programs are executed with data; they stay from one launch to the next."""
        return np.zeros(self.hardware.scratchpad_bytes, np.uint8)

    def launch(
        self,
        loaded: Loaded,
        memory: Memory | None = None,
        progress: Progress | None = None,
        bases: Mapping[Space, int] = MappingProxyType({}),
    ) -> Launch:
        """Begin to run a program, from its first instruction on; `Launch.done` says when all of it is complete.

        bases: the address of each memory that the program's addresses count from, the beginning of a row; 0 where
               none is given. Time does not depend on which.
        """
        return Launch(self, loaded, memory, progress, bases)


class Launch:
    """One run of a program on a core. Completions, cycles and addresses count from its own beginning.

    done: the event of its last completion.
    """

    def __init__(
        self,
        core: Core,
        loaded: Loaded,
        memory: Memory | None,
        progress: Progress | None,
        bases: Mapping[Space, int],
    ) -> None:
        self.core = core
        self.env, self.ports, self.hardware, self.clock = core.env, core.ports, core.hardware, core.clock
        self.program, context, self.instructions, self.costs = loaded
        self.memory = memory
        self.progress = progress
        self.done = self.env.event()
        self.begin = int(self.env.now)
        self.transfers_before = {space: len(port.transfers) for space, port in self.ports.items()}
        rows = {space: bases.get(space, 0) // port.timing.row_bytes for space, port in self.ports.items()}
        self.requesters = {
            space: [Requester(core.number, name, row) for name in UNIT_NAMES.values()]
            for space, row in rows.items()
        }
        self.code_space = Space(self.program.code_space)
        self.fetcher = Requester(core.number, INSTRUCTION_FETCH, rows[self.code_space])
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
        # Action counts per layer; the last entry is the front end's own.
        self.accounts: list[dict[str, int]] = [{} for _ in range(len(self.program.layers) + 1)]
        self._begin(set(units) - {Unit.FRONT_END})

    def _begin(self, units: set[Unit]) -> None:
        if not self.instructions:
            self.done.succeed()
            return
        self.env.process(self._fetch())
        self.env.process(self._dispatch())
        for unit in sorted(units):
            self.env.process(self._unit(unit))

    # Front end: fetch, decode and dispatch in program order.

    def _fetch(self) -> Generator[simpy.Event, Any, None]:
        """Ask for one instruction after the other, while fewer than the buffer holds are asked for and not dispatched.

        Each is usable one latency after its last burst; a burst that two share is read once.
        """
        most = self.hardware.front_end.fetch_instructions
        space, port = self.code_space, self.ports[self.code_space]
        got = end = self.program.code_address
        lands = 0
        for index in range(len(self.instructions)):
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
                lands = self._own(int(port.env.now) + port.timing.latency_cycles, space)
            self.fetched.append(lands)
            if not self.fetch_done.triggered:
                self.fetch_done.succeed()

    def _short_of_instructions(self) -> bool:
        """Whether so few instructions wait in queues or run that units may soon have none."""
        return self.next_dispatch - self.completed < _ENOUGH

    def _dispatch(self) -> Generator[simpy.Event, Any, None]:
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
        self.dispatched[index] = self.at_head[index] = self.env.now
        yield from self._await(index)
        self.ready[index] = self.started[index] = self.env.now
        if self.costs[index].cycles:
            yield self.env.timeout(self.costs[index].cycles)
        self.ended[index] = self.env.now
        self._count(index)

    # Units.

    def _unit(self, unit: Unit) -> Generator[simpy.Event, Any, None]:
        """Take instructions from the queue; wait, get ports, read, be busy, write, count."""
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
                turn = shared.request()
                yield turn
                if self.clock is not None:
                    yield self.clock.edge()
            self.started[index] = env.now
            writes = None if self.memory is None else self._execute(index, self.memory)
            cost = self.costs[index]
            if cost.dram:
                for leg in cost.legs or (cost,):
                    yield from self._stream(unit, leg, self.accounts[self.program.layer_of[index]])
            elif cost.cycles:
                yield env.timeout(cost.cycles)
            if writes is not None:
                commit(writes)
            self.ended[index] = env.now
            del self.current[unit]
            self.banks.release(unit)
            if shared is not None:
                shared.release(turn)
            self._complete(unit)
            self._count(index)

    def _execute(self, index: int, memory: Memory) -> list[Write]:
        """What an instruction will write. Raises SimulationError, with its layer, for operands that make no sense."""
        try:
            return self.instructions[index].execute(memory)
        except OperandFault as fault:
            raise SimulationError(f"{self.program.layer_name(index)}: {fault}") from None

    def _await(self, index: int) -> Generator[simpy.Event, Any, None]:
        """Until every unit has completed as many instructions as the waits say."""
        for number, count in self.instructions[index].waits:
            producer = PRODUCERS[number]
            if self.completions[producer] < count:
                gate = self.env.event()
                self.gates[producer].append((count, gate))
                yield gate
                self.blocked_by[index] = producer

    def _stream(self, unit: Unit, cost: Cost, account: dict[str, int]) -> Generator[simpy.Event, Any, None]:
        """Set up, pass the ports of the memories, and end no sooner than the scratchpad side does.

        Data is cut through, burst by burst: reads reach their destination one latency of the memory after their last
        grant if the scratchpad side keeps up (`npusim.machine.pacing`); a copy with a port on both sides reads
        everything before it writes.
        """
        env = self.env
        begin = int(env.now)
        yield env.timeout(cost.setup_cycles)
        for region, write in cost.dram:
            port, requester = self.ports[region.space], self.requesters[region.space][unit]
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
        """What the scratchpad side of a transfer that began in cycle `begin` asks of the other side, in its cycles."""
        if cost.beats is None:
            return UNPACED
        port = self.ports[region.space]
        asked = pace(region, write, cost.beats, cost.setup_cycles, self.core.timings[region.space])
        if asked.not_before is not None:
            asked = Pace(not_before=[begin + cycles for cycles in asked.not_before])
        if self.clock is None or port.clock is None:
            return asked
        of_port, mine = port.clock.of, self.clock
        return Pace(*(column and [of_port(cycles, mine) for cycles in column] for column in asked))

    def _complete(self, unit: Unit) -> None:
        completed = self.completions[unit] = self.completions[unit] + 1
        gates = self.gates[unit]
        if gates:
            open_now = [gate for gate in gates if gate[0] <= completed]
            if open_now:
                self.gates[unit] = [gate for gate in gates if gate[0] > completed]
                for _, event in open_now:
                    event.succeed()

    def _count(self, index: int) -> None:
        self.completed += 1
        if self.next_dispatch - self.completed == _ENOUGH - 1:
            self.ports[self.code_space].hurry()
        if self.completed == len(self.instructions):
            self.done.succeed()
        if self.progress is not None and self.completed % _PROGRESS_STEP == 0:
            self.progress(self.completed, len(self.instructions))

    # Results.

    def _name(self, index: int) -> str:
        layer = self.program.layer_name(index)
        return f'instruction {index} ({self.instructions[index].mnemonic}, layer "{layer}")'

    def deadlock(self) -> str:
        """Who waits for whom, when nothing happens any more and the launch is not done.

        Nobody waits for ports of a bank: who holds some ends.
        """
        found = []
        stuck = dict(self.current)
        front = self.next_dispatch
        if front < len(self.instructions):
            unit = self.instructions[front].unit
            if unit is Unit.FRONT_END:
                stuck[unit] = front
            else:
                queue = UNIT_NAMES[unit]
                found.append(f"the front end with {self._name(front)} waits for room in the queue of {queue}")
        for unit, index in stuck.items():
            for number, count in self.instructions[index].waits:
                producer = PRODUCERS[number]
                if self.completions[producer] < count:
                    found.append(
                        f"{UNIT_NAMES[unit]} with {self._name(index)} waits for {UNIT_NAMES[producer]} "
                        f"to complete {count} instructions, it has completed {self.completions[producer]}"
                    )
        left = len(self.instructions) - self.completed
        return f"{self.program.name}: deadlock with {left} instructions left: " + "; ".join(found)

    def _transfers(self) -> tuple[Transfer, ...]:
        """What passed the ports meanwhile, by the cycle in which it began, in times of the launch; of other cores only
        that something did.
        """
        transfers = [
            transfer
            for space, port in self.ports.items()
            for transfer in port.transfers[self.transfers_before[space] :]
        ]
        transfers.sort(key=lambda transfer: transfer.start_cycle)
        number, begin = self.core.number, self.begin
        if self.clock is None and not begin and all(transfer.core == number for transfer in transfers):
            return tuple(transfers)
        return tuple(
            replace(
                transfer,
                requester=transfer.requester if transfer.core == number else OTHER_CORE,
                start_cycle=max(self._own(transfer.start_cycle, transfer.space) - begin, 0),
                end_cycle=self._own(transfer.end_cycle, transfer.space) - begin,
            )
            for transfer in transfers
        )

    def _own(self, cycle: int, space: Space) -> int:
        """The core's cycle in which it sees what happens in a cycle of the port of a memory."""
        theirs = self.ports[space].clock
        return cycle if self.clock is None or theirs is None else self.clock.of(cycle, theirs)

    def result(self) -> Execution:
        """The timeline and the counts of a launch that is done; to be asked once."""
        for column in (self.dispatched, self.at_head, self.ready, self.started, self.ended):
            column -= self.begin
        trace = Trace(
            self.units,
            self.dispatched,
            self.at_head,
            self.ready,
            self.started,
            self.ended,
            self.blocked_by,
            np.minimum([cost.cycles for cost in self.costs], self.ended - self.started),
            self._transfers(),
        )
        data, (fetch,) = self.accounts[:-1], self.accounts[-1:]
        off_chip = [
            port_actions(self.hardware, space) for space in self.ports if self.hardware.off_chip(space)
        ]
        return Execution(
            None,
            int(self.ended.max(initial=0)),
            trace,
            self._layer_actions(),
            sum(account.get(at.read, 0) for account in data for at in off_chip),
            sum(account.get(at.write, 0) for account in data for at in off_chip),
            sum(fetch.get(at.read, 0) for at in off_chip),
        )

    def _layer_actions(self) -> tuple[dict[str, int], ...]:
        """Counts per layer: those of the memories, booked by their ports, and those of the instructions."""
        counts = self.accounts
        for layer, cost in zip(self.program.layer_of.tolist(), self.costs, strict=True):
            target = counts[layer]
            for name, number in cost.actions.items():
                target[name] = target.get(name, 0) + number
            target["instruction_issue"] = target.get("instruction_issue", 0) + 1
        return tuple(counts)
