"""Pieces of simulated devices in a row: one executable on one system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.interpreter import Interpreter
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Tensor
from npusim.machine.job import Bindings, Run
from npusim.machine.system import System
from npusim.nnadapter.compiled import CompiledPiece, Crossing
from npusim.nnadapter.context import Member
from npusim.scheduler.partition.linked import Part, linked
from npusim.session import inputs as states
from npusim.session.host import host_functions

Values = Mapping[int, Array]
"""Arrays by the numbers of crossings."""


class Segment:
    """Programs that follow one another on the cores of a system.

    On the first run with data the machine executes it. Cycles do not depend on data, so later runs have that timeline,
    and the interpreter computes their bytes, which are the machine's. Where states go on from run to run the machine
    executes each.
    """

    def __init__(
        self,
        name: str,
        pieces: Sequence[CompiledPiece],
        cores: Sequence[Member],
        wanted: Sequence[Crossing],
    ) -> None:
        """cores: the simulated devices of the context. wanted: what others need of what it computes."""
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
        """The timeline, without data."""
        if self._timeline is None:
            self._timeline = self._run(None)
        return self._timeline

    def run(self, values: Values) -> tuple[Run, Sequence[Array]]:
        """The timeline of a run, and the arrays that are wanted."""
        given = [values[one.number] for one in self.inputs]
        if self._interpreters and self._timeline is not None:
            return self._timeline, self._interpreted(values)
        functions = {name: function for each in self._functions for name, function in each.items()}
        held = states.bound(self.executable, None) if self.executable.states else None
        done = self._run(Bindings(given, held, functions))
        if self.executable.states:
            states.hold(self.executable, done.states)
        else:
            self._interpreters = [
                Interpreter(_program(piece), each)
                for piece, each in zip(self.pieces, self._functions, strict=True)
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
            made = interpreter.run([known[one.number] for one in piece.inputs])
            known |= {one.number: array for one, array in zip(piece.outputs, made, strict=True)}
        return [known[one.number] for one in self.wanted]


def machines_of(cores: Sequence[Member]) -> list[Hardware]:
    """The hardware of simulated devices."""
    return [machine for member in cores if (machine := member.machine) is not None]


def part_of(piece: CompiledPiece, cores: Sequence[Member]) -> Part:
    """A piece of a simulated device as it is linked, on its core."""
    inputs, outputs = (tuple(one.number for one in side) for side in (piece.inputs, piece.outputs))
    core = [member.name for member in cores].index(piece.device)
    return Part(_program(piece), core, piece.device, inputs, outputs)


def _program(piece: CompiledPiece) -> Program:
    program = piece.simulated
    assert program is not None
    return program
