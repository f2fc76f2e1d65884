"""State tensors: which layers update them, and that nobody else reads what they update."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.operator import Call, Operator

Uses = Sequence[tuple[Operator, Call]]


def updates(graph: Graph, node: Node, each: Operator) -> tuple[int, ...]:
    """The positions of a node's inputs whose values it replaces: its operator's states, if they are states here."""
    tensors = [node.inputs[position] for position in each.states if position < len(node.inputs)]
    return each.states if tensors and set(tensors) <= set(graph.variables) else ()


def updated(graph: Graph, uses: Uses) -> tuple[int, ...]:
    """The state tensors that some layer updates, in the order of the graph."""
    found = {
        node.inputs[position]
        for node, (each, _) in zip(graph.nodes, uses, strict=True)
        for position in updates(graph, node, each)
    }
    return tuple(tensor for tensor in dict.fromkeys(graph.variables) if tensor in found)


def check_states(graph: Graph, uses: Uses) -> None:
    """Raise GraphError for a state that others than the layer that updates it read.

    Before or after the update would be a question of order, which only operands decide.
    """
    states = set(updated(graph, uses))
    if not states:
        return
    readers: dict[int, list[str]] = {tensor: [] for tensor in states}
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor in readers:
                readers[tensor].append(node.name)
    for tensor, names in readers.items():
        where = f'{graph.name}: state tensor "{graph.tensors[tensor].name}"'
        if len(names) > 1:
            several = ", ".join(f'"{name}"' for name in names[:3]) + (", ..." if len(names) > 3 else "")
            raise GraphError(
                f"{where} is read {len(names)} times, by {several}; it may be read once, by the layer that updates it"
            )
