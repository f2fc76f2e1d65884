"""Assignment of a model's operations to devices: by the order of the devices, one device for all, or simulated cost.

Operations are those of `npusim.scheduler.partition.pieces`; whoever asks knows what they are, why a device cannot do
one, and how some of them become the program of a device (`Task`). What moves nothing, such as a change of shape, goes
with its neighbour, so that it never parts what could be one piece.

Cost is what the machine says: of a candidate all programs, all copies between them and all handovers, on the system
that the devices share. The first candidate is the partition by order, so the result is never slower; it is always the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from npusim.frontends.nnadapter.nnadapter_errors import DeviceInternalError, FeatureNotSupported
from npusim.isa.base.errors import CompileError, ProgramError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable, Launch
from npusim.kernels.graph.graph import Tensor
from npusim.machine.system import System
from npusim.scheduler.partition.linked import Part, linked
from npusim.scheduler.partition.pieces import Operation, Piece, pieces, units

ORDER, SINGLE, COST = "order", "single", "cost"
MODES = (ORDER, COST, SINGLE)

MOST_TRIES = 48
"""Partitions that are timed by cost, beside that by order: 60 layers compile so often in a minute."""


@dataclass(frozen=True)
class Task:
    """A model that is to be cut.

    operations: in an order in which they can run.
    places:     what messages call each.
    devices:    their names, in order of preference.
    refusals:   of each operation, why a device cannot do it, by name; a device that can is not in it.
    moves_nothing: operations that go with a neighbour.
    together:   operations that one device must compute, such as those of a state.
    forced:     operations that only the device `cpu` may have.
    untimed:    devices, by number, that the machine does not time: cost moves nothing there, and nothing away.
    """

    name: str
    operations: Sequence[Operation]
    places: Sequence[str]
    devices: Sequence[str]
    refusals: Sequence[Mapping[str, str]]
    moves_nothing: frozenset[int] = frozenset()
    together: Sequence[Sequence[int]] = ()
    forced: frozenset[int] = frozenset()
    cpu: str = ""
    untimed: frozenset[int] = frozenset()

    @cached_property
    def units(self) -> tuple[tuple[int, ...], ...]:
        """Operations that one device computes in one piece."""
        return units(self.operations, self.together)

    @cached_property
    def able(self) -> tuple[tuple[int, ...], ...]:
        """The devices, by number, that can compute each unit, in their order. Raises FeatureNotSupported for none."""
        return tuple(self._able(unit) for unit in self.units)

    def may(self, number: int, device: str) -> bool:
        """Return whether a device may compute an operation."""
        if number in self.forced and device != self.cpu:
            return False
        return device not in self.refusals[number]

    def _able(self, unit: Sequence[int]) -> tuple[int, ...]:
        found = tuple(
            number
            for number, device in enumerate(self.devices)
            if all(self.may(operation, device) for operation in unit)
        )
        if not found:
            raise FeatureNotSupported(f"{self.name}: {self._nobody(unit)}")
        return found

    def _nobody(self, unit: Sequence[int]) -> str:
        """Return why no device can compute a unit: the first reason of each device."""
        reasons = []
        for device in self.devices:
            refused = next(operation for operation in unit if not self.may(operation, device))
            reason = self.refusals[refused].get(device, f"it is forced to {self.cpu}")
            where = f"{self.places[refused]}: " if len(unit) > 1 else ""
            reasons.append(f"{device}: {where}{reason}")
        what = self.places[unit[0]]
        if len(unit) > 1:
            what = f"{what} and {len(unit) - 1} more, which one device must compute as they share a state,"
            return f"{what} are supported by no device: {'; '.join(reasons)}"
        return f"{what} is supported by no device: {'; '.join(reasons)}"


Chosen = tuple[int, ...]
"""The device of each unit, by number."""


def by_order(task: Task) -> tuple[Piece, ...]:
    """The pieces where each operation goes to the first device that can have it. Raises FeatureNotSupported."""
    return cut(task, tuple(able[0] for able in task.able))


def single(task: Task) -> tuple[Piece, ...]:
    """The pieces where the first device that can has all but what is forced. Raises FeatureNotSupported."""
    left = [number for number in range(len(task.operations)) if number not in task.forced]
    for number, device in enumerate(task.devices):
        if all(device not in task.refusals[operation] for operation in left):
            chosen = [number if number in able else able[0] for able in task.able]
            return cut(task, tuple(chosen))
    reasons = []
    for device in task.devices:
        first = next(operation for operation in left if device in task.refusals[operation])
        reasons.append(f"{device}: {task.places[first]}: {task.refusals[first][device]}")
    raise FeatureNotSupported(f"{task.name}: no single device supports all operations: {'; '.join(reasons)}")


def cut(task: Task, chosen: Sequence[int]) -> tuple[Piece, ...]:
    """The pieces where each unit has a device; those that move nothing go with their neighbours."""
    settled = _settled(task, chosen)
    devices = [0] * len(task.operations)
    for unit, device in zip(task.units, settled, strict=True):
        for number in unit:
            devices[number] = device
    return pieces(task.operations, devices, task.units)


def _settled(task: Task, chosen: Sequence[int]) -> Chosen:
    """The devices of all units: one that moves nothing has that of who gives it something, else of who takes it."""
    free = {
        number
        for number, unit in enumerate(task.units)
        if task.moves_nothing.issuperset(unit) and not task.forced.intersection(unit)
    }
    found = {number: device for number, device in enumerate(chosen) if number not in free}
    givers, takers = _neighbours(task)
    for near, order in ((givers, range(len(chosen))), (takers, range(len(chosen) - 1, -1, -1))):
        for number in order:
            if number not in found:
                devices = [found[other] for other in near[number] if other in found]
                fitting = [device for device in devices if device in task.able[number]]
                found |= {number: fitting[0]} if fitting else {}
    return tuple(found.get(number, chosen[number]) for number in range(len(chosen)))


def _neighbours(task: Task) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each unit the units that it reads from, and those that read from it."""
    unit_of = {operation: number for number, unit in enumerate(task.units) for operation in unit}
    writer = {
        tensor: unit_of[number] for number, each in enumerate(task.operations) for tensor in each.outputs
    }
    givers: list[list[int]] = [[] for _ in task.units]
    takers: list[list[int]] = [[] for _ in task.units]
    for number, each in enumerate(task.operations):
        for tensor in each.inputs:
            giver, taker = writer.get(tensor), unit_of[number]
            if giver is not None and giver != taker:
                givers[taker].append(giver)
                takers[giver].append(taker)
    return givers, takers


