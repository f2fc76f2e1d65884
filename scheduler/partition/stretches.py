"""Stretches of a graph: nodes in a row that decide nothing, each a graph of its own that becomes a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph, Node


def stretches(graph: Graph) -> Iterator[Graph | Node]:
    """The nodes that decide, and between them graphs of the others, in order; tensors keep their numbers.

    Results that nobody needs are not computed. Raises GraphError for a state that one stretch reads and another one
    updates.
    """
    groups = [tuple(group) for _, group in groupby(graph.nodes, key=lambda node: bool(node.bodies))]
    needed = {*graph.outputs, *(state.after for state in graph.states)}
    wanted: list[set[int]] = []
    for group in reversed(groups):
        wanted.insert(0, set(needed))
        needed |= _read(group)
    for group, outside in zip(groups, wanted, strict=True):
        if group[0].bodies:
            yield from group
        elif inside := _stretch(graph, group, outside):
            yield inside


def _read(nodes: Sequence[Node]) -> set[int]:
    return {number for node in nodes for number in node.inputs if number is not None}


def _stretch(graph: Graph, nodes: tuple[Node, ...], outside: set[int]) -> Graph | None:
    """Nodes as a graph whose outputs are what is needed outside of it; None if nothing is."""
    written = [number for node in nodes for number in node.outputs]
    states = tuple(state for state in graph.states if state.after in written)
    read = _read(nodes) - set(written)
    for state in graph.states:
        if (state.before in read) != (state in states):
            name = graph.tensors[state.before].name
            raise GraphError(
                f'{graph.name}: state "{name}" is read on one side of a layer that decides, and updated on the other'
            )
    results = tuple(
        number for number in written if number in outside and number not in {s.after for s in states}
    )
    if not results and not states:
        return None
    kept = {state.before for state in states}
    inputs = sorted(number for number in read - kept if not graph.tensors[number].constant)
    return Graph(graph.name, graph.tensors, nodes, tuple(inputs), results or (states[0].after,), states)
