"""A subgraph of the model as LiteRT has it: whether it is the file's, which operators npusim takes, and their graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from npusim.frontends.tflite.operators import OPERATORS
from npusim.frontends.tflite.reader import graph_of
from npusim.frontends.tflite.records import ModelRecord, OperatorRecord, TensorRecord
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.nearest import nearest
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import known

Shape = tuple[int, ...]

_CUSTOM = "CUSTOM "


def kinds_of(operators: Iterable[str] | None) -> frozenset[str]:
    """The operators of these names of TFLite, all that npusim has for None. Raises NpusimError for another name."""
    having = {kind.removeprefix(_CUSTOM): kind for kind, row in OPERATORS.items() if known(row.op)}
    if operators is None:
        return frozenset(having.values())
    if isinstance(operators, str) or not isinstance(operators, Iterable):
        raise NpusimError(f"operators {operators!r}: must be names of TFLite's operators, such as ['CONV_2D']")
    kinds = set()
    for name in operators:
        if not isinstance(name, str) or name not in having:
            text = str(name)
            near = nearest(text.upper(), having) or nearest(text, having)
            hint = f"did you mean {near}?" if near else "npusim ops --format tflite lists them"
            raise NpusimError(f"operators: {name!r} is no operator of TFLite that npusim has; {hint}")
        kinds.add(having[name])
    return frozenset(kinds)


class Selection(NamedTuple):
    """Operators of a subgraph by number, and what lies on their border, tensors by number: as LiteRT says it."""

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartGraph:
    """The graph of some operators. Variables of LiteRT that they update are inputs and outputs of it.

    inputs, outputs: the tensors of the subgraph that those of the graph are.
    """

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Subgraph:
    """A subgraph of the file."""

    def __init__(self, name: str, record: ModelRecord) -> None:
        self.name = name
        self.record = record
        self._shapes: list[Shape] = [tensor.shape for tensor in record.tensors]
        self._read_as_whole = self._learn_shapes()

    def _learn_shapes(self) -> bool:
        """Shapes that the file leaves out, as far as operands say them; whether npusim can read all of it."""
        try:
            graph = graph_of(self.record, GraphBuilder(self.name))
        except NpusimError:
            return False
        for number, tensor in enumerate(graph.tensors[: len(self._shapes)]):
            if tensor.bound:
                self._shapes[number] = tensor.type.shape
        return not graph.decides and all(known(node.op) for node in graph.nodes)

    def claims(self, kinds: frozenset[str], plan: Sequence[int]) -> list[int]:
        """Those operators of a plan that npusim computes, of these kinds.

        Shapes that operators compute from shapes are known as long as all of it is npusim's: then it is taken whole.
        """
        records = self.record.operators
        all_there = list(plan) == list(range(len(records)))
        had = {record.kind for record in records if record.kind in OPERATORS}
        if all_there and self._read_as_whole and kinds >= had:
            return list(plan)
        return [
            number
            for number in plan
            if number < len(records) and records[number].kind in kinds and self._alone(records[number], number)
        ]

    def _alone(self, record: OperatorRecord, number: int) -> bool:
        """Whether an operator can be computed without looking at others."""
        row = OPERATORS[record.kind]
        for position, operand in enumerate(record.inputs):
            said = row.keeps is not None and position not in row.keeps
            if said and operand is not None and not self.constant(operand):
                return False
        inputs = tuple(operand for operand in dict.fromkeys(record.inputs) if operand is not None)
        try:
            self.graph(Selection((number,), inputs, record.outputs), {})
        except NpusimError:
            return False
        return True

    def constant(self, number: int) -> bool:
        """Whether a tensor's value is in the file."""
        tensor = self.record.tensors[number]
        buffers = self.record.buffers
        return not tensor.variable and tensor.buffer < len(buffers) and buffers[tensor.buffer].size > 0

    def graph(self, selection: Selection, shapes: Mapping[int, Shape]) -> PartGraph:
        """The graph of some operators with these shapes of what goes in, else those of the file.

        Raises NpusimError.
        """
        variables = {number for number in selection.inputs if self.record.tensors[number].variable}
        part = self._graph(selection, shapes, frozenset())
        others = frozenset(variables - set(part.inputs))
        # A variable that these operators only read is an input like others.
        return self._graph(selection, shapes, others) if others else part

    def _graph(
        self, selection: Selection, shapes: Mapping[int, Shape], read_only: frozenset[int]
    ) -> PartGraph:
        """As `graph`; `read_only` are variables that are not updated."""
        given = [
            number
            for number in selection.inputs
            if number in read_only or not (self.constant(number) or self.record.tensors[number].variable)
        ]
        chosen = [self.record.operators[number] for number in selection.operators]
        numbers = {tensor: new for new, tensor in enumerate(_tensors(chosen, selection))}
        tensors = [self._tensor(tensor, shapes, tensor in read_only) for tensor in numbers]
        resized = any(shape != self._shapes[number] for number, shape in shapes.items())
        if resized:
            for number in {output for record in chosen for output in record.outputs}:
                tensors[numbers[number]] = replace(tensors[numbers[number]], shape=())
        record = replace(
            self.record,
            tensors=tuple(tensors),
            operators=tuple(_renumbered(record, numbers) for record in chosen),
            inputs=tuple(numbers[number] for number in given),
            outputs=tuple(numbers[number] for number in selection.outputs),
        )
        found = graph_of(record, GraphBuilder(self.name))
        return _without_states(found, tuple(numbers), selection.outputs)

    def _tensor(self, number: int, shapes: Mapping[int, Shape], read_only: bool) -> TensorRecord:
        shape = shapes.get(number, self._shapes[number])
        tensor = replace(self.record.tensors[number], shape=shape)
        return replace(tensor, variable=False) if read_only else tensor


def _tensors(records: Sequence[OperatorRecord], selection: Selection) -> list[int]:
    """The tensors that operators touch, each once, in the order of the file."""
    touched = set(selection.inputs) | set(selection.outputs)
    for record in records:
        touched.update(number for number in record.inputs if number is not None)
        touched.update(record.outputs, record.intermediates)
    return sorted(touched)


def _renumbered(record: OperatorRecord, numbers: Mapping[int, int]) -> OperatorRecord:
    return replace(
        record,
        inputs=tuple(None if number is None else numbers[number] for number in record.inputs),
        outputs=tuple(numbers[number] for number in record.outputs),
        intermediates=tuple(numbers[number] for number in record.intermediates),
    )


def _without_states(graph: Graph, numbers: Sequence[int], outputs: Sequence[int]) -> PartGraph:
    """The graph with its states as inputs and outputs, and without inputs that nothing reads."""
    read = {number for node in graph.nodes for number in node.inputs} | set(graph.outputs)
    inputs = [number for number in graph.inputs if number in read]
    inputs += [state.before for state in graph.states]
    results = [*graph.outputs, *(state.after for state in graph.states)]
    written = [*outputs, *(numbers[state.before] for state in graph.states)]
    plain = replace(graph, inputs=tuple(inputs), outputs=tuple(results), states=())
    return PartGraph(check_bound(plain), tuple(numbers[number] for number in inputs), tuple(written))
