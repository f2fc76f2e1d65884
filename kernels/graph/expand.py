"""Expansion of operators that no unit computes as a whole into simpler ones."""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.call import call_of
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.table import operator


def expand(graph: Graph, hardware: Hardware) -> Graph:
    """Return the graph with calls replaced by simpler ones where the NPU computes these.

    A call is replaced only if each of its parts runs on the NPU or is one that the host may compute (`on_host` of its
    expansion). Otherwise it stays whole.
    """
    tensors, nodes = list(graph.tensors), []
    states = frozenset(state.after for state in graph.states)
    for node in graph.nodes:
        found = _parts(graph, node, hardware)
        if found is None:
            nodes.append(node)
            continue
        added, parts = _nodes(len(tensors), graph, node, found, states)
        whole = replace(graph, tensors=(*tensors, *added))
        beside = {f"{node.name}/{name}" for name in found.on_host}
        if all(part.name in beside or _on_npu(whole, part, hardware) for part in parts):
            tensors += added
            nodes += parts
        else:
            nodes.append(node)
    return (
        graph if tuple(nodes) == graph.nodes else replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))
    )


def _parts(graph: Graph, node: Node, hardware: Hardware) -> Expansion | None:
    """Return a node as simpler calls, if it has some and nothing else computes it."""
    entry = operator(node.op)
    if node.on_host or hardware.lacks(node.op) or not (entry.expand or entry.arithmetics):
        return None
    call = call_of(graph, node)
    expand = entry.expander(call)
    if expand is None:  # rules and lowerings cost more to ask
        return None
    if entry.broken_rule(call) is not None or entry.lowering(call, hardware) is not None:
        return None
    return expand(call)


def _on_npu(graph: Graph, node: Node, hardware: Hardware) -> bool:
    entry, call = operator(node.op), call_of(graph, node)
    return entry.broken_rule(call) is None and entry.lowering(call, hardware) is not None


def _nodes(
    first: int, graph: Graph, node: Node, found: Expansion, states: frozenset[int]
) -> tuple[list[Tensor], list[Node]]:
    """Return the simpler calls as nodes, and the tensors between them, which get numbers from `first` on.

    A result that is an output twice, or the next value of a state, is copied there.
    """
    number: dict[int, int | None] = dict(enumerate(node.inputs))
    copies: list[tuple[int, int]] = []
    for value, output in zip(found.results, node.outputs, strict=False):
        if value in number or output in states or found.values[value] != graph.tensors[output].type:
            copies.append((value, output))
        else:
            number[value] = output
    added: list[Tensor] = []
    for value in sorted({**found.constants, **found.values}):
        if value in number:
            continue
        number[value] = first + len(added)
        constant = found.constants.get(value)
        name = f"{node.name}/{value}"
        added.append(
            Tensor(name, found.values[value])
            if constant is None
            else Tensor(name, constant.type, constant.data)
        )
    nodes = [
        Node(
            f"{node.name}/{part.name}",
            part.op,
            tuple([None if each is None else number[each] for each in part.inputs]),
            tuple([_given(number, each) for each in part.outputs]),
            part.parameters,
        )
        for part in found.parts
    ]
    for position, (value, output) in enumerate(copies):
        shape = operator("reshape").parameters(shape=graph.tensors[output].type.shape)
        nodes.append(Node(f"{node.name}/copy_{position}", "reshape", (number[value],), (output,), shape))
    return added, nodes


def _given(number: dict[int, int | None], value: int) -> int:
    found = number[value]
    assert found is not None
    return found
