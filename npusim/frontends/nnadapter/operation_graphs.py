"""Models as contexts see them: operations in topological order, and graphs of some of them.

A graph of some operations (a piece) has an input for every value that it reads and does not compute, and a constant for
every known value. Results that follow from constants and shapes are computed here and become constants. Images are NCHW
in the model and NHWC in the graph (`npusim.kernels.graph.layout`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from npusim.frontends.forms.conversion import CONVERTERS
from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.nnadapter_codes import (
    MAX_SIZE_OF_DIMENSIONS,
    FeatureNotSupported,
    InvalidDimensions,
    InvalidParameter,
)
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import Shape
from npusim.frontends.nnadapter.operation_arguments import Bound
from npusim.frontends.nnadapter.operation_conversion import Conversion, NotKnown, Operands
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.graph import NCHW, Graph, Node, State, Tensor
from npusim.kernels.graph.layout import LayoutBuilder
from npusim.kernels.operator.element_types import dequantize_values
from npusim.kernels.table import operator

MOST_ELEMENTS = 1 << 16
"""Maximum number of elements of a value that is folded into a constant: enough for shapes, too few for most weights.

Operations on weights must remain, so that they can be partitioned among devices.
"""


class Step(NamedTuple):
    """One operation as partition files and drivers see it.

    place:           what messages call it.
    inputs, outputs: tensors by number, constants included.
    """

    kind: str
    name: str
    place: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class PieceGraph(NamedTuple):
    """A graph of some operations of a network.

    inputs, outputs: the numbers that the graph's inputs and outputs have in the network.
    groups:          per node of the graph, the number of its operation.
    """

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    groups: tuple[int, ...]


class Network(Protocol):
    """A model whose shapes are all known: one of the shapes (gears) that its dynamic inputs may have.

    states:  per state, the tensors with its value before and after a run, by number.
    counted: per tensor that has room for the largest possible number of rows, the tensor whose sum is the number of
             valid rows.
    """

    name: str
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[tuple[int, int], ...]
    counted: Mapping[int, int]

    def tensor_name(self, number: int) -> str:
        """Return the name of a tensor."""

    def tensor_type(self, number: int) -> TensorType:
        """Return the type of an input or output of the model or of a piece."""

    def value(self, number: int) -> Array | None:
        """Return the value of a tensor; None if only a run gives it."""

    def piece(self, operations: Sequence[int], *, all_in_float: bool = False) -> PieceGraph:
        """Return a graph of some operations in this order; its outputs are those that others, or the caller, need.

        all_in_float: whether quantized operations compute in floating point.
        """

    def with_floats(self, places: Collection[int]) -> Network:
        """Return the network with some operations, by place, in floating point."""


class Parts(Operands):
    """A graph under construction from operations of a model, which are added in topological order.

    groups: per node of the graph, the number of its operation.
    """

    def __init__(
        self,
        name: str,
        shapes: Mapping[Operand, Shape] | None = None,
        values: Mapping[Operand, Array] | None = None,
        *,
        all_in_float: bool = False,
    ) -> None:
        super().__init__(LayoutBuilder(name, NCHW), shapes or {}, values or {}, all_in_float)
        self.builder.read_with(MOST_ELEMENTS)
        self.groups: list[int] = []

    def add(self, operation: Operation) -> None:
        """Add the nodes of an operation, or the values of its results if they follow from constants and shapes.

        Raises InvalidParameter for a broken rule, NotKnown if a value is missing.
        """
        row = operation_table.row(operation.type)
        numbers = row.convert(Conversion(Bound(operation, row.signature), self))
        self._grow(operation.index)
        results = (numbers,) if isinstance(numbers, int) else numbers
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
        """Return the graph with these outputs. Nodes that restore the model's layout count to the last operation."""
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
    all_in_float: bool = False,
) -> tuple[Graph, Parts]:
    """Return the graph of operations in their order; `inputs` come first among its inputs, in this order.

    Raises InvalidParameter, InvalidDimensions for an input whose sizes are not known, FeatureNotSupported if a value
    that only a run gives decides shapes or parameters.
    """
    parts = Parts(name, shapes, values, all_in_float=all_in_float)
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


