"""Check of a written file: the graph that is read back must equal the graph that was written."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from npusim.frontends.inexpressible import Refusals
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Graph, Node

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
    here, there = vars(ours.parameters), vars(theirs.parameters)
    names = [name for name in here if _stored(here[name]) != _stored(there.get(name))]
    if names:
        found = ", ".join(f"{name} = {_value(here[name])}" for name in names[:_SHOWN])
        return f"{format}'s {ours.op} has no {found}"
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
