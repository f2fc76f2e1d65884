"""The system: environment, ports of the memories and cores, and what runs on them.

`execute` runs one program once, on a system of one core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import simpy

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.memory import HostFunction, Memory
from npusim.isa.program.program import Program
from npusim.machine.core import Core, Launch, Progress, load
from npusim.machine.port import MemoryPort
from npusim.machine.trace import Execution


def execute(
    program: Program,
    inputs: Sequence[Array] | None = None,
    *,
    states: Sequence[Array | None] | None = None,
    host_functions: Mapping[str, HostFunction] | None = None,
    hardware: Hardware | None = None,
    data: bool = True,
    progress: Progress | None = None,
) -> Execution:
    """Run a program on the simulated machine.

    inputs:   one array per `program.inputs`, same dtype and shape; not needed without data.
    states:   one array or None per `program.states`; None begins as the program has it.
    hardware: another machine than the one compiled for (same capacities; only time changes).
    data:     False executes no data: same cycles, no outputs.
    progress: called now and then with (instructions completed, all instructions).

    Raises ProgramError for a program that breaks a rule of the instruction set, SimulationError for wrong
    inputs and for instructions that wait for each other forever.
    """
    loaded = load(program, hardware or program.hardware)
    memory = None
    if data:
        memory = Memory(program, host_functions or {})
        memory.store_inputs(inputs)
        if states is not None:
            memory.store_states(states)
    system = System(hardware or program.hardware)
    launch = system.cores[0].launch(loaded, memory, progress)
    system.run([launch])
    outputs = None if memory is None else memory.load_each(program.outputs)
    after = () if memory is None else tuple(memory.load(place) for place in program.states)
    return launch.result(outputs, after)


class System:
    """An environment, a port for each memory but the scratchpad, and the cores that share them."""

    def __init__(self, hardware: Hardware) -> None:
        self.env = simpy.Environment()
        self.ports = {space: MemoryPort(self.env, hardware, space) for space in hardware.outer_spaces}
        self.cores = (Core(self.env, self.ports, hardware),)

    def run(self, launches: Sequence[Launch]) -> None:
        """Run until nothing happens any more. Raises SimulationError if one of the launches is not done then."""
        self.env.run()
        for launch in launches:
            if not launch.done.triggered:
                raise SimulationError(launch.deadlock())