@dataclass
class ModelNetwork:
    """The network of a model built from operations; tensor numbers are those of operands.

    shapes:   of operands whose types leave sizes open.
    values:   of operands that are no constants, but follow from constants and shapes.
    in_float: the places of operations that compute in floating point.
    """

    name: str
    operands: Sequence[Operand]
    operations: Sequence[Operation]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: Mapping[Operand, Shape]
    values: Mapping[Operand, Array]
    in_float: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.states: tuple[tuple[int, int], ...] = ()
        self.steps = tuple(
            Step(
                operation.kind,
                operation.name,
                operation.place,
                tuple(operand.index for operand in operation.input_operands if operand is not None),
                tuple(operand.index for operand in operation.output_operands),
            )
            for operation in self.operations
        )
        self.counted: Mapping[int, int] = {
            operand.index: count.index
            for operation in self.operations
            for count, others in [_counted(operation)]
            if count is not None
            for operand in others
        }

    def tensor_name(self, number: int) -> str:
        """Return the name of an operand."""
        return self.operands[number].name

    def tensor_type(self, number: int) -> TensorType:
        """Return the type of an operand with its sizes."""
        operand = self.operands[number]
        return operand.type.tensor_type(self.shapes.get(operand, operand.type.shape))

    def value(self, number: int) -> Array | None:
        """Return the value of a constant, or of an operand that follows from constants and shapes."""
        operand = self.operands[number]
        return self.values.get(operand) if operand.buffer is None else operand.buffer

    def piece(self, operations: Sequence[int], *, all_in_float: bool = False) -> PieceGraph:
        """Return a graph of operations, given by their places in `steps`."""
        outputs = self._outputs_of(operations)
        wanted = set(self.inputs) & {number for place in operations for number in self.steps[place].inputs}
        graph, parts = graph_of(
            self.name,
            [self.operations[place] for place in operations],
            [self.operands[number] for number in outputs],
            self.shapes,
            values=self.values,
            inputs=[self.operands[number] for number in self.inputs if number in wanted],
            all_in_float=all_in_float,
        )
        places = {self.operations[place].index: place for place in operations}
        inputs = tuple(operand.index for operand in parts.inputs)
        groups = [places[group] for group in parts.groups]
        graph, node_groups = in_floating_point(graph, groups, self.in_float)
        return PieceGraph(graph, inputs, outputs, node_groups)

    def with_floats(self, places: Collection[int]) -> ModelNetwork:
        """Return the network with some operations, by place, in floating point."""
        return replace(self, in_float=frozenset(places))

    def _outputs_of(self, operations: Sequence[int]) -> tuple[int, ...]:
        """Return what `outputs_of` does, without values that their readers have as constants."""
        outputs = outputs_of(self, operations)
        computed = [
            number for number in outputs if number in self.outputs or self.operands[number] not in self.values
        ]
        return tuple(computed) or outputs[-1:]


def _counted(operation: Operation) -> tuple[Operand | None, Sequence[Operand]]:
    """Return the output of an operation that counts the valid rows of its other outputs, and these."""
    row = operation_table.row(operation.type)
    names = [outcome.name for outcome in row.signature.outputs]
    if not row.counted:
        return None, ()
    count = operation.output_operands[names.index(row.counted)]
    return count, [operand for operand in operation.output_operands if operand is not count]


@dataclass
class GraphNetwork:
    """The network of a graph that another front end read; each node is an operation, tensors keep their numbers."""

    graph: Graph
    in_float: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.name = self.graph.name
        self.inputs, self.outputs = self.graph.inputs, self.graph.outputs
        self.states = tuple((state.before, state.after) for state in self.graph.states)
        self.counted: Mapping[int, int] = {}
        self.steps = tuple(
            Step(
                node.op,
                node.name,
                f"{node.name} ({node.op})",
                tuple(number for number in node.inputs if number is not None),
                node.outputs,
            )
            for node in self.graph.nodes
        )

    def tensor_name(self, number: int) -> str:
        """Return the name of a tensor."""
        return self.graph.tensors[number].name

    def tensor_type(self, number: int) -> TensorType:
        """Return the type of a tensor."""
        return self.graph.tensors[number].type

    def value(self, number: int) -> Array | None:
        """Return the data of a constant; None for other tensors."""
        tensor = self.graph.tensors[number]
        return tensor.array if tensor.constant else None

    def piece(self, operations: Sequence[int], *, all_in_float: bool = False) -> PieceGraph:
        """Return a graph of nodes, given by their places, with their tensors and states only; tensors keep their order.

        all_in_float: has no effect, because the front end that read the graph decided how it computes.
        """
        nodes = tuple(self.graph.nodes[place] for place in operations)
        written = {number for node in nodes for number in node.outputs}
        states = tuple(state for state in self.graph.states if state.after in written)
        before = {state.before for state in states}
        read = dict.fromkeys(number for place in operations for number in self.steps[place].inputs)
        inputs = tuple(
            number
            for number in sorted(read)
            if number not in written and number not in before and not self.graph.tensors[number].constant
        )
        outputs = outputs_of(self, operations) or tuple(state.after for state in states)
        used = {*read, *written, *before, *(state.after for state in states)}
        new = {number: position for position, number in enumerate(sorted(used))}
        moved = tuple(
            replace(
                node,
                inputs=tuple(None if number is None else new[number] for number in node.inputs),
                outputs=tuple(new[number] for number in node.outputs),
            )
            for node in nodes
        )
        graph = Graph(
            self.graph.name,
            tuple(self.graph.tensors[number] for number in new),
            moved,
            tuple(new[number] for number in inputs),
            tuple(new[number] for number in outputs),
            tuple(State(new[state.before], new[state.after]) for state in states),
        )
        graph, groups = in_floating_point(graph, operations, self.in_float)
        return PieceGraph(graph, inputs, outputs, groups)

    def with_floats(self, places: Collection[int]) -> GraphNetwork:
        """Return the network with some nodes, by place, in floating point."""
        return replace(self, in_float=frozenset(places))


