"""Operators that npusim does not have: named all at once, or timed as host layers by their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from npusim.isa.base.errors import GraphError, SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.isa.program.program import UNKNOWN
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Unchecked


def missing(graph: Graph, known: Callable[[str], bool]) -> Counter[str]:
    """The operators of a graph that are not known, and how often each occurs, in order of their names."""
    return Counter(sorted(node.op for node in graph.nodes if not known(node.op)))


def refusal(graph: Graph, found: Counter[str]) -> GraphError:
    """The error that names them all."""
    what = "1 operator is" if len(found) == 1 else f"{len(found)} operators are"
    named = ", ".join(f"{shown(op)} ({count})" for op, count in found.items())
    return GraphError(
        f"{graph.name}: {what} not known to npusim: {named}; --unknown host times them as host layers"
    )


def shown(op: str) -> str:
    """An operator as model files call it: CAST; those of somebody's own keep their name."""
    return op if op.startswith("custom ") else op.upper()


def on_host(graph: Graph, known: Callable[[str], bool]) -> Graph:
    """The graph with operators that are not known marked as such: they compile to host layers without results."""
    nodes = tuple([node if known(node.op) else _unknown(node) for node in graph.nodes])
    return replace(graph, nodes=nodes)


def _unknown(node: Node) -> Node:
    return replace(node, op=UNKNOWN + shown(node.op), parameters=Unchecked.of(node.parameters.plain()))


def unknown_operator(name: str) -> Operator:
    """An operator of which only the operands are known."""
    return Operator(
        name=name,
        parameters=Unchecked,
        types=(),
        rules=(),
        infer=_as_they_are,
        reference=_nothing,
        workload=_bytes_moved,
        on_host="npusim does not know it; timed by its bytes alone, without results",
    )


def _as_they_are(call: Call) -> Shapes:
    """Its outputs alone say their shapes."""
    return tuple(output.shape for output in call.outputs)


def _nothing(call: Call, values: Values) -> list[Array]:
    raise SimulationError("an operator that npusim does not know has no results; only its time is estimated")


def _bytes_moved(call: Call) -> Workload:
    """All bytes that it reads and writes pass through the host once, as fast as the host copies."""
    given = {position: tensor for position, tensor in enumerate(call.inputs) if tensor is not None}
    constants = sum(tensor.size_bytes for position, tensor in given.items() if position in call.constants)
    read = sum(tensor.size_bytes for tensor in given.values()) - constants
    written = sum(output.size_bytes for output in call.outputs)
    return Workload(kind="move", weight_bytes=constants, output_bytes=read + written)
