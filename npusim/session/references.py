"""The reference workloads of the capability table, and their simulation."""

from __future__ import annotations

from npusim.isa.base.errors import CompileError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import DECISION
from npusim.isa.program.program import Program
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.control import IF
from npusim.kernels.graph.float_version import float_version
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import operator
from npusim.numbers.performance import (
    NETWORKS,
    SMALL_NETWORK,
    Capabilities,
    Reference,
    ReferenceRun,
    capabilities,
)
from npusim.scheduler.partition.partition import partition
from npusim.session import api

_SHAPE = (1, 56, 56, 64)
"""The shape of the operands of a reference of one operator: a feature map in the middle of MobileNet."""

_LEAST_ROWS = 7
"""Least rows of that map, if inputs and outputs must fit a scratchpad or a memory on the chip."""

_RESULTS = {"dequantize": "float32", "cast": "float32"}
"""The result types of operators whose result has another type than the operand."""


def table(hardware: Hardware, progress: api.Progress | None = None) -> Capabilities:
    """Simulate the reference workloads and return the capability table of a driver for this hardware.

    progress: called during each simulation.
    """
    return capabilities(
        lambda reference: _run(fitting(reference, hardware), progress),
        decision(_apart(hardware)),
        hardware,
    )


def _apart(hardware: Hardware) -> Hardware:
    """Return the hardware with inputs and outputs outside of the scratchpad.

    The programs of an IF or WHILE do not share a scratchpad.
    """
    holds = [content for content in hardware.scratchpad.holds if content != "io"]
    return change(hardware, {"scratchpad.holds": holds})


def graph(reference: Reference, rows: int = _SHAPE[1]) -> Graph:
    """Return a reference workload as a graph for timing. rows: rows of the feature map, for a single operator."""
    if not _is_network(reference):
        return _one_operator(reference, rows)
    network = api.load(reference.name)
    return network if reference.dtype == "int8" else float_version(network, reference.dtype)


def _is_network(reference: Reference) -> bool:
    return reference.name in (*NETWORKS, SMALL_NETWORK)


def fitting(reference: Reference, hardware: Hardware) -> Program | None:
    """Compile the reference workload of one operator, with as many rows as the hardware has room for.

    None where there is no room for it.
    """
    rows = _SHAPE[1]
    while True:
        try:
            return api.compile_program(graph(reference, rows), hardware)
        except CompileError:
            rows //= 2
            if _is_network(reference) or rows < _LEAST_ROWS:
                return None


def _one_operator(reference: Reference, rows: int) -> Graph:
    builder = GraphBuilder(str(reference))
    quantization = Quantization((1.0,), (0,)) if reference.name in ("dequantize", "cast") else None
    shape = (_SHAPE[0], rows, *_SHAPE[2:])
    kind = TensorType(reference.dtype, shape, quantization)
    inputs = [builder.input(f"in{number}", kind) for number in range(_operands(reference))]
    result = TensorType(_RESULTS[reference.name], shape) if reference.name in _RESULTS else kind
    parameters: Parameters = operator(reference.name).parameters()
    return builder.graph(builder.node(reference.name, inputs, [result], parameters))


def _operands(reference: Reference) -> int:
    return 2 if reference.name in ("add", "logical_and") else 1


def _run(program: Program | None, progress: api.Progress | None) -> ReferenceRun | None:
    if program is None:
        return None
    result = api.simulate(program, timing_only=True, progress=progress)
    return ReferenceRun(
        npu_time_us=result.latency_ms * 1e3,
        npu_energy_uj=float(result.energy_uj),
        workloads=[layer.workload for layer in program.layers],
    )


def decision(hardware: Hardware) -> ReferenceRun:
    """Time an IF whose condition is an input and whose body is one operator, and return its cost without the body."""
    codes = TensorType("int8", _SHAPE, Quantization((1.0,), (0,)))
    then = GraphBuilder("then")
    body = then.graph(then.node("relu", [then.input("x", codes)], [codes]))
    builder = GraphBuilder("decision")
    condition, x = builder.input("condition", TensorType("bool", (1,))), builder.input("x", codes)
    graph = builder.graph(builder.node(IF, [condition, x], [codes], bodies=[body, body]))
    executable = partition(graph, hardware, lambda part: api.compile_program(part, hardware))
    result = api.simulate(executable, timing_only=True, decisions=dict.fromkeys(executable.decisions, 1))
    glue = [program for program in result.programs if program.name in executable.decisions]
    looks = [
        call.workload for part in result.run.parts for call in part.program.host_calls if call.op == DECISION
    ]
    return ReferenceRun(
        npu_time_us=hardware.us_of_cycles(sum(program.cycles for program in glue)),
        npu_energy_uj=sum(float(program.energy_uj) for program in glue),
        workloads=looks,
    )
