"""Caches of keys and values as states: model inputs that the network updates and gives back as outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph, Node, State
from npusim.kernels.table import operator


def caches_in_place(graph: Graph) -> Graph:
    """Return the graph with its caches as states, so that a run writes only the new rows of each.

    A cache is an input that one operator updates at a place (`scatter_nd`, `dynamic_update_slice`) and nothing else
    reads, while the updated tensor is an output. Both leave the inputs and outputs: the state `INPUT` keeps its value
    from run to run. Raises GraphError for a graph without caches, and for one that has no other outputs.
    """
    writers = {output: node for node in graph.nodes for output in node.outputs}
    reads = Counter(operand for node in graph.nodes for operand in node.inputs)
    updated: dict[int, tuple[int, int]] = {}  # output -> the input, and the updated tensor
    for output in graph.outputs:
        update = _update(output, writers)
        before = None if update is None else update.inputs[0]
        if update is None or before not in graph.inputs or reads[before] != 1 or output in updated:
            continue
        types = graph.tensors[before].type, graph.tensors[update.outputs[0]].type
        if (types[0].dtype, types[0].shape) == (types[1].dtype, types[1].shape):
            updated[output] = before, update.outputs[0]
    if not updated:
        raise GraphError(
            f"{graph.name}: has no cache: no input that one operator updates and an output gives back"
        )
    outputs = tuple([output for output in graph.outputs if output not in updated])
    if not outputs:
        raise GraphError(f"{graph.name}: gives nothing but caches; a model needs another output")
    tensors = list(graph.tensors)
    updates = dict.fromkeys(updated.values())  # several outputs may give back one cache
    for before, after in updates:
        tensors[before] = replace(tensors[before], type=tensors[after].type)
    befores = {before for before, _ in updates}
    states = (*graph.states, *[State(*pair) for pair in updates])
    needed = {*outputs, *[after for _, after in states]}
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.insert(0, node)
            needed.update([operand for operand in node.inputs if operand is not None])
    return replace(
        graph,
        tensors=tuple(tensors),
        nodes=tuple(nodes),
        inputs=tuple([number for number in graph.inputs if number not in befores]),
        outputs=outputs,
        states=states,
    )


def _update(tensor: int, writers: Mapping[int, Node]) -> Node | None:
    """Return the node that updates a cache, if a tensor is its result or a reshape of that."""
    node = writers.get(tensor)
    while node is not None and node.op == "reshape":
        node = writers.get(node.inputs[0]) if node.inputs[0] is not None else None
    return node if node is not None and operator(node.op).updates else None
