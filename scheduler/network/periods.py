"""Equal parts of a graph that follow one another, such as layers of a transformer, and the graph with fewer of them.

Two neighbouring parts are equal if their operators, parameters and types are, and if each operand is the same tensor or
comes from the corresponding place: it is computed there or, as an input or a constant, read there first. Constants must
be known by their size only or be the same tensor, because what the compiler makes of a constant may depend on its data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from npusim.isa.base.identity_cache import IdentityCache
from npusim.kernels.graph.graph import Graph, Node

_FEWEST_REMOVED = 3
"""Fewest parts that must become superfluous. With fewer, the search for equal instructions does not pay."""


class Shortened(NamedTuple):
    """A graph from which equal parts were removed.

    graph:   what is left; its tensors have their numbers.
    first:   number of the first node that was removed.
    size:    nodes of a part.
    removed: number of parts that were removed.
    begin:   number of the first node that is equal to the one a part later.
    """

    graph: Graph
    first: int
    size: int
    removed: int
    begin: int

    def starts_part(self, node: int) -> bool:
        """Return whether a node of the shortened graph is the first of a part."""
        return self.begin <= node and (node - self.begin) % self.size == 0

    @property
    def kept(self) -> int:
        """The number of parts that stay."""
        return (self.first - self.begin) // self.size

    def grouped(self, number: int) -> Shortened | None:
        """Return the same with so many parts taken as one; None if what stays and what was removed is not divisible."""
        if self.removed % number or self.kept % number:
            return None
        return self._replace(size=self.size * number, removed=self.removed // number)

    def like(self, node: int) -> range:
        """Return the nodes of the equal parts of the shortened graph that correspond to one of them."""
        return range(self.begin + (node - self.begin) % self.size, self.first, self.size)

    def shortened_node(self, number: int) -> int:
        """Return the node of the shortened graph that is or stands for a node of the whole one."""
        removed = self.removed * self.size
        if number < self.first:
            return number
        if number >= self.first + removed:
            return number - removed
        return self.first - self.size + (number - self.first) % self.size


_SHORTENED = IdentityCache[dict[int, Shortened | None]]()
"""The shortened forms of each graph, by the number of equal parts that they keep. They do not depend on the hardware,
so all points of a study share them, with all that is remembered about their nodes."""


def shortened(graph: Graph, kept: int) -> Shortened | None:
    """Return a graph without some of its equal parts, of which `kept` stay; None if it has too few of them."""
    known = _SHORTENED.of(graph, lambda _: {})
    if kept not in known:
        known[kept] = _shortened(graph, kept)
    return known[kept]


def _shortened(graph: Graph, kept: int) -> Shortened | None:
    if graph.decides or len(graph.nodes) < kept + _FEWEST_REMOVED:
        return None
    wiring = _Wiring(graph)
    run = _longest_run(wiring, len(graph.nodes), kept + _FEWEST_REMOVED)
    if run is None:
        return None
    begin, end, size = run
    removed = (end - begin) // size + 1 - kept
    first = begin + kept * size
    short = _without(graph, wiring, first, size, removed)
    return None if short is None else Shortened(short, first, size, removed, begin)


def origins(graph: Graph) -> dict[int | None, tuple[int, int]]:
    """Return the node and the position of the operand that defines each tensor.

    That is an output or, for a tensor that nothing computes, its first use as an input, counted from -1 down.
    """
    origin: dict[int | None, tuple[int, int]] = {}
    for number, node in enumerate(graph.nodes):
        for position, tensor in enumerate(node.inputs):
            origin.setdefault(tensor, (number, ~position))
        for position, tensor in enumerate(node.outputs):
            origin[tensor] = number, position
    return origin


class _Wiring:
    """The nodes of a graph as keys that are equal for equal calls, and where each operand comes from (`origins`).

    keys: one number per node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.origin = origins(graph)
        states = {tensor: position for state in graph.states for position, tensor in enumerate(state)}
        inputs, outputs = set(graph.inputs), set(graph.outputs)
        numbers: dict[Hashable, int] = {}

        def kind(tensor: int | None) -> Hashable:
            if tensor is None:
                return None
            held = graph.tensors[tensor]
            end = tensor in inputs, tensor in outputs, states.get(tensor)
            return held.type, held.constant, held.from_reals, end, tensor if held.array is not None else None

        def key(node: Node) -> int:
            ends = tuple(map(kind, node.inputs)), tuple(map(kind, node.outputs))
            return numbers.setdefault((node.op, node.parameters, node.on_host, ends), len(numbers))

        self.keys = [key(node) for node in graph.nodes]

    def equal(self, number: int, size: int) -> bool:
        """Return whether a node is equal to the one `size` nodes later, operands included."""
        if self.keys[number] != self.keys[number + size]:
            return False
        node, later = self.graph.nodes[number], self.graph.nodes[number + size]
        for operand, counterpart in zip(node.inputs, later.inputs, strict=True):
            if operand != counterpart:
                producer, position = self.origin[operand]
                if self.origin[counterpart] != (producer + size, position):
                    return False
        return True


def _longest_run(wiring: _Wiring, nodes: int, fewest: int) -> tuple[int, int, int] | None:
    """Return the longest run of nodes that are equal to those `size` later, as (begin, end, size).

    Its end is that of the nodes which have such a partner. It has at least `fewest` parts.
    """
    keys = wiring.keys
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for number, key in enumerate(keys):
        if key in last:
            distances[number - last[key]] += 1
        last[key] = number
    best = None
    for size, _ in distances.most_common(_MOST_DISTANCES):
        number = 0
        while number + size < nodes:
            begin = number
            while number + size < nodes and wiring.equal(number, size):
                number += 1
            if number - begin >= (fewest - 1) * size and (best is None or number - begin > best[1] - best[0]):
                best = begin, number, size
            number += 1
    return best


_MOST_DISTANCES = 8
"""Distances between equal nodes that are tried as the size of a part, the most frequent first."""


def _without(graph: Graph, wiring: _Wiring, first: int, size: int, removed: int) -> Graph | None:
    """Return a graph without the nodes of `removed` parts from `first` on; what reads them reads the parts before.

    None if a later node reads more of the parts than stay.
    """
    stop = first + removed * size
    gone = {tensor for node in graph.nodes[first:stop] for tensor in node.outputs}
    renamed = {}
    for tensor in {tensor for node in graph.nodes[stop:] for tensor in node.inputs if tensor in gone}:
        number, position = wiring.origin[tensor]
        if number < stop - size:
            return None
        renamed[tensor] = graph.nodes[number - removed * size].outputs[position]
    nodes = [*graph.nodes[:first], *(_renamed(node, renamed) for node in graph.nodes[stop:])]
    read = {tensor for node in nodes for tensor in node.inputs}
    dropped = {tensor for node in graph.nodes[first:stop] for tensor in node.inputs} - read
    states = [state for state in graph.states if not {state.before, state.after} & (gone | dropped)]
    return replace(
        graph,
        nodes=tuple(nodes),
        inputs=tuple(tensor for tensor in graph.inputs if tensor not in dropped),
        outputs=tuple(tensor for tensor in graph.outputs if tensor not in gone),
        states=tuple(states),
    )


def _renamed(node: Node, renamed: dict[int, int]) -> Node:
    inputs: Sequence[int | None] = [
        tensor if tensor is None else renamed.get(tensor, tensor) for tensor in node.inputs
    ]
    return node if tuple(inputs) == node.inputs else replace(node, inputs=tuple(inputs))
