"""The state of the machine while one program runs, in a form in which states of different times can be compared.

Two states are equal if the machine goes on equally from them, given that the instructions to come are equal: the same
events are pending at the same relative times, in the same order, for processes that are at the same point with the
same values. Times count from the present cycle, instructions from the next one to be fetched, and completions from
those of the instructions before it. Rows of memories are listed apart, because they differ by known steps.

A process is a generator. Its point is its last instruction, and its values are its local variables, whose roles the
tables below give. A variable that they do not name makes a state unknown, so that a process which gets a new variable
is never compared without it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from npusim.isa.hardware.units import Unit
from npusim.machine.banks import BankPorts, OpenRows
from npusim.machine.request import Request, Segment
from npusim.machine.turns import Opened, Turns

if TYPE_CHECKING:
    from npusim.machine.core import Launch
    from npusim.machine.port import MemoryPort


class Unknown(Exception):
    """Raised for a state that cannot be compared; its text says why."""


TIME, INSTRUCTION, VALUE, STRUCTURE, PLACE, OPENED, UNUSED = range(7)
"""Roles of variables: a cycle, the position of an instruction, a value that must be equal, a value of the simulation
with a form of its own, an element of the instruction's cost, a number of row activations, and a variable that is not
read any more or never changes."""

_ROLES: Mapping[str, Mapping[str, int]] = {
    "_dispatch": {
        "decode": UNUSED, "depth": UNUSED, "index": INSTRUCTION, "instruction": UNUSED, "wait": UNUSED,
        "unit": UNUSED, "waiting": UNUSED,
    },
    "_barrier": {"index": INSTRUCTION},
    "_unit": {
        "env": UNUSED, "queue": UNUSED, "shared": UNUSED, "unit": VALUE, "index": INSTRUCTION, "room": UNUSED,
        "ports": UNUSED, "cost": UNUSED, "leg": PLACE, "lock": UNUSED,
    },
    "_await": {"index": INSTRUCTION, "number": VALUE, "count": UNUSED, "producer": UNUSED, "gate": UNUSED},
    "_stream": {
        "unit": VALUE, "cost": UNUSED, "account": UNUSED, "env": UNUSED, "begin": TIME, "region": PLACE,
        "write": VALUE, "port": UNUSED, "requester": UNUSED, "landed": UNUSED, "arrival": UNUSED, "rest": UNUSED,
    },
    "_serve": {"env": UNUSED, "request": STRUCTURE},
    "_serve_channels": {"line": STRUCTURE, "served": VALUE, "others": STRUCTURE, "last": STRUCTURE, "request": UNUSED},
    "_serve_turns": {
        "line": STRUCTURE, "most": VALUE, "env": UNUSED, "start": TIME, "turns": STRUCTURE, "stop": VALUE,
    },
    "_serve_alone": {
        "request": STRUCTURE, "env": UNUSED, "before": OPENED, "start": TIME, "stop": VALUE, "rows": STRUCTURE,
        "passed": STRUCTURE,
    },
}  # fmt: skip


class State:
    """The state of a launch and of the machine around it, before the fetch of an instruction.

    position, completed: the instruction, and how many instructions of each unit precede it.
    end:     the instruction from which on those to come differ.
    cycle:   the present cycle.
    content: everything but rows; equal for equal states.
    rows:    the memory and the row of each mention of a row, in the order of `content`.

    Raises Unknown.
    """

    def __init__(self, launch: Launch, position: int, completed: Mapping[Unit, int], end: int) -> None:
        self._launch, self._position, self._completed, self._end = launch, position, completed, end
        self.cycle = int(launch.env.now)
        self.rows: list[tuple[int, int]] = []
        self._events: dict[int, int] = {}
        self._names = {id(process): name for name, process in launch.processes.items()}
        self._names |= {id(port.process): f"port {space}" for space, port in launch.ports.items()}
        queue = tuple(self._pending(entry) for entry in sorted(launch.env._queue) if entry[3].callbacks)
        self.content: tuple[Any, ...] = (
            queue,
            tuple(
                self._process(name, process) for name, process in launch.processes.items() if name != "fetch"
            ),
            self._of_launch(),
            self._of_banks(launch.banks),
            tuple(self._of_port(port) for port in launch.ports.values()),
        )

    # Events and processes.

    def _pending(self, entry: tuple[Any, ...]) -> tuple[Any, ...]:
        time, priority, _, event = entry
        called = []
        for callback in event.callbacks:
            of = getattr(callback, "__self__", None)
            name = self._names.get(id(of))
            if name is None and not isinstance(of, BankPorts):
                raise Unknown(f"an event calls {getattr(callback, '__qualname__', callback)}")
            called.append((name, callback.__name__))
        value = event._value
        if isinstance(value, int) and value:
            value = self._time(value)
        return int(time) - self.cycle, int(priority), self._event(event), tuple(called), value

    def _event(self, event: Any) -> tuple[Any, ...] | None:
        """Return the number of an event by first mention, and whether it has happened or is certain to."""
        if event is None:
            return None
        number = self._events.setdefault(id(event), len(self._events))
        return (
            number,
            type(event).__name__,
            event.triggered,
            *(getattr(event, name, None) for name in ("hastened", "priority")),
        )

    def _process(self, name: str, process: Any) -> tuple[Any, ...]:
        generator: Any = process._generator
        frames = []
        while isinstance(generator, Generator):
            frames.append(self._frame(generator))
            generator = generator.gi_yieldfrom  # type: ignore[attr-defined]
        return name, self._event(process._target), tuple(frames)

    def _frame(self, generator: Any) -> tuple[Any, ...]:
        name, frame = generator.gi_code.co_name, generator.gi_frame
        roles = _ROLES.get(name)
        if roles is None:
            raise Unknown(f"process {name} has no known variables")
        values: list[Any] = []
        streams = getattr(generator.gi_yieldfrom, "__name__", "") == "_stream"
        for variable, value in frame.f_locals.items():
            if variable == "self" or variable.startswith("."):
                continue
            role = roles.get(variable)
            if role is None:
                raise Unknown(f"variable {variable} of {name} has no known role")
            if variable == "leg" and not streams:
                continue  # of an earlier instruction
            if role != UNUSED:
                values.append((variable, self._value(role, value, frame.f_locals)))
        return name, frame.f_lasti, tuple(values)

    def _value(self, role: int, value: Any, variables: Mapping[str, Any]) -> Any:
        if role == TIME:
            return self._time(value)
        if role == INSTRUCTION:
            return value - self._position
        if role == STRUCTURE:
            return self._structure(value)
        if role == PLACE:
            return self._place(value, variables["cost"])
        if role == OPENED:
            return value - self._port._rows.opened
        return value

    def _place(self, value: Any, cost: Any) -> int:
        """Return which leg or region of a cost a loop is at. Raises Unknown if equal ones leave it open."""
        whole = [*(cost.legs or (cost,)), *(region for region, _ in cost.dram)]
        places = [place for place, each in enumerate(whole) if each is value]
        if len(places) != 1:
            raise Unknown("a transfer has the same leg or region twice")
        return places[0]

    # Values.

    def _time(self, cycle: int) -> int:
        return int(cycle) - self.cycle

    def _row(self, space: int, row: int) -> None:
        self.rows.append((space, row))

    def _structure(self, value: Any) -> Any:
        if isinstance(value, Request):
            return self._request(value) if value.next < len(value.rows) else None
        if isinstance(value, OpenRows):
            return self._open_rows(value)
        if isinstance(value, Turns):
            return self._turns(value)
        if isinstance(value, Segment):
            return value.first, value.stop, self._time(value.late)
        if isinstance(value, list):
            return tuple(map(self._structure, value))
        raise Unknown(f"a {type(value).__name__} has no known form")

    def _request(self, request: Request) -> tuple[Any, ...]:
        """Return where a transfer stands. What it transfers follows from the instruction that its channel runs."""
        if request.urgent is not None:
            raise Unknown("an instruction is being fetched")
        space = self._port.space
        self._row(space, request.first_row)
        came = request.order[0]
        limits = request.pace.not_before
        assert isinstance(came, int)
        return (
            request.requester.name,
            request.write,
            request.next,
            len(request.rows),
            self._time(request.landed) if request.landed else None,
            self._time(came) if came >= 0 else None,
            self._event(request.done),
            None if limits is None else (self._time(limits[0]), self._time(limits[-1])),
        )

    def _open_rows(self, rows: OpenRows) -> tuple[int, ...]:
        for row in rows.rows:
            self._row(self._port.space, row)
        opened = rows.opened - self._port._rows.opened
        return opened, *(max(self._time(cycle), 0) for cycle in rows.open_from)

    def _turns(self, turns: Turns) -> tuple[Any, ...]:
        repeated = turns.repeated
        rounds = repeated and (*repeated[:4], tuple(map(self._opened, repeated.opened)))
        return tuple(map(self._time, turns.ends)), tuple(map(self._opened, turns.opened)), rounds

    def _opened(self, opened: Opened) -> tuple[int, ...]:
        grant, bank, row, cycle, position = opened
        self._row(self._port.space, row)
        return grant, bank, self._time(cycle), position

    # Parts of the machine.

    def _of_launch(self) -> tuple[Any, ...]:
        launch, position = self._launch, self._position
        return (
            tuple(launch.completions[unit] - self._completed[unit] for unit in launch.completions),
            launch.completed - position,
            launch.next_dispatch - position,
            tuple(tuple(index - position for index in queue) for queue in launch.queues.values()),
            tuple(sorted((unit, index - position) for unit, index in launch.current.items())),
            tuple(sorted((unit, self._event(event)) for unit, event in launch.arrived.items())),
            tuple(sorted((unit, self._event(event)) for unit, event in launch.room.items())),
            tuple(
                tuple((count - self._completed[unit], self._event(event)) for count, event in gates)
                for unit, gates in launch.gates.items()
            ),
            tuple(max(self._time(lands), 0) for lands in launch.fetched),
            self._event(launch.fetch_done),
            self._event(launch.fetch_room),
        )

    def _of_banks(self, banks: BankPorts) -> tuple[Any, ...]:
        if banks._plenty:
            return ()  # every request is granted at once, and none is recorded
        position = self._position
        return (
            tuple(sorted((unit, index - position) for unit, index in banks._holders.items())),
            # An instruction behind the parts is not reached before them, wherever it is.
            tuple(
                (unit, index - position if 0 <= index < self._end else None)
                for unit, index in banks._coming.items()
            ),
            tuple((self._time(wish.since), wish.unit, self._event(wish.granted)) for wish in banks._waiting),
            banks._deciding,
            tuple(banks._most_done[unit] - number for unit, number in self._completed.items()),
        )

    def _of_port(self, port: MemoryPort) -> tuple[Any, ...]:
        self._port = port
        return (
            self._process("port", port.process),
            tuple(map(self._request, port._active)),
            tuple(map(self._request, port._fetches)),
            self._event(port._wake),
            port._alone,
            port._planned,
            port._passed,
            self._open_rows(port._rows),
        )
