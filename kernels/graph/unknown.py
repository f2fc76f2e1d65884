"""Operators that npusim does not have: named all at once, or timed as host layers by their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from npusim.isa.base.errors import GraphError
from npusim.isa.program.program import UNKNOWN
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.parameters import Unchecked
from npusim.kernels.table import known


def require_known(graph: Graph) -> None:
    """Raises GraphError that names every operator of a graph, its bodies included, that npusim does not have, with its
    count.
    """
    missing = Counter(sorted(node.op for node in _operators(graph) if not known(node.op)))
    if not missing:
        return
    what = "1 operator is" if len(missing) == 1 else f"{len(missing)} operators are"
    named = ", ".join(f"{shown(op)} ({count})" for op, count in missing.items())
    raise GraphError(
        f"{graph.name}: {what} not known to npusim: {named}; npusim run --unknown host times them as host layers"
    )


def _operators(graph: Graph) -> Iterator[Node]:
    """Return the nodes of a graph that decide nothing, and those of the bodies of the others."""
    for node in graph.nodes:
        if not node.bodies:
            yield node
        for body in node.bodies:
            yield from _operators(body)


def shown(op: str) -> str:
    """Return an operator's name as model files spell it, such as CAST; a name with quotes stays as it is."""
    return op if '"' in op else op.upper()


def unknown_on_host(graph: Graph) -> Graph:
    """Return the graph with unknown operators as host layers that are timed by their bytes and give no results."""
    return replace(graph, nodes=tuple([_on_host(node) for node in graph.nodes]))


def _on_host(node: Node) -> Node:
    if node.bodies:
        return replace(node, bodies=tuple([unknown_on_host(body) for body in node.bodies]))
    return node if known(node.op) else _marked(node)


def _marked(node: Node) -> Node:
    return replace(node, op=UNKNOWN + shown(node.op), parameters=Unchecked.of(node.parameters.plain()))
