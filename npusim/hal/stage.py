"""The compiled graph of one step, and how it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npusim.isa.base.placement import Placement
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.interpreter import Interpreter
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.placing import meant
from npusim.machine.system import execute
from npusim.numbers.staged import Launch
from npusim.session.api import compile_program
from npusim.session.host import host_functions
from npusim.session.options import CAPABILITY, Options, Partition


@dataclass(frozen=True, slots=True)
class Target:
    """Hardware and options that graphs are compiled with.

    placing:     layers that the host computes although the NPU could.
    timing_only: whether only timing is computed, and no data.
    """

    hardware: Hardware
    placing: Partition = CAPABILITY
    timing_only: bool = False

    def placing_of(self, graph: Graph) -> Partition:
        """Return the part of `placing` that concerns the operators of a graph."""
        return Partition(meant(graph, self.placing.forced), self.placing.by_cost)


class Stage:
    """A program and its timeline.

    The first launch runs on the machine. The cycles of a program do not depend on its data, so later launches have the
    same timeline, and the faster interpreter computes their bytes.

    shared: for each output, whether it has the memory of an input, a constant or an earlier output. The program moves
            no bytes for it then, and another program that needs it elsewhere copies it.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        """Compile `graph`. Raises NpusimError if it does not fit."""
        options = Options(partition=target.placing_of(graph))
        self.program: Program = compile_program(graph, target.hardware, options)
        self._functions = host_functions(self.program)
        self.shared = _shared(self.program)
        self._launch: Launch | None = None
        self._interpreter: Interpreter | None = None

    def run(self, inputs: Sequence[Array] | None) -> tuple[Launch, tuple[Array, ...] | None]:
        """Return a launch and the outputs, None without data. Raises NpusimError for data that an operator refuses."""
        if self._launch is None:
            data = inputs is not None
            done = execute(self.program, inputs, host_functions=self._functions, data=data)
            self._launch = Launch(self.program, replace(done, outputs=None))
            return self._launch, done.outputs
        if inputs is None:
            return self._launch, None
        if self._interpreter is None:
            self._interpreter = Interpreter(self.program, self._functions)
        return self._launch, self._interpreter.run(inputs)


def _shared(program: Program) -> tuple[bool, ...]:
    others, found = list(program.inputs), []
    for output in program.outputs:
        constant = program.is_constant(output.space, output.address)
        found.append(constant or any(_overlap(output, other) for other in others))
        others.append(output)
    return tuple(found)


def _overlap(one: Placement, other: Placement) -> bool:
    return one.space == other.space and one.address < other.end and other.address < one.end
