"""Executables over several devices, made by hand: a graph cut where the device changes, transfers between pieces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby

import npusim
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.job import Bindings, Run
from npusim.machine.system import System
from npusim.numbers.devices import measure_devices
from npusim.numbers.run import RunResult
from npusim.scheduler.partition.linked import Part, linked
from npusim.session.inputs import draw
from npusim.session.jobs import host_functions


def sharing(hardware: Hardware, first: Hardware, name: str) -> Hardware:
    """A device's hardware with what it shares of the first one's."""
    shared = {"dram": first.dram, "memory": first.memory, "host": first.host, "name": name}
    technology = hardware.technology.model_copy(update={"dram": first.technology.dram})
    return hardware.model_copy(update=shared | {"technology": technology})


def executable(graph: Graph, cores: Sequence[Hardware], core_of: Sequence[int]) -> Executable:
    """The nodes of a graph on cores, in order; neighbours on one core are a piece."""
    parts: list[Part] = []
    numbers = iter(range(len(graph.nodes)))
    for core, group in groupby(core_of):
        nodes = [graph.nodes[next(numbers)] for _ in group]
        written = {number for node in nodes for number in node.outputs}
        read = {number for node in nodes for number in node.inputs if number is not None} - written
        others = [node for node in graph.nodes if node not in nodes]
        wanted = {*graph.outputs, *(number for node in others for number in node.inputs)}
        inputs = tuple(sorted(number for number in read if not graph.tensors[number].constant))
        outputs = tuple(sorted(written & wanted))
        piece = Graph(f"{graph.name}/{len(parts)}", graph.tensors, tuple(nodes), inputs, outputs)
        program = npusim.compile(piece, cores[core])
        assert isinstance(program, Program)
        parts.append(Part(program, core, cores[core].name, inputs, outputs))
    ends = [[(number, graph.tensors[number]) for number in row] for row in (graph.inputs, graph.outputs)]
    return linked(graph.name, cores[0], parts, *ends)


def run(made: Executable, cores: Sequence[Hardware], *, data: bool = False, seed: int = 0) -> Run:
    """One run of an executable, alone."""
    system = System(cores)
    values = draw([place.tensor for place in made.inputs], seed)
    bindings = Bindings(values, host_functions=host_functions(made)) if data else None
    job = system.submit(made, bindings)
    system.run()
    return job.runs[0]


def measured(
    model: str,
    machines: Sequence[str],
    core_of: Sequence[int],
    clocks: Sequence[float] = (),
    *,
    data: bool = False,
) -> RunResult:
    """A built-in model on devices of presets, with clocks of their own; the rest of `core_of` is its last entry."""
    return _measured(model, tuple(machines), tuple(core_of), tuple(clocks), data)


@cache
def _measured(
    model: str, machines: tuple[str, ...], core_of: tuple[int, ...], clocks: tuple[float, ...], data: bool
) -> RunResult:
    graph = npusim.load(model)
    first = npusim.hardware(machines[0])
    names = [f"npu_{letter}" for letter, _ in zip("abcdefgh", machines, strict=False)]
    cores = [
        sharing(npusim.hardware(machine), first, name) for machine, name in zip(machines, names, strict=True)
    ]
    if clocks:
        cores = [
            core.model_copy(update={"clock_mhz": clock}) for core, clock in zip(cores, clocks, strict=True)
        ]
    of_nodes = [core_of[min(at, len(core_of) - 1)] for at in range(len(graph.nodes))]
    made = executable(graph, cores, of_nodes)
    return measure_devices(made, run(made, cores, data=data), list(zip(names, cores, strict=True)))
