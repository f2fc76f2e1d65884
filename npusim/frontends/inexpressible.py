"""Refusals of a model writer: everything in a graph that a format cannot express, in one message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph, Node, quoted

_MOST_NAMES = 3


class Refusals:
    """The layers that a format cannot express, collected by reason. A reason does not name the layer."""

    def __init__(self) -> None:
        self._layers: dict[str, list[str]] = {}

    def add(self, name: str, reason: str) -> None:
        """Add a layer and the reason."""
        self._layers.setdefault(reason, []).append(name)

    def has(self, name: str) -> bool:
        """Return whether a layer is among them."""
        return any(name in names for names in self._layers.values())

    def check(self) -> None:
        """Raise GraphError with all reasons and the names of their layers, if there are any."""
        if self._layers:
            raise GraphError("; ".join(f"{_layers(names)}: {why}" for why, names in self._layers.items()))


def _layers(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"layer{'s' if len(names) > 1 else ''} {shown}{more}"


def for_every_node(
    graph: Graph,
    convert: Callable[[Node], None],
    refusals: Refusals | None = None,
    *,
    refused: Callable[[Node], None] | None = None,
) -> None:
    """Convert the nodes in order. Raises GraphError that names all nodes for which `convert` raises one, and why.

    If refusals are given, faults are added to them instead, and nodes that are among them already are skipped.
    `refused` is called for each node for which `convert` raises.
    """
    found = Refusals() if refusals is None else refusals
    for node in graph.nodes:
        if found.has(node.name):
            continue
        try:
            convert(node)
        except GraphError as fault:
            found.add(node.name, str(fault))
            if refused is not None:
                refused(node)
    if refusals is None:
        found.check()
