"""Graphs from operations of a model: all of them, or a piece.

An operand that nothing in the graph has written becomes an input of the graph when it is first read, or a constant if
its value is known. Results that follow from constants and shapes are computed here, and are constants then. Images are
NCHW in the model and NHWC in the graph (`npusim.kernels.graph.layout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npusim.frontends.nnadapter.codes import MAX_SIZE_OF_DIMENSIONS
from npusim.frontends.nnadapter.errors import FeatureNotSupported, InvalidDimensions, InvalidParameter
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import Shape
from npusim.frontends.nnadapter.operations import table
from npusim.frontends.nnadapter.operations.bound import Bound
from npusim.frontends.nnadapter.operations.conversion import Conversion, NotKnown, require_sound
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.layout import NCHW, LayoutBuilder

MOST_ELEMENTS = 1 << 16
"""Maximum number of elements of a value that is folded into a constant: enough for shapes, too few for most weights.

Operations on weights must remain, so that they can be partitioned among devices.
"""


class Parts:
    """A graph in the making from operations of a model, in an order in which they can run.

    builder:  what the nodes go to.
    in_reals: whether operations on codes are computed on real numbers, as `builtin_device` does.
    inputs:   the operands that became inputs of the graph, in its order.
    values:   of operands whose values follow from constants and shapes: what they are.
    groups:   of each node of the graph the number of the operation that it belongs to.
    """

    def __init__(
        self,
        name: str,
        shapes: Mapping[Operand, Shape] | None = None,
        values: Mapping[Operand, Array] | None = None,
        *,
        in_reals: bool = False,
    ) -> None:
        """`shapes` and `values` are what is known of operands beside their types and constants."""
        self.builder = LayoutBuilder(name, NCHW)
        self.builder.read_with(MOST_ELEMENTS)
        self.in_reals = in_reals
        self.inputs: list[Operand] = []
        self.values: dict[Operand, Array] = dict(values or {})
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
        """Adds the nodes of an operation, or the values of its results where they follow from constants and shapes.

        Raises InvalidParameter for a broken rule, NotKnown where a value lacks.
        """
        bound = Bound(operation, table.row(operation.type).signature)
        first = len(self.builder.nodes)
        results = table.row(operation.type).convert(Conversion(bound, self))
        for node in self.builder.nodes[first:]:
            require_sound(self.builder, node, operation.place)
        self._grow(operation.index)
        for operand, tensor in zip(operation.output_operands, results, strict=False):
            shape = self.builder.shape(tensor)
            if len(shape) > MAX_SIZE_OF_DIMENSIONS:
                raise InvalidParameter(
                    f"{operation.place}: output has {len(shape)} dimensions, may have {MAX_SIZE_OF_DIMENSIONS}"
                )
            self._tensors[operand], self._shapes[operand] = tensor, shape
            self.builder.tensors[tensor] = replace(self.builder.tensors[tensor], name=operand.name)
            value = self.builder.tensors[tensor].array
            if value is not None:
                self.values[operand] = value

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
    values: Mapping[Operand, Array] | None = None,
    inputs: Sequence[Operand] = (),
    in_reals: bool = False,
) -> tuple[Graph, Parts]:
    """The graph of operations in their order, with the inputs that are said first, in this order.

    Raises InvalidParameter, InvalidDimensions for an input whose sizes are not known, FeatureNotSupported where a value
    that only a run gives decides shapes or parameters.
    """
    parts = Parts(name, shapes, values, in_reals=in_reals)
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
