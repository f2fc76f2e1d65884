"""The in-order interpreter: it executes one instruction after the other without a clock.

Its results are the golden model for the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.isa.base.errors import OperandFault, SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.instructions.memory import HostFunction, commit
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.isa.program.start import memory_of
from npusim.isa.program.validate import validate


class Interpreter:
    """A program that is checked once and executed often, each time from its beginning."""

    def __init__(self, program: Program, host_functions: Mapping[str, HostFunction] | None = None) -> None:
        """Check the program. Raises ProgramError if it breaks a rule."""
        self.program = program
        self._functions = host_functions
        self._instructions = decode_all(program.code)
        validate(program, self._instructions)

    def run(self, inputs: Sequence[Array], states: Sequence[Array | None] | None = None) -> tuple[Array, ...]:
        """Execute the program and return its outputs.

        Raises SimulationError as the machine does, with the layer in front.
        """
        memory = memory_of(self.program, self._functions)
        memory.store_inputs(inputs)
        if states is not None:
            memory.store_states(states)
        for position, instruction in enumerate(self._instructions):
            try:
                commit(instruction.execute(memory))
            except OperandFault as fault:
                raise SimulationError(f"{self.program.layer_name(position)}: {fault}") from None
        return memory.load_each(self.program.outputs)


def interpret(
    program: Program,
    inputs: Sequence[Array],
    host_functions: Mapping[str, HostFunction] | None = None,
    states: Sequence[Array | None] | None = None,
) -> tuple[Array, ...]:
    """Execute a program in program order, without waits, and return its outputs.

    inputs: one array per `program.inputs`.
    states: one array per `program.states`, or None for each that starts from its initial value.

    Raises ProgramError and SimulationError as the machine does.
    """
    return Interpreter(program, host_functions).run(inputs, states)