# By cost.


class Timed(NamedTuple):
    """A partition, the cycles of the system that it takes and that by order, and how many others were timed."""

    pieces: tuple[Piece, ...]
    cycles: int
    by_order_cycles: int
    tries: int


@dataclass
class Bench:
    """Times partitions on the machine.

    cores:   of the system; the first one's clock is that of the result, and it copies what crosses.
    program: of a piece; None where npusim does not simulate its device. Raises CompileError for what does not fit.
    inputs, outputs: of the model, by number.

    Programs and their launches are kept. Where all clocks are the same a launch takes the same cycles in every
    partition, so only what lies between is timed anew; else the whole is.
    """

    name: str
    cores: Sequence[Hardware]
    program: Callable[[Piece], Part | None]
    inputs: Sequence[tuple[int, Tensor]]
    outputs: Sequence[tuple[int, Tensor]]
    _parts: dict[Piece, Part | None] = field(default_factory=dict)
    _launches: dict[Piece, int] = field(default_factory=dict)

    def cycles(self, found: Sequence[Piece]) -> int:
        """Return the system cycles of the simulated pieces, with the transfers between them."""
        for piece in found:
            if piece not in self._parts:
                self._parts[piece] = self.program(piece)
        made = [(piece, part) for piece in found if (part := self._parts[piece]) is not None]
        executable = self._linked([part for _, part in made])
        if len({core.clock_mhz for core in self.cores}) > 1:
            return self._run(executable)
        between = tuple(step for step in executable.steps if not isinstance(step, Launch))
        cycles = self._run(replace(executable, steps=between))
        return cycles + sum(self._launch(piece, part) for piece, part in made)

    def whole(self, found: Sequence[Piece]) -> int:
        """Those of the whole, timed at once: what `cycles` adds up."""
        parts = [self._parts[piece] if piece in self._parts else self.program(piece) for piece in found]
        return self._run(self._linked([part for part in parts if part is not None]))

    def _linked(self, parts: Sequence[Part]) -> Executable:
        return linked(self.name, self.cores[0], parts, self.inputs, self.outputs)

    def _launch(self, piece: Piece, part: Part) -> int:
        if piece not in self._launches:
            alone = Executable.of(part.program)
            steps = tuple(replace(step, core=part.core) for step in alone.steps if isinstance(step, Launch))
            self._launches[piece] = self._run(replace(alone, steps=steps))
        return self._launches[piece]

    def _run(self, executable: Executable) -> int:
        if not executable.steps:
            return 0
        system = System(self.cores)
        job = system.submit(executable)
        system.run()
        return job.runs[0].cycles


