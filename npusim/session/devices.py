"""Assignment of a model's operations to devices: by the order of the devices, one device for all, or simulated cost.

Operations are those of `npusim.scheduler.partition.pieces`. The caller describes them with a `Task`: why a device
cannot compute one, and which ones belong together. An operation that moves no bytes, such as a change of shape, goes to
the device of its neighbour, so that it never splits a piece.

The cost of a candidate is simulated: all programs, all copies between them and all handovers, on the system that the
devices share. The first candidate is the partition by order, so the result is never slower. It is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import NamedTuple

from npusim.frontends.nnadapter.nnadapter_codes import DeviceInternalError, FeatureNotSupported
from npusim.isa.base.errors import CompileError, ProgramError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable, Launch
from npusim.kernels.graph.graph import Tensor
from npusim.machine.system import System
from npusim.scheduler.partition.linked import Part, linked
from npusim.scheduler.partition.pieces import Operation, Piece, pieces, units

ORDER, SINGLE, COST = "order", "single", "cost"
MODES = (ORDER, COST, SINGLE)

MOST_TRIES = 48
"""Most partitions to time beside that by order. A network of 60 layers compiles so often in a minute."""


@dataclass(frozen=True)
class Task:
    """A model whose operations are to be assigned to devices.

    operations: in an order in which they can run.
    places:     the name of each operation in messages.
    devices:    names of the devices, in order of preference.
    refusals:   for each operation, the reasons why devices cannot compute it, by device; others can.
    moves_nothing: operations without work, which go to the device of a neighbour.
    together:   groups of operations that one device must compute, such as those of a state.
    forced:     operations that only the device `cpu` may compute.
    untimed:    numbers of devices that npusim does not simulate; cost moves no operation to or from them.
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
        """The units: groups of operations that one device computes in one piece."""
        return units(self.operations, self.together)

    @cached_property
    def able(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the devices that can compute each unit, in order. Raises FeatureNotSupported if none can."""
        return tuple(self._able(unit) for unit in self.units)

    def may(self, number: int, device: str) -> bool:
        """Return whether a device may compute an operation."""
        if number in self.forced and device != self.cpu:
            return False
        return device not in self.refusals[number]

    def _able(self, unit: Sequence[int]) -> tuple[int, ...]:
        able = tuple(
            number
            for number, device in enumerate(self.devices)
            if all(self.may(operation, device) for operation in unit)
        )
        if not able:
            raise FeatureNotSupported(f"{self.name}: {self._nobody(unit)}")
        return able

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
    """Return the pieces if each operation goes to the first device that can compute it. Raises FeatureNotSupported."""
    return cut(task, tuple(able[0] for able in task.able))


def single(task: Task) -> tuple[Piece, ...]:
    """Return the pieces if one device, the first possible, computes all that is not forced.

    Raises FeatureNotSupported if no device can.
    """
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
    """Return the pieces for given devices of units; units that move no bytes go to the devices of neighbours."""
    settled = _settled(task, chosen)
    devices = [0] * len(task.operations)
    for unit, device in zip(task.units, settled, strict=True):
        for number in unit:
            devices[number] = device
    return pieces(task.operations, devices, task.units)


def _settled(task: Task, chosen: Sequence[int]) -> Chosen:
    """Return the devices of all units. A unit that moves no bytes gets the device of its producer or its consumer."""
    free = {
        number
        for number, unit in enumerate(task.units)
        if task.moves_nothing.issuperset(unit) and not task.forced.intersection(unit)
    }
    settled = {number: device for number, device in enumerate(chosen) if number not in free}
    givers, takers = _neighbours(task)
    for near, order in ((givers, range(len(chosen))), (takers, range(len(chosen) - 1, -1, -1))):
        for number in order:
            if number not in settled:
                devices = [settled[other] for other in near[number] if other in settled]
                fitting = [device for device in devices if device in task.able[number]]
                settled |= {number: fitting[0]} if fitting else {}
    return tuple(settled.get(number, chosen[number]) for number in range(len(chosen)))


def _neighbours(task: Task) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each unit the units that it reads from, and those that read from it."""
    unit_of = {operation: number for number, unit in enumerate(task.units) for operation in unit}
    writer = {
        tensor: unit_of[number] for number, node in enumerate(task.operations) for tensor in node.outputs
    }
    givers: list[list[int]] = [[] for _ in task.units]
    takers: list[list[int]] = [[] for _ in task.units]
    for number, reader in enumerate(task.operations):
        for tensor in reader.inputs:
            giver, taker = writer.get(tensor), unit_of[number]
            if giver is not None and giver != taker:
                givers[taker].append(giver)
                takers[giver].append(taker)
    return givers, takers


# By cost.


class Timed(NamedTuple):
    """A partition with its cycles of the system, those of the partition by order, and the number of others timed."""

    pieces: tuple[Piece, ...]
    cycles: int
    by_order_cycles: int
    tries: int


@dataclass
class Bench:
    """The timer of partitions on the simulated machine.

    cores:   cores of the system; the first one sets the clock of the result, and copies tensors between devices.
    program: returns the program of a piece; None if npusim does not simulate its device. Raises CompileError for a
             piece that does not fit.
    inputs, outputs: tensor numbers of the model.

    Programs and their launches are cached. If all clocks are equal, a launch takes the same cycles in every partition,
    so only the steps between launches are timed again; else the whole run is.
    """

    name: str
    cores: Sequence[Hardware]
    program: Callable[[Piece], Part | None]
    inputs: Sequence[tuple[int, Tensor]]
    outputs: Sequence[tuple[int, Tensor]]
    _parts: dict[Piece, Part | None] = field(default_factory=dict)
    _launches: dict[Piece, int] = field(default_factory=dict)

    def cycles(self, cut_pieces: Sequence[Piece]) -> int:
        """Return the system cycles of the simulated pieces, with the transfers between them."""
        for piece in cut_pieces:
            if piece not in self._parts:
                self._parts[piece] = self.program(piece)
        compiled = [(piece, part) for piece in cut_pieces if (part := self._parts[piece]) is not None]
        executable = self._linked([part for _, part in compiled])
        if len({core.clock_mhz for core in self.cores}) > 1:
            return self._run(executable)
        between = tuple(step for step in executable.steps if not isinstance(step, Launch))
        cycles = self._run(replace(executable, steps=between))
        return cycles + sum(self._launch(piece, part) for piece, part in compiled)

    def whole(self, cut_pieces: Sequence[Piece]) -> int:
        """Return the same cycles, timed as one run instead of a sum over launches."""
        parts = [self._parts[piece] if piece in self._parts else self.program(piece) for piece in cut_pieces]
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
    """Return the fastest partition among candidates. Raises what `by_order` and the compiler raise.

    The first candidates prefer one device to all others. Further ones move the operations of a piece, or its first or
    last 1, 2, 4, ..., to another device that can compute them. Each faster candidate is kept, until none is faster.
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
    """The state of a search: the best partition so far."""

    task: Task
    bench: Bench
    chosen: Chosen
    cycles: int
    most_tries: int
    tries: int = 0
    seen: set[tuple[Piece, ...]] = field(default_factory=set)

    def candidates(self) -> Iterator[Chosen]:
        """Yield candidates that move a part of a piece to another device, long parts first."""
        cut_pieces = cut(self.task, self.chosen)
        unit_of = {operation: number for number, unit in enumerate(self.task.units) for operation in unit}
        segments: list[tuple[int, int, tuple[int, ...]]] = []
        for position, piece in enumerate(cut_pieces):
            units_of_piece = tuple(dict.fromkeys(unit_of[operation] for operation in piece.operations))
            segments += [(-len(part), position, part) for part in _parts(units_of_piece)]
        for _, position, part in sorted(segments):
            for device in range(len(self.task.devices)):
                if device == cut_pieces[position].device:
                    continue
                yield self.moved(part, device)

    def moved(self, part: Collection[int], device: int) -> Chosen:
        """Return the best partition with units of a part moved to a device, where it can compute and be timed."""
        now = _settled(self.task, self.chosen)
        return tuple(
            device
            if unit in part and device in self.task.able[unit] and self.task.untimed.isdisjoint((device, own))
            else own
            for unit, own in enumerate(now)
        )

    def attempt(self, chosen: Chosen) -> bool:
        """Simulate a partition, keep it if it is faster than the best so far, and return whether it is."""
        cut_pieces = cut(self.task, chosen)
        if self.tries == self.most_tries or cut_pieces in self.seen:
            return False
        self.seen.add(cut_pieces)
        self.tries += 1
        try:
            cycles = self.bench.cycles(cut_pieces)
        except (CompileError, ProgramError, DeviceInternalError):  # it does not fit
            return False
        if cycles >= self.cycles:
            return False
        self.chosen, self.cycles = chosen, cycles
        return True


def _parts(piece: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the units of a piece as candidates to move: all of them, and its first and last 1, 2, 4, ..."""
    yield piece
    size = 1
    while size < len(piece):
        yield piece[:size]
        yield piece[-size:]
        size *= 2
