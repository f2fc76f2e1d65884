"""npusim's delegate, live: random models in an interpreter of LiteRT with npusim in it, against the same without it.

NPUSIM_EXAMPLES=100 tries that many models of each operator and type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import npusim
import npusim.litert
from npusim.frontends.tflite import reader as tflite
from npusim.frontends.tflite.export import written
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph
from tests.examples import WANTED

from ..graphs import random_inputs
from ..npusim.litert.interpreters import interpreter, invoked
from ..random_graphs import deep_graph, random_graph
from .live import difference, needs_litert
from .rows import CLOSE, ROWS, UNDEFINED, inputs_of, model
from .test_control import X, choosing, looping
from .test_graphs import graph_of
from .test_states import KEEPERS, with_states

pytestmark = needs_litert

SEEDS = WANTED or 2


def inputs_for(graph: Graph, seed: int) -> list[Array]:
    types = [graph.tensors[index].type for index in graph.inputs]
    return inputs_of([(each.dtype, each.shape) for each in types], seed)


def outcome(runner: Any, inputs: Sequence[Array]) -> list[Array] | str:
    """The outputs, or why there are none."""
    try:
        return invoked(runner, inputs)
    except RuntimeError as refusal:
        return str(refusal)


@pytest.mark.cases(12)
@pytest.mark.parametrize("code", ROWS)
def test_an_operator_is_a_partition_with_the_bytes_of_litert(code: str) -> None:
    row, tried = ROWS[code], 0
    for dtype in row.dtypes:
        for seed in range(SEEDS):
            data = model(code, dtype, seed)
            inputs = inputs_for(tflite.parse(data, code), seed)
            delegate = npusim.litert.Delegate()
            expected = outcome(interpreter(data, optimized=row.optimized), inputs)
            if not isinstance(expected, list):
                continue
            found = outcome(interpreter(data, delegate, row.optimized), inputs)
            if not isinstance(found, list):
                assert UNDEFINED.search(found), f"model({code!r}, {dtype!r}, {seed}): {found}"
                continue
            tolerance = row.tolerance
            wrong = difference(row.defined(found), row.defined(expected), tolerance)
            assert wrong is None, f"model({code!r}, {dtype!r}, {seed}): {wrong}"
            assert len(delegate.runs) == 1
            tried += 1
    assert tried


@pytest.mark.cases(4)
@pytest.mark.slow
@pytest.mark.parametrize("grow", [random_graph, deep_graph])
@pytest.mark.parametrize("operators", [None, ["CONV_2D", "ADD", "RESHAPE", "FULLY_CONNECTED"]])
@pytest.mark.parametrize("apart", [False, True])
def test_graphs_in_one_piece_and_in_many(grow: Any, operators: Sequence[str] | None, apart: bool) -> None:
    for seed in range(3 * SEEDS):
        graph = graph_of(grow, seed)
        inputs, data = random_inputs(graph, seed), written(graph)
        delegate = npusim.litert.Delegate(operators=operators)
        found = invoked(interpreter(data, delegate, experimental_preserve_all_tensors=apart), inputs)
        wrong = difference(found, invoked(interpreter(data), inputs))
        assert wrong is None, f"graph_of({grow.__name__}, {seed}): {wrong}"


@pytest.mark.parametrize("code", KEEPERS)
def test_variables_are_litert_s(code: str) -> None:
    """They last from one invoke to the next, and `reset_all_variables` is heard."""
    for dtype in KEEPERS[code].dtypes:
        data = with_states(1, dtype, KEEPERS[code].draw)
        graph = tflite.parse(data, code)
        runners = interpreter(data), interpreter(data, npusim.litert.Delegate())
        for runner in runners:
            runner.allocate_tensors()
        for step in range(5):
            inputs, outputs = inputs_for(graph, step), []
            for runner in runners:
                if step == 3:
                    runner.reset_all_variables()
                for detail, value in zip(runner.get_input_details(), inputs, strict=True):
                    runner.set_tensor(detail["index"], value)
                runner.invoke()
                outputs.append([runner.get_tensor(each["index"]) for each in runner.get_output_details()])
            assert difference(outputs[1], outputs[0], CLOSE if dtype == "float32" else 0.0) is None


@pytest.mark.parametrize("turns", [0, 3, 9])
def test_litert_turns_the_loop_and_npusim_computes_what_is_in_it(turns: int) -> None:
    inputs: list[Array] = [X, np.arange(10) < turns]
    delegate = npusim.litert.Delegate()
    found = invoked(interpreter(looping(), delegate), inputs)
    assert difference(found, invoked(interpreter(looping()), inputs)) is None
    # Two layers around it, the condition, and the body if it has a turn: one run of all its turns.
    runs = delegate.runs
    assert len(runs) == (4 if turns else 3)
    if turns:
        assert sorted(len(run.stages) for run in runs) == sorted([1, 1, turns, turns + 1])


@pytest.mark.parametrize("flag", [True, False])
def test_the_branch_that_is_not_taken_has_no_run(flag: bool) -> None:
    inputs: list[Array] = [np.array([flag]), X]
    delegate = npusim.litert.Delegate()
    found = invoked(interpreter(choosing(), delegate), inputs)
    assert difference(found, invoked(interpreter(choosing()), inputs)) is None
    assert [run.layers[0].op for run in delegate.runs] == ["add", "relu" if flag else "add"]
