"""look_up: an entry for each code, on the host and on the NPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.table import operator
from npusim.machine.system import execute
from npusim.scheduler import compile_graph

EVERY = np.arange(256, dtype=np.uint8).reshape(16, 16)


def looked_up(source: str, target: str, entries: Any) -> Graph:
    """A graph of one look_up."""
    builder = GraphBuilder("table")
    scaling = Quantization((0.5,), (3,))
    x = builder.input("x", TensorType(source, EVERY.shape, scaling))
    parameters = operator("look_up").parameters(entries=tuple(int(entry) for entry in entries))
    outputs = builder.node("look_up", [x], [TensorType(target, EVERY.shape, scaling)], parameters)
    return builder.graph(outputs)


@pytest.mark.parametrize("source", ["uint8", "int8"])
@pytest.mark.parametrize("target", ["uint8", "int8"])
def test_the_entry_of_the_raw_byte(source: str, target: str) -> None:
    entries = np.random.default_rng(1).permutation(256) - (128 if target == "int8" else 0)
    graph, codes = looked_up(source, target, entries), EVERY.view(source)
    wanted = entries.reshape(EVERY.shape).astype(target)
    np.testing.assert_array_equal(evaluate(graph, [codes])[graph.outputs[0]], wanted)
    program = compile_graph(graph, hardware("edge-128"))
    assert not program.host_calls
    (by_machine,) = execute(program, [codes]).outputs or ()
    np.testing.assert_array_equal(by_machine, wanted)


@pytest.mark.parametrize("entries", [range(255), [-1] * 256])
def test_256_entries_of_the_results_type(entries: Any) -> None:
    with pytest.raises(GraphError, match="there are 256 entries, each a value of the output's type"):
        compile_graph(looked_up("uint8", "uint8", entries), hardware("edge-128"))
