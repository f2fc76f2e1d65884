"""The base class of the ONNX and NNEF writers, and the view of a graph's node that all writers convert."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npusim.frontends.inexpressible import for_every_node
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph, Node

LIMITS = {"relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0), "relu_0_to_1": (0.0, 1.0)}
"""The range to which an operator or activation clips, without "relu", which has no upper limit."""


class Layer:
    """A node that is being written. Its operands are tensors by number: `layer[0]` is the first.

    params: its parameters.
    result: its first result.
    """

    def __init__(self, graph: Graph | GraphBuilder, node: Node) -> None:
        self._graph = graph
        self.node = node
        self.op, self.name, self.inputs, self.outputs = node.op, node.name, node.inputs, node.outputs
        self.params: Any = node.parameters
        self.result = node.outputs[0]

    def __getitem__(self, position: int) -> int:
        """Return an operand. Raises GraphError if it is left out."""
        number = self.inputs[position] if position < len(self.inputs) else None
        if number is None:
            raise GraphError(f"its operand {position} is absent")
        return number

    @property
    def given(self) -> Sequence[int]:
        """The operands that are not left out."""
        return [number for number in self.inputs if number is not None]

    def kind_of(self, position: int) -> TensorType:
        """Return the type of an operand."""
        return self._graph.tensors[self[position]].type

    @property
    def kind(self) -> TensorType:
        """The type of the first operand."""
        return self.kind_of(0)

    @property
    def wanted(self) -> TensorType:
        """The type of the first result."""
        return self._graph.tensors[self.result].type

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first operand."""
        return self.kind.shape

    @property
    def axis(self) -> int:
        """The parameter `axis`, counted from the front of the first operand."""
        axis: int = self.params.axis % len(self.shape)
        return axis


class Writing:
    """A model under construction in a format whose images have their channels first.

    Tensors are known by their numbers. `lasts` has those in the graph's own order of axes, `firsts` the channels-first
    images. Images are transposed when an operation needs the other order.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lasts: dict[int, str] = {}
        self.firsts: dict[int, str] = {}

    def convert_all(self, convert: Callable[[Layer], None]) -> None:
        """Convert all nodes. Raises GraphError that names those which the format cannot express."""

        def refused(node: Node) -> None:
            # A refused node gets results all the same, so that nodes behind it can be examined too.
            self.lasts |= dict.fromkeys(node.outputs, "")

        for_every_node(self.graph, lambda node: convert(Layer(self.graph, node)), refused=refused)

    def kind(self, number: int) -> TensorType:
        """Return the type of a tensor of the graph."""
        return self.graph.tensors[number].type

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a tensor of the graph."""
        return self.kind(number).shape

    def is_first(self, number: int) -> bool:
        """Return whether a tensor exists only channels-first."""
        return number in self.firsts and number not in self.lasts
