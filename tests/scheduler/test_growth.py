"""Time and energy of every operator are above zero and grow with its size, on the NPU and on the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import NAMES

from ..examples import examples
from .growing import ROWS, graph, types_of

EDGE = npusim.hardware("edge-128")
REALS = npusim.hardware("edge-128", ["vector.float16_lanes=4", "vector.float32_lanes=2"])
"""With lanes for real numbers, which edge-128 leaves to the host."""

OPERATORS_AND_TYPES = [(op, dtype) for op in ROWS for dtype in types_of(op)]
CASES = [
    *(pytest.param(op, dtype, EDGE, id=f"{op}-{dtype}") for op, dtype in OPERATORS_AND_TYPES),
    *(
        pytest.param(op, dtype, REALS, id=f"{op}-{dtype}-lanes")
        for op, dtype in OPERATORS_AND_TYPES
        if dtype == "float32"
    ),
]
SMALL = st.integers(1, 24)


def cost(made: Graph, hardware: Hardware, host: str = "", **decisions: int) -> tuple[int, float]:
    """Cycles and energy of a run of a graph, an operator forced to the host or none."""
    program = npusim.compile(made, hardware, host=[host] if host else [])
    said = {f"{made.name}/{node}": decision for node, decision in decisions.items()}
    if said:
        result = npusim.simulate(program, timing_only=True, decisions=said)
    else:
        result = npusim.simulate(program, timing_only=True)
    return result.cycles, result.energy_uj


def grows(costs: list[tuple[int, float]]) -> None:
    """Of n, 2 n and 8 n: above zero, never less for more, more for eight times as much."""
    for few, more, many in zip(*costs, strict=True):
        assert 0 < few <= more <= many
        assert few < many


def test_every_operator_has_a_row() -> None:
    assert sorted(ROWS) == sorted(NAMES)


@pytest.mark.cases(40)
@pytest.mark.parametrize(("op", "dtype", "hardware"), CASES)
@given(n=SMALL)
@examples(2)
def test_where_the_compiler_puts_it(op: str, dtype: str, hardware: Hardware, n: int) -> None:
    grows([cost(graph(op, dtype, size), hardware) for size in (n, 2 * n, 8 * n)])


@pytest.mark.cases(60)
@pytest.mark.parametrize(("op", "dtype"), OPERATORS_AND_TYPES)
@given(n=SMALL)
@examples(2)
def test_forced_to_the_host(op: str, dtype: str, n: int) -> None:
    grows([cost(graph(op, dtype, size), EDGE, host=op) for size in (n, 2 * n, 8 * n)])


# What decides

FLAG = TensorType("bool", (1,))


def body(op: str, rows: int, *, flagged: bool = False) -> Graph:
    """x -> op(x), and with a flag that as it was."""
    builder = GraphBuilder(op)
    x = builder.input("x", TensorType("float32", (rows, 64)))
    flags = [builder.input("flag", FLAG)] if flagged else []
    return builder.graph([*builder.node(op, [x], [builder.type(x)]), *flags])


def choice(rows: int) -> Graph:
    """abs(x) or neg(x)."""
    builder = GraphBuilder("net")
    flag, x = builder.input("flag", FLAG), builder.input("x", TensorType("float32", (rows, 64)))
    bodies = body("abs", rows), body("neg", rows)
    return builder.graph(builder.node("if", [flag, x], [builder.type(x)], name="decides", bodies=bodies))


def loop(rows: int) -> Graph:
    """neg(x) as long as a flag holds."""
    test = GraphBuilder("test")
    test.input("x", TensorType("float32", (rows, 64)))
    holds = test.node("logical_not", [test.input("flag", FLAG)], [FLAG])
    builder = GraphBuilder("net")
    x, flag = builder.input("x", TensorType("float32", (rows, 64))), builder.input("flag", FLAG)
    bodies = test.graph(holds), body("neg", rows, flagged=True)
    found = builder.node("while", [x, flag], [builder.type(x), FLAG], name="decides", bodies=bodies)
    return builder.graph(found[:1])


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("made", [choice, loop])
def test_if_and_while(made: Callable[[int], Graph], turns: int) -> None:
    decision = min(turns, 1) if made is choice else turns
    grows([cost(made(size), EDGE, decides=decision) for size in (4, 8, 32)])