def by_cost(task: Task, bench: Bench, most_tries: int = MOST_TRIES) -> Timed:
    """The partition that the machine says is fastest, of some. Raises what `by_order` does and what compiling does.

    Tried are each device before all others, then stretches of operations: those of a piece, or its first or last 1,
    2, 4, ..., on another device that can have them. The first that is faster stays, until none is.
    """
    first = by_order(task)
    by_order_cycles = bench.cycles(first)
    search = _Search(task, bench, tuple(able[0] for able in task.able), by_order_cycles, most_tries)
    search.seen.add(first)
    for preferred in range(len(task.devices)):
        search.attempt(search.moved(range(len(task.units)), preferred))
    while any(search.attempt(candidate) for candidate in search.candidates()):
        pass
    return Timed(cut(task, search.chosen), search.cycles, by_order_cycles, search.tries)


@dataclass
class _Search:
    """The best partition so far."""

    task: Task
    bench: Bench
    chosen: Chosen
    cycles: int
    most_tries: int
    tries: int = 0
    seen: set[tuple[Piece, ...]] = field(default_factory=set)

    def candidates(self) -> Iterator[Chosen]:
        """The best one with a stretch of a piece on another device, longest stretches first."""
        found = cut(self.task, self.chosen)
        unit_of = {operation: number for number, unit in enumerate(self.task.units) for operation in unit}
        stretches: list[tuple[int, int, tuple[int, ...]]] = []
        for position, piece in enumerate(found):
            units_of_piece = tuple(dict.fromkeys(unit_of[operation] for operation in piece.operations))
            stretches += [(-len(part), position, part) for part in _parts(units_of_piece)]
        for _, position, part in sorted(stretches):
            for device in range(len(self.task.devices)):
                if device == found[position].device:
                    continue
                yield self.moved(part, device)

    def moved(self, part: Collection[int], device: int) -> Chosen:
        """The best one with units of a part on a device, as far as it can have them and the machine can tell."""
        now = _settled(self.task, self.chosen)
        return tuple(
            device
            if unit in part and device in self.task.able[unit] and self.task.untimed.isdisjoint((device, own))
            else own
            for unit, own in enumerate(now)
        )

    def attempt(self, chosen: Chosen) -> bool:
        """Simulate a partition, keep it if it is faster than the best so far, and return whether it is."""
        found = cut(self.task, chosen)
        if self.tries == self.most_tries or found in self.seen:
            return False
        self.seen.add(found)
        self.tries += 1
        try:
            cycles = self.bench.cycles(found)
        except (CompileError, ProgramError, DeviceInternalError):  # it does not fit
            return False
        if cycles >= self.cycles:
            return False
        self.chosen, self.cycles = chosen, cycles
        return True


def _parts(piece: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """A piece whole, and its first and last 1, 2, 4, ..."""
    yield piece
    size = 1
    while size < len(piece):
        yield piece[:size]
        yield piece[-size:]
        size *= 2
