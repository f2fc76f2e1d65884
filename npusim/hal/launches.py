"""Programs of an execution and how they run: compiled steps, copies between them, and reads of a value by the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from math import ceil

import numpy as np

from npusim.frontends.nn_hal.structs import OutputShape, Timing
from npusim.isa.base.elements import Workload
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, HostCall, Placement, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.table import encode_all
from npusim.isa.program.executable import OWN, Executable, Place, Transfer, link
from npusim.isa.program.interpreter import Interpreter
from npusim.isa.program.program import Layer, Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.placing import meant
from npusim.machine.system import execute
from npusim.numbers.run import RunResult
from npusim.numbers.staged import Launch, measure_launches
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
    others, shared = list(program.inputs), []
    for output in program.outputs:
        constant = program.is_constant(output.space, output.address)
        shared.append(constant or any(_overlap(output, other) for other in others))
        others.append(output)
    return tuple(shared)


def _overlap(first: Placement, second: Placement) -> bool:
    return first.space == second.space and first.address < second.end and second.address < first.end


# Programs between steps take the same cycles as the transfers and decisions of an executable.

_DISTINCT = 512
"""Number of different transfers and host reads whose cycles are cached."""


@lru_cache(_DISTINCT)
def transfer(hardware: Hardware, sizes_bytes: tuple[int, ...]) -> Launch:
    """Copy tensors of these sizes, in parallel on the DMA channels."""
    space, values, moves = hardware.holder("activations"), bytearray(), []
    burst = hardware.port(space).burst_bytes
    for size in sizes_bytes:
        ends = []
        for _ in ("from", "to"):
            values += bytes(-len(values) % burst)
            ends.append(Place(OWN, Placement("value", TensorType("int8", (size,)), len(values), space)))
            values += bytes(size)
        moves.append((ends[0], ends[1]))
    steps = (Transfer("between programs", tuple(moves)),)
    return _timed(link(Executable("transfer", hardware, (), steps, (), (), (), bytes(values))).programs[0])


@lru_cache(_DISTINCT)
def host_access(hardware: Hardware, size_bytes: int, action: str) -> Launch:
    """Let the host read or write a value of `size_bytes`; `action` names the access in reports."""
    space = hardware.holder("activations")
    work = Workload("elementwise", elements=1, input_bytes=size_bytes)
    place = Placement(action, TensorType("int8", (size_bytes,)), 0, space)
    row = hardware.port(space).row_bytes
    address = -(-size_bytes // row) * row if hardware.holder("code") == space else 0
    code = encode_all([Call(index=0)])
    program = Program(
        name=action,
        hardware=hardware,
        code=code,
        constants=b"",
        dram_size_bytes=address + code.size,
        code_address=address,
        inputs=(),
        outputs=(),
        layers=(Layer(action, action, "host", work),),
        layer_of=np.zeros(len(code), np.uint32),
        host_calls=(HostCall(action, action, {}, (place,), (), work, f"the host has to {action}"),),
        code_space=hardware.holder("code"),
    )
    return _timed(program)


def _timed(program: Program) -> Launch:
    return Launch(program, execute(program, data=False))


# Results


@dataclass
class Execution:
    """One execution of a prepared model.

    outputShapes: the computed shape of each output.
    timing:       simulated microseconds on the machine, and with the call overhead of the host; rounded up.
    """

    outputShapes: list[OutputShape]
    timing: Timing
    _name: str = field(repr=False, compare=False)
    _launches: tuple[Launch, ...] = field(repr=False, compare=False)
    _outputs: tuple[Array, ...] | None = field(repr=False, compare=False)

    @cached_property
    def run(self) -> RunResult:
        """Cycles, energy and layers of the programs that ran one after the other; computed at the first access."""
        return measure_launches(self._name, self._launches, self._outputs)


def timing(launches: Sequence[Launch], hardware: Hardware) -> Timing:
    """Return the time of consecutive launches."""
    cycles = sum(launch.execution.cycles for launch in launches)
    device_us = hardware.us_of_cycles(cycles)
    return Timing(ceil(device_us), ceil(device_us + hardware.host.call_overhead_us))
