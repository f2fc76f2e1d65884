"""Reports all that a format cannot express of a graph, and checks that a written file reads back as the same graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
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
    faults = Refusals() if refusals is None else refusals
    for node in graph.nodes:
        if faults.has(node.name):
            continue
        try:
            convert(node)
        except GraphError as fault:
            faults.add(node.name, str(fault))
            if refused is not None:
                refused(node)
    if refusals is None:
        faults.check()


_SHOWN = 4


def check_same(wanted: Graph, read: Graph, format: str) -> None:
    """Raise GraphError that names the layers which read back differently, and what differs."""
    refusals = Refusals()
    _compare(wanted, read, refusals, format)
    refusals.check()


def _compare(wanted: Graph, read: Graph, refusals: Refusals, format: str) -> None:
    for ours, theirs in zip_longest(wanted.nodes, read.nodes):
        if ours is None or theirs is None or ours.op != theirs.op:
            node = ours or theirs
            refusals.add(node.name, f"{format} reads {getattr(theirs, 'op', 'nothing')} in its place")
            return
        if wrong := _difference(wanted, ours, read, theirs, format):
            refusals.add(ours.name, wrong)
        for body, twin in zip(ours.bodies, theirs.bodies, strict=False):
            _compare(body, twin, refusals, format)


def _difference(wanted: Graph, ours: Node, read: Graph, theirs: Node, format: str) -> str | None:
    """Return what differs between a node and the node read back; None if nothing does."""
    own, back = vars(ours.parameters), vars(theirs.parameters)
    names = [name for name in own if _stored(own[name]) != _stored(back.get(name))]
    if names:
        shown = ", ".join(f"{name} = {_value(own[name])}" for name in names[:_SHOWN])
        return f"{format}'s {ours.op} has no {shown}"
    # Results that the written graph does not have may differ.
    results = zip_longest(ours.outputs, theirs.outputs[: len(ours.outputs)])
    pairs = [*zip_longest(ours.inputs, theirs.inputs), *results]
    for position, (mine, other) in enumerate(pairs):
        here_is, there_is = _type(wanted, mine), _type(read, other)
        if here_is != there_is:
            return f"its tensor {position} is {_shown(here_is)}, which {format} reads as {_shown(there_is)}"
    return None


def _stored(value: Any) -> Any:
    """Return a number as the file stores it: floats have 32 bits."""
    return np.float32(value).item() if isinstance(value, float) else value


def _value(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _type(graph: Graph, number: int | None) -> TensorType | None:
    """Return a tensor's type as the file stores it; a single channel's scale becomes that of the tensor."""
    if number is None:
        return None
    kind = graph.tensors[number].type
    scaling = kind.quantization
    if scaling is None:
        return kind
    scales = tuple(map(_stored, scaling.scales))
    axis = scaling.axis if len(scales) > 1 else None
    return replace(kind, quantization=replace(scaling, scales=scales, axis=axis))


def _shown(kind: TensorType | None) -> str:
    if kind is None:
        return "absent"
    scaling = kind.quantization
    codes = "" if scaling is None else f" of scale {scaling.scale:.6g} and zero point {scaling.zero_point}"
    return f"{kind.dtype}{list(kind.shape)}{codes}"
