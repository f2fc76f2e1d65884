"""Graphs from operations of a model: all of them, or a piece.

An operand that nothing in the graph has written becomes an input of the graph when it is first read, or a constant if
its value is known. Images are NCHW in the model and NHWC in the graph (`npusim.kernels.graph.layout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npusim.frontends.nnadapter.errors import FeatureNotSupported, InvalidDimensions
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import Shape
from npusim.frontends.nnadapter.operations import table
from npusim.frontends.nnadapter.operations.conversion import (
    Bound,
    Conversion,
    NotKnown,
    require_sound,
)
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.layout import NCHW, LayoutBuilder


class Parts:
    """A graph in the making from operations of a model, in an order in which they can run.

    builder:  what the nodes go to.
    in_reals: whether operations on codes are computed on real numbers, as `builtin_device` does.
    inputs:   the operands that became inputs of the graph, in its order.
    values:   of operands whose values follow from constants and shapes.
    groups:   of each node of the graph the number of the operation that it belongs to.
    """

    def __init__(
        self, name: str, shapes: Mapping[Operand, Shape] | None = None, *, in_reals: bool = False
    ) -> None:
        """`shapes` are those of operands whose types leave sizes open."""
        self.builder = LayoutBuilder(name, NCHW)
        self.in_reals = in_reals
        self.inputs: list[Operand] = []
        self.values: dict[Operand, Array] = {}
        self.groups: list[int] = []
        self._shapes = dict(shapes or {})
        self._tensors: dict[Operand, int] = {}

    def known(self, operand: Operand) -> Array | None:
        """The value of an operand, where it is fixed before anything runs."""
        return operand.buffer if operand.buffer is not None else self.values.get(operand)

    def shape(self, operand: Operand) -> Shape:
        """The sizes of an operand. Raises NotKnown if they are not known."""
        if operand in self._tensors:
            return self.builder.shape(self._tensors[operand])
        known = self.known(operand)
        if known is not None:
            return known.shape
        shape = self._shapes.get(operand, operand.type.shape)
        if min(shape, default=0) < 0:
            raise NotKnown("model", "the shape", f"{operand.name}: {operand.type.words()}")
        return shape

    def tensor(self, operand: Operand) -> int:
        """The tensor of an operand, a new input or constant if it has none. Raises NotKnown for unknown sizes."""
        if operand not in self._tensors:
            known = self.known(operand)
            if known is not None:
                made = self.builder.constant(operand.name, known, operand.type.quantization)
            else:
                made = self.builder.input(operand.name, operand.type.tensor_type(self.shape(operand)))
                self.inputs.append(operand)
            self._tensors[operand] = made
        return self._tensors[operand]

    def add(self, operation: Operation) -> None:
        """Adds the nodes of an operation. Raises InvalidParameter for a broken rule, NotKnown where a value lacks."""
        row = table.row(operation.type)
        bound = Bound(operation, row.signature)
        first = len(self.builder.nodes)
        results = row.convert(Conversion(bound, self))
        for node in self.builder.nodes[first:]:
            require_sound(self.builder, node, operation.place)
        self._grow(operation.index)
        for operand, tensor in zip(operation.output_operands, results, strict=False):
            self._tensors[operand] = tensor
            self.builder.tensors[tensor] = replace(self.builder.tensors[tensor], name=operand.name)

    def _grow(self, group: int) -> None:
        self.groups += [group] * (len(self.builder.nodes) - len(self.groups))

    def graph(self, outputs: Sequence[Operand]) -> Graph:
        """The graph with these outputs; what brings them into the model's layout belongs to the last operation."""
        graph = self.builder.graph([self.tensor(operand) for operand in outputs])
        self._grow(self.groups[-1] if self.groups else 0)
        return graph


def graph_of(
    name: str,
    operations: Sequence[Operation],
    outputs: Sequence[Operand],
    shapes: Mapping[Operand, Shape],
    *,
    inputs: Sequence[Operand] = (),
    in_reals: bool = False,
) -> tuple[Graph, Parts]:
    """The graph of operations in their order, with the inputs that are said first, in this order.

    Raises InvalidParameter, InvalidDimensions for an input whose sizes are not known, FeatureNotSupported where a value
    that only a run gives decides shapes or parameters.
    """
    parts = Parts(name, shapes, in_reals=in_reals)
    try:
        for operand in inputs:
            parts.tensor(operand)
    except NotKnown as fault:
        raise InvalidDimensions(str(fault)) from None
    try:
        for operation in operations:
            parts.add(operation)
        return parts.graph(outputs), parts
    except NotKnown as fault:
        raise FeatureNotSupported(str(fault)) from None
