"""Models as contexts see them: operations in an order in which they can run, and graphs of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import Shape
from npusim.frontends.nnadapter.operations import table
from npusim.frontends.nnadapter.parts import graph_of
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.graph import Graph, State


class Step(NamedTuple):
    """One operation: what partition files know of it. Inputs and outputs are tensors by number, constants among them.

    place: what messages call it.
    """

    kind: str
    name: str
    place: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class PieceGraph(NamedTuple):
    """Operations as a graph of their own.

    inputs, outputs: the tensors of the network that those of the graph are, by number.
    groups:          of each node the number of the operation that it belongs to.
    """

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    groups: tuple[int, ...]


class Network(Protocol):
    """A model with all its shapes known: of one gear.

    states: of each the tensors with its value before a run and after it, by number.
    """

    name: str
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[tuple[int, int], ...]
    counted: Mapping[int, int]
    """Of tensors with as many rows as there can be: the tensor whose sum says how many of them there are."""

    def tensor_name(self, number: int) -> str:
        """What a tensor is called."""

    def tensor_type(self, number: int) -> TensorType:
        """The type of an input or output of the model or of a piece."""

    def value(self, number: int) -> Array | None:
        """The value of a tensor that is fixed before anything runs."""

    def piece(self, operations: Sequence[int], *, in_reals: bool = False) -> PieceGraph:
        """Some operations, in this order, as a graph; its outputs are what others, or the caller of the model, need.

        in_reals: operations on codes compute on real numbers.
        """


@dataclass
class ModelNetwork:
    """Operations of NNAdapter; tensors are operands.

    shapes: of operands whose types leave sizes open.
    values: of operands that are no constants, but follow from constants and shapes.
    """

    name: str
    operands: Sequence[Operand]
    operations: Sequence[Operation]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: Mapping[Operand, Shape]
    values: Mapping[Operand, Array]

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
        """The operand's name."""
        return self.operands[number].name

    def tensor_type(self, number: int) -> TensorType:
        """The type of an operand, with its sizes."""
        operand = self.operands[number]
        return operand.type.tensor_type(self.shapes.get(operand, operand.type.shape))

    def value(self, number: int) -> Array | None:
        """The value of a constant, and of what follows from constants and shapes."""
        operand = self.operands[number]
        return self.values.get(operand) if operand.buffer is None else operand.buffer

    def piece(self, operations: Sequence[int], *, in_reals: bool = False) -> PieceGraph:
        """Operations by their places in `steps`."""
        outputs = self._outputs_of(operations)
        wanted = set(self.inputs) & {number for place in operations for number in self.steps[place].inputs}
        graph, parts = graph_of(
            self.name,
            [self.operations[place] for place in operations],
            [self.operands[number] for number in outputs],
            self.shapes,
            values=self.values,
            inputs=[self.operands[number] for number in self.inputs if number in wanted],
            in_reals=in_reals,
        )
        places = {self.operations[place].index: place for place in operations}
        return PieceGraph(
            graph,
            tuple(operand.index for operand in parts.inputs),
            outputs,
            tuple(places[group] for group in parts.groups),
        )

    def _outputs_of(self, operations: Sequence[int]) -> tuple[int, ...]:
        """As `outputs_of`, without values that others have as constants."""
        outputs = outputs_of(self, operations)
        computed = [
            number for number in outputs if number in self.outputs or self.operands[number] not in self.values
        ]
        return tuple(computed) or outputs[-1:]


def _counted(operation: Operation) -> tuple[Operand | None, Sequence[Operand]]:
    """The output of an operation that counts the rows of its others, and these."""
    row = table.row(operation.type)
    names = [outcome.name for outcome in row.signature.outputs]
    if not row.counted:
        return None, ()
    count = operation.output_operands[names.index(row.counted)]
    return count, [operand for operand in operation.output_operands if operand is not count]


@dataclass
class GraphNetwork:
    """The graph of another door; each node is an operation, tensors keep their numbers."""

    graph: Graph

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
        """The tensor's name."""
        return self.graph.tensors[number].name

    def tensor_type(self, number: int) -> TensorType:
        """The tensor's type."""
        return self.graph.tensors[number].type

    def value(self, number: int) -> Array | None:
        """The data of a constant."""
        tensor = self.graph.tensors[number]
        return tensor.array if tensor.constant else None

    def piece(self, operations: Sequence[int], *, in_reals: bool = False) -> PieceGraph:
        """Nodes by their places, with their states, and no tensors but theirs, which are in the same order."""
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
        return PieceGraph(graph, inputs, outputs, tuple(operations))


def outputs_of(network: Network, operations: Sequence[int]) -> tuple[int, ...]:
    """The tensors that operations write and that others, or the caller, need; of those that nobody needs, all."""
    inside = set(operations)
    elsewhere = {
        number for place, step in enumerate(network.steps) if place not in inside for number in step.inputs
    }
    elsewhere |= set(network.outputs)
    elsewhere |= {network.counted[number] for number in network.outputs if number in network.counted}
    written = [number for place in operations for number in network.steps[place].outputs]
    return tuple(number for number in written if number in elsewhere) or tuple(written[-1:])
