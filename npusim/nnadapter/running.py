"""How the pieces of a compiled model run: simulated ones on the machine, others by their driver, each at its turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npusim.frontends.nnadapter.errors import DeviceInternalError, InvalidDimensions
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array
from npusim.isa.program.interpreter import Interpreter
from npusim.isa.program.program import Program
from npusim.machine.system import execute
from npusim.nnadapter.compiled import CompiledGear, CompiledPiece, Crossing
from npusim.nnadapter.context import Context
from npusim.nnadapter.hal.driver import Argument
from npusim.nnadapter.hal.memory import Slot, of_array
from npusim.nnadapter.hal.types import operand_type_of
from npusim.nnadapter.result import Result
from npusim.numbers.staged import Launch, measure_launches
from npusim.session.host import host_functions, one_blas_thread

Values = dict[int, Array]
"""Arrays by the numbers of crossings."""


class _Simulated:
    """A program of npusim: on the machine the first time, after that its bytes alone are computed."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._functions = host_functions(program)
        self._launch: Launch | None = None
        self._interpreter: Interpreter | None = None

    def run(self, inputs: Sequence[Array]) -> tuple[Launch, Sequence[Array]]:
        if self._launch is None:
            done = execute(self._program, inputs, host_functions=self._functions)
            self._launch = Launch(self._program, replace(done, outputs=None))
            return self._launch, done.outputs or ()
        if self._interpreter is None:
            self._interpreter = Interpreter(self._program, self._functions)
        return self._launch, self._interpreter.run(inputs)


class Runner:
    """Runs a gear; the timeline of what is simulated is found once."""

    def __init__(self, gear: CompiledGear, context: Context, name: str) -> None:
        self._gear, self._context, self._name = gear, context, name
        self._simulated = {
            piece: _Simulated(piece.simulated) for piece in gear.pieces if piece.simulated is not None
        }

    def run(self, inputs: Sequence[Array]) -> Result:
        """One run with data. Raises DeviceInternalError for what a device refuses."""
        values: Values = dict(self._gear.constants)
        values |= {crossing.number: array for crossing, array in zip(self._gear.inputs, inputs, strict=True)}
        launches: list[Launch] = []
        said: list[tuple[str, float | None]] = []
        with one_blas_thread(False):
            for piece in self._gear.pieces:
                simulated = self._simulated.get(piece)
                given = [values[crossing.number] for crossing in piece.inputs]
                if simulated is None:
                    made, took = self._foreign(piece, given)
                    said.append((piece.device, took))
                else:
                    launch, made = _on_machine(piece, simulated, given)
                    launches.append(launch)
                values |= {
                    crossing.number: array for crossing, array in zip(piece.outputs, made, strict=True)
                }
        outputs = [_whole(crossing, values) for crossing in self._gear.outputs]
        times = [took for _, took in said]
        return Result(
            outputs=[np.array(array) for array in outputs],
            run=measure_launches(self._name, launches, tuple(outputs)) if launches else None,
            pieces=self._gear.pieces,
            not_simulated=tuple(dict.fromkeys(name for name, _ in said)),
            said_us=None if None in times else float(sum(time for time in times if time is not None)),
        )

    def _foreign(self, piece: CompiledPiece, given: Sequence[Array]) -> tuple[Sequence[Array], float | None]:
        """What a user's driver computes, and the microseconds that it says."""
        member = self._context.member(piece.device)
        inputs = [
            Argument(index, array, of_array, _type(crossing))
            for index, (crossing, array) in enumerate(zip(piece.inputs, given, strict=True))
        ]
        slots = [Slot() for _ in piece.outputs]
        outputs = [
            Argument(index, slot, slot.access, _type(crossing))
            for index, (crossing, slot) in enumerate(zip(piece.outputs, slots, strict=True))
        ]
        took = member.call("execute_program", piece.program, inputs, outputs)
        made = []
        for crossing, slot in zip(piece.outputs, slots, strict=True):
            if not hasattr(slot, "array"):
                raise DeviceInternalError(f"{piece.device}: execute_program wrote nothing to {crossing.name}")
            if slot.array.shape != crossing.type.shape:
                raise InvalidDimensions(
                    f"{piece.device}: wrote {list(slot.array.shape)} to {crossing.name}, "
                    f"must be {list(crossing.type.shape)}"
                )
            made.append(slot.array)
        return made, None if took is None else float(took)


def _whole(crossing: Crossing, values: Values) -> Array:
    """An output of the model: of one with rows for the most that there can be those that there are."""
    array = values[crossing.number]
    return (
        array if crossing.counted is None else array[: int(np.sum(values[crossing.counted], dtype=np.int64))]
    )


def _on_machine(piece: CompiledPiece, simulated: _Simulated, given: Sequence[Array]) -> Any:
    try:
        return simulated.run(given)
    except NpusimError as fault:
        raise DeviceInternalError(f"{piece.device}: {fault}") from None


def _type(crossing: Crossing) -> Any:
    return operand_type_of(crossing.type, crossing.name)
