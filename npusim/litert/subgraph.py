"""A subgraph of the model: which of its operators npusim takes, and the graphs of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from npusim.frontends.tflite.operators import DECIDING, OPERATORS
from npusim.frontends.tflite.reader import graph_of
from npusim.frontends.tflite.records import ModelRecord
from npusim.frontends.tflite.shape_arithmetic import computed_operands, constant, part, touched
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import known

Shape = tuple[int, ...]

_CUSTOM = "CUSTOM "


def kinds_of(operators: Iterable[str] | None) -> frozenset[str]:
    """Return the operators of these TFLite names, all for None. Raises NpusimError for an unknown name."""
    having = {kind.removeprefix(_CUSTOM): kind for kind, row in OPERATORS.items() if known(row.op)}
    if operators is None:
        return frozenset(having.values())
    if isinstance(operators, str) or not isinstance(operators, Iterable):
        raise NpusimError(
            f"operators {operators!r}: must be names of TFLite's operators, such as ['CONV_2D']"
        )
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
    """Operators of a subgraph and the tensors that go in and out, by number, as LiteRT gives them."""

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartGraph:
    """The graph of some operators. Variables of LiteRT that they update are its inputs and outputs.

    inputs, outputs: the tensors of the subgraph, by number, for each input and output of the graph.
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
        self._takes_all = self._learn_shapes()
        self.decides = any(operator.kind in DECIDING for operator in record.operators)

    def _learn_shapes(self) -> bool:
        """Infer shapes that the file omits, and return whether npusim can take the whole subgraph."""
        try:
            graph = graph_of(self.record, GraphBuilder(self.name))
        except NpusimError:
            return False
        for number, tensor in enumerate(graph.tensors[: len(self._shapes)]):
            if tensor.bound:
                self._shapes[number] = tensor.type.shape
        computed = {number for one in self.record.operators for number in computed_operands(self.record, one)}
        known_shapes = all(graph.tensors[number].constant for number in computed)
        return known_shapes and not graph.decides and all(known(node.op) for node in graph.nodes)

    def claims(self, kinds: frozenset[str], plan: Sequence[int], apart: bool) -> list[int]:
        """Return the operators of a plan that npusim computes, among these kinds.

        Shapes that operators compute at run time are known only if the whole subgraph is one partition.
        apart: whether LiteRT makes a partition of each operator.
        """
        records = self.record.operators
        having = {record.kind for record in records if record.kind in OPERATORS}
        whole = not apart and self._takes_all and list(plan) == list(range(len(records)))
        if whole and kinds >= having:
            return list(plan)
        return [number for number in plan if records[number].kind in kinds and self._alone(number)]

    def _alone(self, number: int) -> bool:
        """Return True if an operator can be computed without looking at others."""
        record = self.record.operators[number]
        if computed_operands(self.record, record):
            return False
        inputs = tuple(operand for operand in dict.fromkeys(record.inputs) if operand is not None)
        try:
            self.graph(Selection((number,), inputs, record.outputs), {})
        except NpusimError:
            return False
        return True

    def constant(self, number: int) -> bool:
        """Return True if a tensor's value is in the file."""
        return constant(self.record, number)

    def graph(self, selection: Selection, shapes: Mapping[int, Shape]) -> PartGraph:
        """Return the graph of some operators with these input shapes, or those of the file.

        Raises NpusimError.
        """
        variables = {number for number in selection.inputs if self.record.tensors[number].variable}
        whole = self._graph(selection, shapes, frozenset())
        others = frozenset(variables - set(whole.inputs))
        # A variable that these operators only read is an input like others.
        return self._graph(selection, shapes, others) if others else whole

    def _graph(
        self, selection: Selection, shapes: Mapping[int, Shape], read_only: frozenset[int]
    ) -> PartGraph:
        """Build `graph`; read_only: variables that its operators do not update."""
        given = [
            number
            for number in selection.inputs
            if number in read_only or not (self.constant(number) or self.record.tensors[number].variable)
        ]
        chosen = [self.record.operators[number] for number in selection.operators]
        results = {output for record in chosen for output in record.outputs}
        resized = any(shape != self._shapes[number] for number, shape in shapes.items())
        tensors = []
        for number, tensor in enumerate(self.record.tensors):
            shape = () if resized and number in results else shapes.get(number, self._shapes[number])
            tensors.append(replace(tensor, shape=shape, variable=tensor.variable and number not in read_only))
        record = part(replace(self.record, tensors=tuple(tensors)), chosen, given, selection.outputs)
        whole = graph_of(record, GraphBuilder(self.name))
        return _without_states(whole, touched(chosen, given, selection.outputs), selection.outputs)


def _without_states(graph: Graph, numbers: Sequence[int], outputs: Sequence[int]) -> PartGraph:
    """Return the graph with its states as inputs and outputs, and without inputs that nothing reads."""
    read = {number for node in graph.nodes for number in node.inputs} | set(graph.outputs)
    inputs = [number for number in graph.inputs if number in read]
    inputs += [state.before for state in graph.states]
    results = [*graph.outputs, *(state.after for state in graph.states)]
    written = [*outputs, *(numbers[state.before] for state in graph.states)]
    plain = replace(graph, inputs=tuple(inputs), outputs=tuple(results), states=())
    return PartGraph(check_bound(plain), tuple(numbers[number] for number in inputs), tuple(written))
