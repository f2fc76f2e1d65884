"""The order of nodes: files need not have one in which they can run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from npusim.frontends.forms.network import Network, Node


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, each behind those that make what it reads; otherwise as they come.

    Nodes of a circle stay at the end, where reading them says what is missing.
    """
    makers = {name: number for number, node in enumerate(nodes) for name in node.outputs if name}
    behind: list[list[int]] = [[] for _ in nodes]
    waits = [0] * len(nodes)
    for number, node in enumerate(nodes):
        for maker in {makers[name] for name in values_read(node) if name in makers} - {number}:
            behind[maker].append(number)
            waits[number] += 1
    if all(number < reader for number, readers in enumerate(behind) for reader in readers):
        return tuple(nodes)
    ready, order = deque(number for number, count in enumerate(waits) if not count), []
    while ready:
        number = ready.popleft()
        order.append(number)
        for reader in behind[number]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    circle = [number for number, count in enumerate(waits) if count]
    return tuple(nodes[number] for number in (*order, *circle))


def values_read(node: Node) -> Iterator[str]:
    """The values that a node reads, those of the graphs in it included."""
    yield from node.inputs
    for value in node.attributes.values():
        if isinstance(value, Network):
            yield from value.outputs
            for inner in value.nodes:
                yield from values_read(inner)
