"""Chains of elementwise operations on one quantized value that become a look-up table of 256 entries.

Between a DequantizeLinear and a QuantizeLinear there may be several elementwise operations, like the Div, Erf, Add and
Mul of a GELU. If they depend on one 8-bit value and on constants of one element, their result is a function of 256
inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from npusim.frontends.forms.networks import Node
from npusim.frontends.forms.qdq import Codes
from npusim.isa.base.tensor import Array

POINTWISE = frozenset({
    "Abs", "Add", "Sub", "Mul", "Div", "Neg", "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "ThresholdedRelu",
    "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Exp", "Log", "Sqrt", "Reciprocal",
    "Pow", "Clip", "Min", "Max", "Gelu", "Mish", "Swish", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
    "Asinh", "Acosh", "Atanh", "Floor", "Ceil", "Round", "Sign", "Identity",
})  # fmt: skip
"""Operations that compute each result element from the elements at the same place of their inputs."""

_MOST_NODES = 64
"""Operations in one table; longer chains are computed as they stand."""

_BYTES = ("int8", "uint8")


class Region(NamedTuple):
    """Operations in the order of their execution, the last of which gives the result; source: the quantized value."""

    source: str
    nodes: tuple[Node, ...]


def region_of(
    node: Node,
    held: Mapping[str, Codes],
    makers: Mapping[str, Node],
    constants: Mapping[str, Array],
    target: Codes,
) -> Region | None:
    """Return the two or more operations that make a node a function of one 8-bit value; None if there are none."""
    found: dict[Node, None] = {}
    sources: set[str] = set()
    waiting: list[tuple[Node, bool]] = [(node, False)]
    while waiting:
        each, ready = waiting.pop()
        if ready:
            found[each] = None
            continue
        if each in found:
            continue
        if each.role.domain or each.role.operation not in POINTWISE or len(each.outputs) != 1:
            return None
        waiting.append((each, True))
        for name in filter(None, each.inputs):
            if name in constants:
                if np.size(constants[name]) != 1:
                    return None
            elif name in held:
                sources.add(name)
            elif name in makers:
                waiting.append((makers[name], False))
            else:
                return None
        if len(waiting) + len(found) > 3 * _MOST_NODES or len(found) > _MOST_NODES or len(sources) > 1:
            return None
    if len(found) < 2 or len(sources) != 1:
        return None
    [source] = sources
    if any(
        codes.dtype not in _BYTES or codes.quantization.axis is not None for codes in (held[source], target)
    ):
        return None
    return Region(source, tuple(found))


def unneeded(nodes: tuple[Node, ...], tables: Mapping[Node, Region], kept: set[str]) -> set[Node]:
    """Return the operations of tables whose results nothing else reads."""
    parts = {node for region in tables.values() for node in region.nodes}
    read = set(kept)
    gone = set()
    for node in reversed(nodes):
        if node in parts and not read.intersection(node.outputs):
            gone.add(node)
        elif node in tables:
            read.add(tables[node].source)
        else:
            read.update(node.inputs)
    return gone
