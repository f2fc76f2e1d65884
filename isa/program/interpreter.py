"""The in-order interpreter: one instruction after the other, no clock. The oracle for the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.isa.base.tensor import Array
from npusim.isa.instructions.memory import HostFunction, commit
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.isa.program.start import memory_of
from npusim.isa.program.validate import validate


def interpret(
    program: Program,
    inputs: Sequence[Array],
    host_functions: Mapping[str, HostFunction] | None = None,
    states: Sequence[Array | None] | None = None,
) -> tuple[Array, ...]:
    """The outputs of a program executed in program order, waits ignored.

    `inputs` are one array per `program.inputs`, `states` one per `program.states`, or None for all that begin anew.
    Raises ProgramError and SimulationError as the machine does.
    """
    instructions = decode_all(program.code)
    validate(program, instructions)
    memory = memory_of(program, host_functions)
    memory.store_inputs(inputs)
    if states is not None:
        memory.store_states(states)
    for instruction in instructions:
        commit(instruction.execute(memory))
    return memory.load_each(program.outputs)