def outputs_of(network: Network, operations: Sequence[int]) -> tuple[int, ...]:
    """Return the tensors that some operations write for other ones or for the caller; the last one if nobody reads."""
    inside = set(operations)
    elsewhere = {
        number for place, step in enumerate(network.steps) if place not in inside for number in step.inputs
    }
    elsewhere |= set(network.outputs)
    elsewhere |= {network.counted[number] for number in network.outputs if number in network.counted}
    written = [number for place in operations for number in network.steps[place].outputs]
    return tuple(number for number in written if number in elsewhere) or tuple(written[-1:])


def in_floating_point(
    graph: Graph, groups: Sequence[int], places: Collection[int]
) -> tuple[Graph, tuple[int, ...]]:
    """Return a graph in which the nodes of some operations compute in float32, and the operation of each of its nodes.

    groups: per node of `graph`, the number of its operation.
    places: the operations in floating point. Nodes without quantized results stay as they are.
    """
    rewriting = _Rewriting(graph)
    for node, group in zip(graph.nodes, groups, strict=True):
        rewriting.add(node, group, group in places)
    rewritten = replace(graph, tensors=tuple(rewriting.tensors), nodes=tuple(rewriting.nodes))
    return rewritten, tuple(rewriting.groups)


class _Rewriting:
    """A rewritten graph under construction."""

    def __init__(self, graph: Graph) -> None:
        self.tensors = list(graph.tensors)
        self.nodes: list[Node] = []
        self.groups: list[int] = []
        self._floats: dict[int, int] = {}

    def add(self, node: Node, group: int, in_float: bool) -> None:
        """Add a node of the original graph."""
        quantized = [number for number in node.outputs if self.tensors[number].type.quantized]
        if not in_float or not quantized or node.op in CONVERTERS:
            self._append(node, group)
            return
        inputs = [number if number is None else self._as_float(number, group) for number in node.inputs]
        outputs = {number: self._new(number) if number in quantized else number for number in node.outputs}
        self._append(replace(node, inputs=tuple(inputs), outputs=tuple(outputs.values())), group)
        for number in quantized:
            self._convert("quantize", outputs[number], number, group, saturating=True)

    def _append(self, node: Node, group: int) -> None:
        self.nodes.append(node)
        self.groups.append(group)

    def _as_float(self, number: int, group: int) -> int:
        """Return a dequantized tensor; a constant is dequantized here."""
        tensor = self.tensors[number]
        if not tensor.type.quantized:
            return number
        if number not in self._floats:
            new = self._new(number)
            if tensor.array is not None:
                floats = dequantize_values(tensor.array, tensor.type)
                floats.setflags(write=False)
                self.tensors[new] = replace(self.tensors[new], data=floats)
            else:
                self._convert("dequantize", number, new, group)
            self._floats[number] = new
        return self._floats[number]

    def _new(self, number: int) -> int:
        """Add a float32 tensor in the shape of another and return it."""
        like = self.tensors[number]
        self.tensors.append(Tensor(f"{like.name}/real", TensorType("float32", like.type.shape)))
        return len(self.tensors) - 1

    def _convert(self, op: str, source: int, target: int, group: int, **parameters: Any) -> None:
        values = operator(op).parameters(**parameters)
        self._append(Node(f"{self.tensors[target].name}/{op}", op, (source,), (target,), values), group)
