"""Nodes that decide, whose bodies are graphs: what the check asks of them and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph, Node, State, Tensor
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operators.movement.joining import ConcatenationParameters
from npusim.kernels.operators.movement.slicing import SliceParameters
from npusim.scheduler.compile import compile_graph

CODES = TensorType("int8", (1, 4), Quantization((0.5,), (0,)))
FLAGS = TensorType("bool", (10,))
FLAG = TensorType("bool", (1,))
TURNS = 7


def branch(op: str) -> Graph:
    """x -> op(x)."""
    return Graph(op, (Tensor("x", CODES), Tensor("y", CODES)), (Node(op, op, (0,), (1,)),), (0,), (1,))


def decision() -> Graph:
    """relu(x) if the flag holds, otherwise x negated by nothing: itself."""
    tensors = (Tensor("flag", FLAG), Tensor("x", CODES), Tensor("y", CODES))
    node = Node("choose", "if", (0, 1), (2,), bodies=(branch("relu"), branch("relu6")))
    return Graph("net", tensors, (node,), (0, 1), (2,))


def loop_test() -> Graph:
    """The first of the flags."""
    tensors = (Tensor("x", CODES), Tensor("flags", FLAGS), Tensor("first", FLAG))
    first = Node("first", "slice", (1,), (2,), SliceParameters(begin=(0,), size=(1,)))
    return Graph("test", tensors, (first,), (0, 1), (2,))


def turn() -> Graph:
    """x + x in the scale of x, and the flags one place further."""
    tensors = (
        Tensor("x", CODES),
        Tensor("flags", FLAGS),
        Tensor("one", CODES, np.full((1, 4), 1, np.int8)),
        Tensor("last", FLAG, np.zeros(1, bool)),
        Tensor("sum", CODES),
        Tensor("others", replace(FLAGS, shape=(9,))),
        Tensor("moved", FLAGS),
    )
    nodes = (
        Node("add", "add", (0, 2), (4,), Activated()),
        Node("others", "slice", (1,), (5,), SliceParameters(begin=(1,), size=(9,))),
        Node("moved", "concatenation", (5, 3), (6,), ConcatenationParameters(axis=0)),
    )
    return Graph("turn", tensors, nodes, (0, 1), (4, 6))


def loop() -> Graph:
    """Adds 1 to the codes of x as often as flags hold, from the first on."""
    tensors = (Tensor("x", CODES), Tensor("flags", FLAGS), Tensor("y", CODES), Tensor("rest", FLAGS))
    node = Node("loop", "while", (0, 1), (2, 3), bodies=(loop_test(), turn()))
    return Graph("net", tensors, (node,), (0, 1), (2,))


def changed(graph: Graph, **changes: object) -> Graph:
    """The graph with its only node changed."""
    return replace(graph, nodes=(replace(graph.nodes[0], **changes),))  # type: ignore[arg-type]


X = np.array([[-128, -3, 4, 100]], np.int8)


@pytest.mark.parametrize(("flag", "expected"), [(True, [0, 0, 4, 100]), (False, [0, 0, 4, 12])])
def test_a_condition_chooses_the_body(flag: bool, expected: list[int]) -> None:
    graph = check(decision())
    assert evaluate(graph, [np.array([flag]), X])[2].tolist() == [expected]


def test_a_loop_takes_as_many_turns_as_its_test_says() -> None:
    graph = check(loop())
    flags = np.arange(10) < TURNS
    values = evaluate(graph, [X, flags])
    assert values[2].tolist() == [[-128 + TURNS, -3 + TURNS, 4 + TURNS, 100 + TURNS]]
    assert not values[3].any()


FAULTS: list[tuple[Callable[[], Graph], str]] = [
    (lambda: changed(decision(), bodies=(branch("relu"),)),
     'layer "choose" (if): has 1 bodies, must have then, otherwise'),
    (lambda: changed(decision(), inputs=(0,)), 'layer "choose" (if), then: inputs: 1, the layer has 0'),
    (lambda: changed(decision(), inputs=(0, None)),
     'layer "choose" (if), then: input 0: the layer\'s operand is absent'),
    (lambda: changed(decision(), inputs=(1, 1)),
     'layer "choose" (if): the condition is int8[1, 4] with scales, must be one bool'),
    (lambda: changed(decision(), inputs=(0, 0)),
     'layer "choose" (if), then: input 0: is int8[1, 4] with scales, the layer has bool[1]'),
    (lambda: changed(decision(), bodies=(branch("relu"), branch("relu2"))), ""),
    (lambda: changed(decision(), bodies=(branch("relu"), replace(branch("relu"), nodes=()))),
     'layer "choose" (if), otherwise: model output "y": no operator writes it'),
    (lambda: changed(decision(), bodies=(branch("relu"), replace(branch("relu"), states=(State(0, 1),)))),
     'layer "choose" (if), otherwise: keeps a state; what lasts is an operand and a result'),
    (lambda: changed(loop(), bodies=(turn(), turn())),
     'layer "loop" (while), test: the condition is int8[1, 4] with scales, bool[10], must be one bool'),
    (lambda: changed(loop(), bodies=(loop_test(), loop_test())),
     'layer "loop" (while), turn: outputs: 1, the layer has 2'),
]  # fmt: skip


@pytest.mark.parametrize(("made", "text"), FAULTS, ids=range(len(FAULTS)))
def test_bodies_fit_their_node(made: Callable[[], Graph], text: str) -> None:
    if not text:  # an operator that npusim does not have is refused when it is compiled, not by the check
        assert check(made())
        return
    with pytest.raises(GraphError) as fault:
        check(made())
    assert str(fault.value) == text


def test_a_program_is_straight_line() -> None:
    with pytest.raises(GraphError) as fault:
        compile_graph(loop(), npusim.hardware("edge-128"))
    assert str(fault.value) == (
        'net: layer "loop" (while) decides, so the model is several programs; npusim run takes it, '
        "this takes one program"
    )
