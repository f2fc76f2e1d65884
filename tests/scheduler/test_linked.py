"""Programs of several devices as one executable: where values lie, what is copied, and where the host hands over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.file import hardware
from npusim.isa.program.executable import Executable, Launch, Transfer
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import SIZE_ONLY, Graph, Tensor
from npusim.kernels.graph.reference import evaluate
from npusim.machine.job import Bindings
from npusim.machine.system import System
from npusim.scheduler.partition.linked import Part, linked
from npusim.session.jobs import host_functions

from ..graphs import Sketch, random_inputs

EDGE = hardware("edge-128")


def part(graph: Graph, nodes: slice, device: str, *outputs: int) -> Part:
    """Nodes of a graph as a program of a device, on its core; a device is called by the number of its core."""
    chosen = graph.nodes[nodes]
    written = {number for node in chosen for number in node.outputs}
    read = {number for node in chosen for number in node.inputs if number is not None} - written
    inputs = tuple(sorted(number for number in read if not graph.tensors[number].constant))
    host = "" if device != "host" else "the host computes it"
    marked = tuple(replace(node, on_host=host) for node in chosen)
    program = npusim.compile(Graph(graph.name, graph.tensors, marked, inputs, outputs), EDGE)
    assert isinstance(program, Program)
    return Part(program, 0 if device == "host" else int(device), device, inputs, outputs)


def ends(graph: Graph, numbers: Sequence[int]) -> list[tuple[int, Tensor]]:
    return [(number, graph.tensors[number]) for number in numbers]


def run(made: Executable, inputs: Sequence[Array]) -> tuple[Array, ...]:
    system = System((EDGE, EDGE, EDGE))
    job = system.submit(made, Bindings(inputs, host_functions=host_functions(made)), repeat=2)
    system.run()
    first, again = job.runs
    assert first.outputs is not None
    assert again.outputs is not None
    for one, other in zip(first.outputs, again.outputs, strict=True):
        np.testing.assert_array_equal(one, other)  # inputs keep their values
    return first.outputs


def chain() -> Graph:
    sketch = Sketch("net", seed=4)
    first = sketch.conv(sketch.input(1, 6, 6, 4), 4, (1, 1))
    sketch.conv(sketch.conv(first, 4, (1, 1)), 4, (1, 1))
    return sketch.graph()


def test_one_program_is_one_launch() -> None:
    graph = chain()
    made = linked(
        "net",
        EDGE,
        [part(graph, slice(3), "0", *graph.outputs)],
        ends(graph, graph.inputs),
        ends(graph, graph.outputs),
    )
    assert made.steps == (Launch(0, 0),)
    assert [place.window for place in (*made.inputs, *made.outputs)] == [0, 0]


def test_what_crosses_is_copied_once_behind_a_handover() -> None:
    graph = chain()
    middle = graph.nodes[0].outputs[0]
    parts = [part(graph, slice(1), "0", middle), part(graph, slice(1, 3), "1", *graph.outputs)]
    made = linked("net", EDGE, parts, ends(graph, graph.inputs), ends(graph, graph.outputs))
    one, transfer, other = made.steps
    assert (one, other) == (Launch(0, 0), Launch(1, 1))
    assert isinstance(transfer, Transfer)
    assert transfer.handover
    ((source, target),) = transfer.moves
    assert (source.window, target.window) == (0, 1)
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(run(made, inputs)[0], evaluate(graph, inputs)[graph.outputs[0]])


@pytest.mark.parametrize(
    ("devices", "handovers"),
    [
        ("0 0 0", [False, False]),
        ("0 1 0", [True, True]),
        ("0 host 1", [False, False]),
        ("host 0 1", [False, True]),
        ("0 1 host", [True, False]),
    ],
)
def test_the_host_hands_over_where_it_has_no_control(devices: str, handovers: list[bool]) -> None:
    graph = chain()
    results = [node.outputs[0] for node in graph.nodes]
    parts = [part(graph, slice(at, at + 1), each, results[at]) for at, each in enumerate(devices.split())]
    made = linked("net", EDGE, parts, ends(graph, graph.inputs), ends(graph, graph.outputs))
    assert [step.handover for step in made.steps if isinstance(step, Transfer)] == handovers
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(run(made, inputs)[0], evaluate(graph, inputs)[graph.outputs[0]])


def test_an_input_of_several_programs_lies_with_the_first_and_outputs_may_be_anything() -> None:
    sketch = Sketch("net", seed=4)
    x = sketch.input(1, 6, 6, 4)
    unread = sketch.input(1, 3)
    constant = sketch.constant(1, 5)
    first = sketch.conv(x, 4, (1, 1))
    second = sketch.conv(x, 4, (1, 1))
    graph = sketch.graph([first, second])
    parts = [part(graph, slice(1), "0", first), part(graph, slice(1, 2), "1", second)]
    outputs = [second, x, constant, first, unread, first]
    made = linked("net", EDGE, parts, ends(graph, [x, unread]), ends(graph, outputs))
    ((source, target),) = (move for step in made.steps if isinstance(step, Transfer) for move in step.moves)
    assert (source, source.window, target.window) == (made.inputs[0], 0, 1)
    inputs = random_inputs(graph)
    values = evaluate(graph, inputs)
    values |= {x: inputs[0], unread: inputs[1], constant: graph.tensors[constant].array}
    for number, found in zip(outputs, run(made, inputs), strict=True):
        np.testing.assert_array_equal(found, values[number])


def test_an_output_that_is_a_constant_must_have_data() -> None:
    graph = chain()
    parts = [part(graph, slice(3), "0", *graph.outputs)]
    known = Tensor("big", graph.tensors[0].type, SIZE_ONLY)
    with pytest.raises(GraphError, match='constant "big" is known by its size only'):
        linked("net", EDGE, parts, ends(graph, graph.inputs), [(99, known)])
