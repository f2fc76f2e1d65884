"""Execution of a compiled model: consecutive simulated pieces on one system, other pieces by their drivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from npusim.frontends.nnadapter.nnadapter_codes import DeviceInternalError, Event, InvalidDimensions, text_of
from npusim.frontends.nnadapter.operand_type import operand_type_of
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Launch
from npusim.isa.program.interpreter import Interpreter
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Tensor
from npusim.machine.job import Bindings, Run
from npusim.machine.system import System
from npusim.nnadapter.cache.compiled import CompiledGear, CompiledPiece, Crossing
from npusim.nnadapter.device_context import Context, Member
from npusim.nnadapter.device_result import Foreign, Piece, Result
from npusim.nnadapter.hal.caller_memory import Slot, of_array
from npusim.nnadapter.hal.driver import Argument
from npusim.numbers.devices import measure_devices
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.scheduler.partition.linked import Part, linked
from npusim.session import inputs as states
from npusim.session.host import host_functions, one_blas_thread

Values = Mapping[int, Array]
"""Arrays by the numbers of tensors."""


class Segment:
    """Consecutive programs on the cores of one simulated system.

    The machine executes the first run with data. Cycles do not depend on data, so later runs reuse that timeline, and
    the interpreter computes their bytes, which are the same. With states, which persist from run to run, the machine
    executes every run.
    """

    def __init__(
        self,
        name: str,
        pieces: Sequence[CompiledPiece],
        cores: Sequence[Member],
        wanted: Sequence[Crossing],
    ) -> None:
        """`cores` are the simulated devices of the context, `wanted` the results that others need."""
        self.pieces, self.wanted = tuple(pieces), tuple(wanted)
        written: set[int] = set()
        needed: dict[int, Crossing] = {}
        for piece in pieces:
            needed |= {one.number: one for one in piece.inputs if one.number not in written}
            written |= {one.number for one in piece.outputs}
        self.inputs = tuple(needed.values())
        self.machines = machines_of(cores)
        self.executable = linked(
            name,
            self.machines[0],
            [part_of(piece, cores) for piece in pieces],
            [(one.number, Tensor(one.name, one.type)) for one in self.inputs],
            [(one.number, Tensor(one.name, one.type)) for one in wanted],
        )
        self._functions = [host_functions(_program(piece)) for piece in pieces]
        self._timeline: Run | None = None
        self._interpreters: list[Interpreter] = []

    def time(self) -> Run:
        """Return the timeline of a run without data."""
        if self._timeline is None:
            self._timeline = self._run(None)
        return self._timeline

    def run(self, values: Values) -> tuple[Run, Sequence[Array]]:
        """Return the timeline of a run with data, and the wanted arrays."""
        given = [values[one.number] for one in self.inputs]
        if self._interpreters and self._timeline is not None:
            return self._timeline, self._interpreted(values)
        functions = {name: function for by_name in self._functions for name, function in by_name.items()}
        held = states.bound(self.executable, None) if self.executable.states else None
        done = self._run(Bindings(given, held, functions))
        if self.executable.states:
            states.hold(self.executable, done.states)
        else:
            self._interpreters = [
                Interpreter(_program(piece), of_piece)
                for piece, of_piece in zip(self.pieces, self._functions, strict=True)
            ]
        self._timeline = replace(done, outputs=None)
        return self._timeline, done.outputs or ()

    def _run(self, bindings: Bindings | None) -> Run:
        system = System(self.machines)
        job = system.submit(self.executable, bindings)
        system.run()
        return job.runs[0]

    def _interpreted(self, values: Values) -> list[Array]:
        known = dict(values)
        for piece, interpreter in zip(self.pieces, self._interpreters, strict=True):
            outputs = interpreter.run([known[one.number] for one in piece.inputs])
            known |= {one.number: array for one, array in zip(piece.outputs, outputs, strict=True)}
        return [known[one.number] for one in self.wanted]


def machines_of(cores: Sequence[Member]) -> list[Hardware]:
    """Return the hardware of simulated devices."""
    return [machine for member in cores if (machine := member.machine) is not None]


def part_of(piece: CompiledPiece, cores: Sequence[Member]) -> Part:
    """Return a simulated piece as the linker takes it, on the core of its device."""
    inputs, outputs = (tuple(one.number for one in side) for side in (piece.inputs, piece.outputs))
    core = [member.name for member in cores].index(piece.device)
    return Part(_program(piece), core, piece.device, inputs, outputs)


def _program(piece: CompiledPiece) -> Program:
    program = piece.simulated
    assert program is not None
    return program


@dataclass(frozen=True)
class _Measured:
    """The measurements of the simulated part of a gear, which do not depend on data."""

    run: RunResult | None
    pieces: tuple[Piece, ...]


class Runner:
    """Runs the pieces of a gear."""

    def __init__(self, gear: CompiledGear, context: Context, name: str) -> None:
        self._gear, self._context = gear, context
        self._parts = tuple(_parts(gear, context, name))
        self._measured: _Measured | None = None

    def pieces(self) -> tuple[Piece, ...]:
        """Return the pieces with cycles and energy, from a run without data."""
        return self._numbers([part.time() for part in self._parts if isinstance(part, Segment)]).pieces

    def timed(self) -> RunResult | None:
        """Return the measurements of a run without data; None if no device is simulated."""
        return self._numbers([part.time() for part in self._parts if isinstance(part, Segment)]).run

    def run(self, inputs: Sequence[Array]) -> Result:
        """Run the gear with data. Raises NpusimError if the machine refuses a program, and what a driver raises."""
        values = dict(self._gear.constants)
        values |= {crossing.number: array for crossing, array in zip(self._gear.inputs, inputs, strict=True)}
        runs: list[Run] = []
        foreign: list[Foreign] = []
        simulated = dict.fromkeys(piece.device for piece in self._gear.pieces if piece.simulated is not None)
        for device in simulated:
            self._context.tell(device, Event.RUN_BEGINS)
        with one_blas_thread(False):
            for part in self._parts:
                if isinstance(part, Segment):
                    run, arrays = part.run(values)
                    runs.append(run)
                    crossings = part.wanted
                else:
                    arrays, took = self._foreign(part, [values[one.number] for one in part.inputs])
                    foreign.append(Foreign(part.device, took))
                    crossings = part.outputs
                values |= {one.number: array for one, array in zip(crossings, arrays, strict=True)}
        outputs = [np.array(_whole(crossing, values)) for crossing in self._gear.outputs]
        for device in simulated:
            self._context.tell(device, Event.RUN_ENDS)
        measured = self._numbers(runs)
        run_result = measured.run
        return Result(
            outputs=outputs,
            run=None if run_result is None else replace(run_result, outputs=outputs),
            pieces=measured.pieces,
            foreign=tuple(foreign),
        )

    def _foreign(self, piece: CompiledPiece, given: Sequence[Array]) -> tuple[Sequence[Array], float | None]:
        """Return what a driver computes for a piece, and the microseconds that it reports."""
        member = self._context.member(piece.device)
        inputs = [
            Argument(index, array, of_array, operand_type_of(one.type, one.name))
            for index, (one, array) in enumerate(zip(piece.inputs, given, strict=True))
        ]
        slots = [Slot() for _ in piece.outputs]
        outputs = [
            Argument(index, slot, slot.access, operand_type_of(one.type, one.name))
            for index, (one, slot) in enumerate(zip(piece.outputs, slots, strict=True))
        ]
        took = member.call("execute_program", piece.program, inputs, outputs)
        written = [_written(piece, one, slot) for one, slot in zip(piece.outputs, slots, strict=True)]
        if took is not None and (
            isinstance(took, bool) or not isinstance(took, int | float) or not took >= 0
        ):
            raise DeviceInternalError(
                f"{piece.device}: execute_program returns {text_of(took)}, must be microseconds or None"
            )
        return written, None if took is None else float(took)

    def _numbers(self, runs: Sequence[Run]) -> _Measured:
        """Return the measurements of the simulated part, computed once because data do not change them."""
        if self._measured is None or self._stateful:
            segments = [part for part in self._parts if isinstance(part, Segment)]
            if not any(run.parts for run in runs):
                self._measured = _Measured(None, tuple(_unsimulated(piece) for piece in self._gear.pieces))
                return self._measured
            cores = [(member.name, member.machine) for member in self._context.cores]
            whole = measure_devices(
                segments[0].executable,
                _joined(runs),
                [(name, machine) for name, machine in cores if machine is not None],
                cpus=[number for number, member in enumerate(self._context.cores) if member.is_cpu],
            )
            taken = dict(_taken(segments, runs, whole.hardware.clock_mhz))
            pieces = tuple(taken.get(piece) or _unsimulated(piece) for piece in self._gear.pieces)
            self._measured = _Measured(whole, pieces)
        return self._measured

    @property
    def _stateful(self) -> bool:
        return any(isinstance(part, Segment) and part.executable.states for part in self._parts)


def _whole(crossing: Crossing, values: Values) -> Array:
    """Return an output of the model, cut to its valid rows if another tensor counts them."""
    array = values[crossing.number]
    return (
        array if crossing.counted is None else array[: int(np.sum(values[crossing.counted], dtype=np.int64))]
    )


def _parts(gear: CompiledGear, context: Context, name: str) -> Iterator[Segment | CompiledPiece]:
    """Yield segments of consecutive simulated pieces, and each piece of another device."""
    row: list[CompiledPiece] = []
    for position, piece in enumerate(gear.pieces):
        if piece.simulated is None:
            if row:
                yield _segment(gear, row, position, context, name)
                row = []
            yield piece
        else:
            row.append(piece)
    if row:
        yield _segment(gear, row, len(gear.pieces), context, name)


def _segment(
    gear: CompiledGear, row: Sequence[CompiledPiece], end: int, context: Context, name: str
) -> Segment:
    """Return the segment of the pieces in front of position `end`."""
    later = {one.number for piece in gear.pieces[end:] for one in piece.inputs}
    later |= {number for one in gear.outputs for number in (one.number, one.counted) if number is not None}
    written = {one.number: one for piece in row for one in piece.outputs}
    wanted = [one for number, one in written.items() if number in later]
    return Segment(name, row, context.cores, wanted)


def _joined(runs: Sequence[Run]) -> Run:
    """Join runs, each starting when the one before it ends."""
    begins = accumulate((run.cycles for run in runs), initial=0)
    parts = tuple(
        replace(
            part,
            asked_cycle=part.asked_cycle - run.start_cycle + begin,
            start_cycle=part.start_cycle - run.start_cycle + begin,
        )
        for run, begin in zip(runs, begins, strict=False)
        for part in run.parts
    )
    states = tuple(state for run in runs for state in run.states)
    return Run(0, sum(run.cycles for run in runs), parts, (), None, states)


def _taken(
    segments: Sequence[Segment], runs: Sequence[Run], clock_mhz: float
) -> Iterator[tuple[CompiledPiece, Piece]]:
    """Yield each simulated piece with its cycles, in the clock of the system, and energy."""
    for segment, run in zip(segments, runs, strict=True):
        for part in run.parts:
            if isinstance(part.step, Launch):
                piece = segment.pieces[part.step.program]
                cycles = part.end_cycle - part.asked_cycle
                energy = float(measure(part.program, part.execution).energy_uj)
                yield piece, _piece(piece, cycles, cycles / clock_mhz, energy)
        for number, piece in enumerate(segment.pieces):
            if not any(isinstance(part.step, Launch) and part.step.program == number for part in run.parts):
                yield piece, _piece(piece, 0, 0.0, 0.0)


def _unsimulated(piece: CompiledPiece) -> Piece:
    return _piece(piece, None, None, None)


def _piece(piece: CompiledPiece, cycles: int | None, time_us: float | None, energy: float | None) -> Piece:
    inputs, outputs = (tuple(one.name for one in side) for side in (piece.inputs, piece.outputs))
    return Piece(piece.device, piece.operations, inputs, outputs, cycles, time_us, energy)


def _written(piece: CompiledPiece, crossing: Crossing, slot: Slot) -> Array:
    """Return the array that a driver wrote to an output. Raises DeviceInternalError, InvalidDimensions."""
    array = getattr(slot, "array", None)
    if array is None:
        raise DeviceInternalError(f"{piece.device}: execute_program wrote nothing to {crossing.name}")
    if array.shape == (crossing.type.elements,):
        return np.asarray(array).reshape(crossing.type.shape)
    if array.shape != crossing.type.shape:
        raise InvalidDimensions(
            f"{piece.device}: wrote {list(array.shape)} to {crossing.name}, must be {list(crossing.type.shape)}"
        )
    return np.asarray(array)
