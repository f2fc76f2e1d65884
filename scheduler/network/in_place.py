"""Updates in place: results that take the place of the tensor of which they replace some values."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.kernels.graph.graph import Graph
from npusim.scheduler.network.storage import Aliases


def update_in_place(graph: Graph, aliases: Aliases, updates: Sequence[int]) -> tuple[Aliases, set[int]]:
    """Let results share the memory of the tensors that they update, and return the nodes that then copy nothing.

    updates: the nodes that write into a copy of their first input. No copy is needed if the input is the old value of
    the state whose next value they give. Nor is it for what is neither a model input or output nor a constant, if no
    other operand of the node shares its memory, and no later node reads or writes that.
    """
    parent = dict(aliases.parent)
    forest = Aliases(parent)
    kept = {*graph.inputs, *graph.outputs, *[tensor for state in graph.states for tensor in state]}
    kept |= {index for index, tensor in enumerate(graph.tensors) if tensor.constant}
    last_use: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        for tensor in (*node.inputs, *node.outputs):
            if tensor is not None:
                last_use[forest.root(tensor)[0]] = number
    fixed = {forest.root(tensor)[0] for tensor in kept}
    in_place = set()
    for number in updates:
        (before, *others), after = graph.nodes[number].inputs, graph.nodes[number].outputs[0]
        assert before is not None
        root, _ = forest.root(before)
        shared = root in [forest.root(tensor)[0] for tensor in others if tensor is not None]
        if forest.root(after) == forest.root(before):
            in_place.add(number)
        elif after not in parent and root not in fixed and last_use[root] == number and not shared:
            parent[after] = before, 0
            last_use[root] = last_use[after]
            if after in fixed:
                fixed.add(root)
            in_place.add(number)
    return forest, in_place
