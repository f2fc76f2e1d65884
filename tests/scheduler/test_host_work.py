"""Sequences, regions, hashes and samples on the host: time and energy grow with every size.

`test_growth` has all operators, each with one size that grows; these are the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import npusim
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.table import operator

Inputs = list[TensorType | None]


def f(*shape: int) -> TensorType:
    return TensorType("float32", shape)


def i(*shape: int) -> TensorType:
    return TensorType("int32", shape)


def cost(op: str, inputs: Inputs, outputs: list[str], parameters: dict[str, Any]) -> tuple[int, float]:
    """Cycles and energy of one operator."""
    builder = GraphBuilder(op)
    numbers = [None if kind is None else builder.input(f"x{n}", kind) for n, kind in enumerate(inputs)]
    made = builder.node(
        op, numbers, [unshaped(dtype) for dtype in outputs], operator(op).parameters(**parameters)
    )
    result = npusim.simulate(npusim.compile(builder.graph(made)), timing_only=True)
    return result.cycles, result.energy_uj


def lstm(batch: int, inputs: int, cells: int) -> Inputs:
    gates: Inputs = [f(cells, inputs)] * 4 + [f(cells, cells)] * 4 + [None] * 3 + [f(cells)] * 4 + [None] * 2
    return [f(batch, inputs), *gates, f(batch, cells), f(batch, cells)]


REGION = {"size": (3, 3), "height_stride": 1.0, "width_stride": 1.0}

ROWS: list[tuple[str, Callable[[int], Inputs], list[str], dict[str, Any]]] = [
    ("lstm", lambda k: lstm(2, 8 * k, 16), ["float32"] * 3, {}),
    ("lstm", lambda k: lstm(2, 8, 16 * k), ["float32"] * 3, {}),
    ("rnn", lambda k: [f(1, 8 * k), f(8, 8 * k), f(8, 8), f(8), f(1, 8)], ["float32"] * 2, {}),
    ("svdf", lambda k: [f(1, 8), f(8 * k, 8), f(8 * k, 4), None, f(1, 32 * k)], ["float32"] * 2, {}),
    ("roi_align", lambda k: [f(1, 8 * k, 8, 4), f(5, 4), i(5)], ["float32"], REGION),
    ("roi_pooling", lambda k: [f(1, 8, 8, 4 * k), f(5, 4), i(5)], ["float32"], REGION),
    ("lsh_projection", lambda k: [f(4 * k, 3), i(5, 6)], ["int32"], {"type": "dense"}),
    ("random_multinomial", lambda k: [f(2, 10 * k), i(2)], ["int32"], {"samples": 10}),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "parameters"), ROWS)
def test_time_and_energy_grow(
    op: str, inputs: Callable[[int], Inputs], outputs: list[str], parameters: dict[str, Any]
) -> None:
    costs = [cost(op, inputs(factor), outputs, parameters) for factor in (1, 2, 4)]
    cycles, energies = zip(*costs, strict=True)
    assert 0 < cycles[0] < cycles[1] < cycles[2]
    assert 0 < energies[0] < energies[1] < energies[2]


def test_more_samples_take_longer() -> None:
    inputs: Inputs = [f(2, 10), i(2)]
    few, many = (cost("random_multinomial", inputs, ["int32"], {"samples": count}) for count in (10, 1000))
    assert few < many
