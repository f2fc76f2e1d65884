"""Random networks and the built-in models, live: the machine's bytes against LiteRT's reference kernels.

NPUSIM_EXAMPLES=5000 tries that many graphs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npusim
from npusim import models
from npusim.frontends.tflite import reader as tflite
from npusim.frontends.tflite.export import written
from npusim.kernels.graph.graph import Graph
from tests.examples import tried

from ..graphs import random_inputs
from ..random_graphs import deep_graph, random_graph
from .live import by_litert, difference, needs_litert

GRAPHS = tried(20, 60)


def graph_of(grow: Callable[..., Graph], seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    return grow(lambda low, high: int(rng.integers(low, high + 1)), portable=True)


@pytest.mark.slow
@needs_litert
@pytest.mark.parametrize("grow", [random_graph, deep_graph])
def test_random_graphs(grow: Callable[..., Graph]) -> None:
    for seed in range(GRAPHS // 2):
        where = f"graph_of({grow.__name__}, {seed})"
        graph = graph_of(grow, seed)
        inputs = random_inputs(graph, seed)
        data = written(graph)
        expected = by_litert(data, inputs)
        for source in (graph, tflite.parse(data, graph.name)):  # as it was made, and as the reader has it
            found = npusim.simulate(npusim.compile(source), inputs).outputs
            wrong = difference(list(found), expected)
            assert wrong is None, f"{where}: {wrong}"


@pytest.mark.slow
@pytest.mark.cases(2)
@needs_litert
@pytest.mark.parametrize("name", models.names())
def test_built_in_models(name: str) -> None:
    data = models.path_or_bytes(name)
    graph = npusim.load(name)
    inputs = random_inputs(graph, 1)
    expected = by_litert(data, inputs)
    found = npusim.simulate(npusim.compile(graph), inputs).outputs
    wrong = difference(list(found), expected)
    assert wrong is None, f"{name}: {wrong}"
