"""Recurrent layers of reals on the NPU, with lanes and columns for reals: wholly there, and what the host computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator
from tests.kernels.test_recurrent import Values, cell, rnn_operands, two_cells

LANES = [
    "vector.float16_lanes=4",
    "vector.float32_lanes=2",
    "mac_array.float16_columns=4",
    "mac_array.float32_columns=2",
]
WITH = npusim.hardware("edge-128", LANES)


def one(op: str, values: Values, count: int, outputs: int, **parameters: Any) -> tuple[Graph, list[Any]]:
    """A graph of one operator: sequences and states are inputs, of which the values come with it, weights constants."""
    builder = GraphBuilder(op)
    entry, given, numbers = operator(op), [], []
    for n in range(count):
        if n not in values:
            numbers.append(None)
        elif n in entry.states or n == 0 or values[n].ndim == 3:
            numbers.append(builder.input(f"x{n}", TensorType("float32", values[n].shape)))
            given.append(values[n])
        else:
            numbers.append(builder.constant(f"x{n}", values[n]))
    made = builder.node(op, numbers, [unshaped("float32")] * outputs, entry.parameters(**parameters))
    return builder.graph(made), given


def check(op: str, values: Values, count: int, outputs: int, **parameters: Any) -> None:
    graph, inputs = one(op, values, count, outputs, **parameters)
    fast = npusim.simulate(npusim.compile(graph, WITH), inputs)
    slow = npusim.simulate(npusim.compile(graph), inputs)
    assert {layer.unit for layer in slow.layers} == {"host"}
    assert "mac" in {layer.unit for layer in fast.layers}
    assert "host" not in {layer.unit for layer in fast.layers}
    for found, wanted in zip(fast.outputs, slow.outputs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def uniform(*shape: int) -> Any:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(
    "extras",
    [(), ("cifg",), ("peephole", "norm"), ("projection",), ("cifg", "peephole", "norm", "projection")],
)
def test_an_lstm_step(extras: tuple[str, ...]) -> None:
    values = cell(np.random.default_rng(1), 5, 6, 3 if "projection" in extras else 6, 2, *extras)
    check("lstm", values | {0: uniform(2, 5)}, 24, 4, cell_clip=0.5, proj_clip=0.3)


@pytest.mark.parametrize("time_major", [False, True])
def test_an_lstm_over_a_sequence(time_major: bool) -> None:
    values = cell(np.random.default_rng(2), 5, 6, 6, 2)
    values[0] = uniform(3, 2, 5) if time_major else uniform(2, 3, 5)
    check("unidirectional_sequence_lstm", values, 24, 3, time_major=time_major)


def test_lstms_both_ways() -> None:
    values, _, _ = two_cells(np.random.default_rng(3), 2, True)
    check("bidirectional_sequence_lstm", values, 56, 5, merge_outputs=True)


def test_an_rnn_step() -> None:
    values = dict(enumerate([uniform(2, 5), *rnn_operands(np.random.default_rng(4), 5, 6, 2)]))
    check("rnn", values, 5, 2, activation="tanh")


def test_rnns_over_a_sequence() -> None:
    rng = np.random.default_rng(5)
    forward, backward = rnn_operands(rng, 5, 6, 2), rnn_operands(rng, 5, 3, 2)
    check(
        "unidirectional_sequence_rnn", dict(enumerate([uniform(2, 3, 5), *forward])), 5, 2, activation="relu6"
    )
    values = dict(enumerate([uniform(2, 3, 5), *forward, *backward]))
    check("bidirectional_sequence_rnn", values, 12, 4, activation="relu6")


@pytest.mark.parametrize("shift", ["before", "after"])
def test_svdf(shift: str) -> None:
    shapes = (2, 5), (8, 5), (8, 4), (4,), (2, 32)
    check(
        "svdf",
        {n: uniform(*shape) for n, shape in enumerate(shapes)},
        5,
        2,
        rank=2,
        shift=shift,
        activation="relu",
    )
