"""Rewrites of a graph into a simpler one that computes the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npusim.kernels.graph import Graph, Node
from npusim.kernels.operator import Call, Operator

CallOf = Callable[[Graph, Node], Call]
OperatorOf = Callable[[str], Operator]


def fold_padding(
    graph: Graph, operator: OperatorOf, call_of: CallOf, value: Callable[[Call], int | float]
) -> Graph:
    """Let windows do the padding that a pad in front of them does.

    A pad disappears when all its readers are windows that read the very value outside their image that the pad
    would store there, and the padding is on height and width only.
    """
    for index, node in enumerate(graph.nodes):
        if node.op != "pad":
            continue
        readers = [other for other in graph.nodes if node.outputs[0] in other.inputs]
        folded = [_with_padding(graph, node, reader, operator, call_of, value) for reader in readers]
        if not readers or node.outputs[0] in graph.outputs or None in folded:
            continue
        swapped = dict(zip((id(reader) for reader in readers), folded, strict=True))
        nodes = (swapped.get(id(other), other) for k, other in enumerate(graph.nodes) if k != index)
        smaller = replace(graph, nodes=tuple(each for each in nodes if each is not None))
        return fold_padding(smaller, operator, call_of, value)
    return graph


def _with_padding(
    graph: Graph,
    pad: Node,
    reader: Node,
    operator: OperatorOf,
    call_of: CallOf,
    value: Callable[[Call], int | float],
) -> Node | None:
    """The reader with the pad's borders in its own padding; None if it cannot have them."""
    found, pad_call, reader_call = operator(reader.op), call_of(graph, pad), call_of(graph, reader)
    borders = pad.attributes["paddings"]
    source, padded = pad_call.inputs[0], pad_call.outputs[0]
    if found.border is None or reader.inputs.count(pad.outputs[0]) != 1 or reader.inputs[0] != pad.outputs[0]:
        return None
    if len(borders) != 4 or any(borders[0]) or any(borders[3]):
        return None
    if source is None or not padded.quantized or source.quantization != padded.quantization:
        return None
    if value(pad_call) != found.border(reader_call):
        return None
    own = reader.attributes["padding"]
    padding = [[own[axis][side] + borders[axis + 1][side] for side in (0, 1)] for axis in (0, 1)]
    changed = replace(
        reader,
        inputs=(pad.inputs[0], *reader.inputs[1:]),
        attributes={**reader.attributes, "padding": padding},
    )
    call = call_of(graph, changed)
    return changed if all(rule(call) for rule in (*found.rules, *found.npu_rules)) else None
