"""Networks: a model as its file gives it, as nodes, constants, inputs and outputs in plain values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import printable
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import quoted

STANDARD = ""
"""The domain of ONNX's own operations; "ai.onnx" is another name for it."""

MICROSOFT = "com.microsoft"

PADDLE = "paddle"
"""The domain of Paddle's operators."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation of a model.

    inputs, outputs: names of values; "" for one that is left out.
    attributes: plain values; tensors are arrays, and graphs are `Network`.
    slots: the inputs by the names that the file gives them; empty for formats that order them.
    twin: for an operation of another format, the ONNX operation that treats quantized values alike; None if none does.
    written: kind, inputs and outputs for partition files, in formats that have such files.
    """

    operation: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    slots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    twin: Node | None = None
    written: tuple[str, tuple[str, ...], tuple[str, ...]] | None = None

    @property
    def role(self) -> Node:
        """The node as the planning of quantized values sees it."""
        return self.twin or self

    @property
    def kind(self) -> str:
        """The operation with its domain, unless that is ONNX's own."""
        return f"{self.domain}.{self.operation}" if self.domain else self.operation

    @property
    def place(self) -> str:
        """The node's name and operation, for messages."""
        return f"node {quoted(self.name)} ({printable(self.kind)})"

    def fault(self, text: str) -> GraphError:
        """Return the error for this node."""
        return GraphError(f"{self.place}: {text}")


@dataclass(frozen=True, slots=True)
class Value:
    """An input of a model: its name, element type and sizes (None if the rank is unknown).

    A size is a number, the name of a size that the file leaves open, or "" for an open size without a name.
    """

    name: str
    dtype: str
    sizes: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Network:
    """A graph of a model: the main graph, or a body of a control-flow node.

    nodes:     in topological order.
    constants: by the names of their values.
    opsets:    opset versions by domain.
    narrow:    by name, the bits per element of constants and inputs that are stored one element per byte.
    foreign:   types of the results of operations that npusim lacks, as far as the file or its library states them.
    """

    name: str
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    inputs: tuple[Value, ...]
    outputs: tuple[str, ...]
    opsets: Mapping[str, int]
    notes: tuple[str, ...] = field(default=())
    narrow: Mapping[str, int] = field(default_factory=dict)
    foreign: Mapping[str, Value] = field(default_factory=dict)


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes, each behind those that compute its operands; otherwise in the given order.

    Nodes of a cycle stay at the end, where reading them reports the missing value.
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
    """Yield the values that a node reads, including those that its nested graphs read."""
    yield from node.inputs
    for value in node.attributes.values():
        if isinstance(value, Network):
            yield from value.outputs
            for inner in value.nodes:
                yield from values_read(inner)
