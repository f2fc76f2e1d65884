"""The reference interpreter of graphs: every tensor, node by node with the operators' numpy references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import SIZE_ONLY, Array
from npusim.kernels.graph.control import IF, body_operands
from npusim.kernels.graph.graph import Graph, Node, call_of, quoted
from npusim.kernels.operator.operands import code_of_zero
from npusim.kernels.table import operator

Values = Mapping[int, Array]
"""Values of tensors by number."""

MOST_TURNS = 1_000_000
"""Maximum number of iterations of a `while`; one that takes more is considered endless."""


def beginning(graph: Graph) -> dict[int, Array]:
    """Return the values of constants, and of states before the first run: real zero.

    Raises SimulationError for a constant known by its size only.
    """
    values = {}
    for number, tensor in enumerate(graph.tensors):
        if tensor.data is SIZE_ONLY:
            raise SimulationError(
                f"constant {quoted(tensor.name)} is {tensor.data.value}: it can be timed, not computed"
            )
        if tensor.array is not None:
            values[number] = tensor.array
    for state in graph.states:
        kind = graph.tensors[state.before].type
        values[state.before] = np.full(kind.shape, code_of_zero(kind), kind.numpy_dtype)
    return values


def evaluate(
    graph: Graph, inputs: Sequence[Array], states: Sequence[Array] | None = None
) -> dict[int, Array]:
    """Return every tensor of a bound graph that passes the check, by number.

    `inputs` are one array per `graph.inputs`, `states` one per `graph.states`, or None for those that begin.
    Raises SimulationError for a constant known by its size only and a loop without end.
    """
    values = beginning(graph) | dict(zip(graph.inputs, inputs, strict=True))
    if states is not None:
        befores = [state.before for state in graph.states]
        values |= dict(zip(befores, states, strict=True))
    for node in graph.nodes:
        values.update(zip(node.outputs, results(graph, node, values), strict=True))
    return values


def results(graph: Graph, node: Node, values: Values) -> list[Array]:
    """Return what a node computes from the values of its operands."""
    if node.bodies:
        return _decide(node, [values[number] for number in body_operands(node) if number is not None], values)
    operands = [None if number is None else values[number] for number in node.inputs]
    computed = operator(node.op).compute(call_of(graph, node), operands)
    return [np.asarray(result) for result in computed]  # of no dimensions numpy computes scalars


def _decide(node: Node, operands: list[Array], values: Values) -> list[Array]:
    if node.op == IF:
        condition = node.inputs[0]
        assert condition is not None
        return _outputs(node.bodies[0 if values[condition].any() else 1], operands)
    test, turn = node.bodies
    for _ in range(MOST_TURNS):
        if not _outputs(test, operands)[0].any():
            return operands
        operands = _outputs(turn, operands)
    raise SimulationError(
        f"layer {quoted(node.name)} ({node.op}): {MOST_TURNS} iterations, and its condition still holds"
    )


def _outputs(body: Graph, operands: Sequence[Array]) -> list[Array]:
    values = evaluate(body, operands)
    return [values[number] for number in body.outputs]
