"""Where the tensors of a graph come from, and constants of which only the size is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import SIZE_ONLY
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.graph import Graph, Origin
from npusim.machine.system import execute
from npusim.scheduler.compile import compile_graph
from tests.graphs import Sketch


def added_constant() -> tuple[Graph, int]:
    """x + k, and the number of k."""
    sketch = Sketch()
    image = sketch.input(1, 8, 8, 16)
    constant = sketch.constant(1, 8, 8, 16)
    sketch.add(image, constant)
    return sketch.graph(), constant


def without_data(graph: Graph, number: int) -> Graph:
    """The graph whose constant is known by its size only."""
    tensors = list(graph.tensors)
    tensors[number] = replace(tensors[number], data=SIZE_ONLY)
    return replace(graph, tensors=tuple(tensors))


def test_every_tensor_has_one_origin() -> None:
    graph, constant = added_constant()
    assert [graph.origin(i) for i in range(3)] == [Origin.INPUT, Origin.CONSTANT, Origin.VALUE]
    sized = without_data(graph, constant)
    assert sized.origin(constant) is Origin.SIZED
    assert (sized.tensors[constant].constant, sized.tensors[constant].array) == (True, None)


def test_a_constant_known_by_its_size_takes_the_time_of_one_with_data() -> None:
    graph, constant = added_constant()
    machine = hardware("edge-256")
    whole, sized = (compile_graph(each, machine) for each in (graph, without_data(graph, constant)))
    assert np.array_equal(whole.code, sized.code)
    assert execute(sized, data=False).cycles == execute(whole, data=False).cycles


def test_its_data_cannot_be_had() -> None:
    graph, constant = added_constant()
    program = compile_graph(without_data(graph, constant), hardware("edge-256"))
    with pytest.raises(
        SimulationError, match=r'constant "t1" is known by its size only: the program can be timed, not'
    ):
        bytes(program.constants)
