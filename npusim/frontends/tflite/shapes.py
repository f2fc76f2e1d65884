"""Shapes that a model computes from shapes, as converters write them for a batch that is open: SHAPE, STRIDED_SLICE,
PACK, RESHAPE. Once the sizes of what goes in are known they are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from npusim.frontends.tflite.operators import OPERATORS
from npusim.frontends.tflite.records import ModelRecord, OperatorRecord
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate

_SHAPE = "SHAPE"
_TYPES = {"INT32": np.int32, "INT64": np.int64}

Shape = tuple[int, ...]

GraphOf = Callable[[ModelRecord], Graph]
"""What makes the graph of a subgraph."""


def constant(record: ModelRecord, number: int) -> bool:
    """Whether a tensor's value is in the file."""
    tensor = record.tensors[number]
    known = tensor.buffer < len(record.buffers) and record.buffers[tensor.buffer].size > 0
    return known and not tensor.variable


def computed_operands(record: ModelRecord, operator: OperatorRecord) -> list[int]:
    """The operands that say what the result's shape is, or the like, and are not in the file."""
    row = OPERATORS.get(operator.kind)
    if row is None or row.keeps is None:
        return []
    return [
        operand
        for position, operand in enumerate(operator.inputs)
        if operand is not None and position not in row.keeps and not constant(record, operand)
    ]


def from_shapes(record: ModelRecord, number: int) -> bool:
    """Whether a tensor follows from constants and from the shapes of others."""
    makers = {output: operator for operator in record.operators for output in operator.outputs}
    waiting, seen = [number], {number}
    while waiting:
        tensor = waiting.pop()
        if constant(record, tensor):
            continue
        maker = makers.get(tensor)
        if maker is None:
            return False
        if maker.kind != _SHAPE:
            new = {operand for operand in maker.inputs if operand is not None} - seen
            seen |= new
            waiting += new
    return True


def touched(operators: Sequence[OperatorRecord], inputs: Sequence[int], outputs: Sequence[int]) -> list[int]:
    """The tensors that operators touch, and those that go in and out, each once, in the order of the file."""
    numbers = {*inputs, *outputs}
    for operator in operators:
        numbers.update(number for number in operator.inputs if number is not None)
        numbers.update(operator.outputs, operator.intermediates)
    return sorted(numbers)


def part(
    record: ModelRecord, operators: Sequence[OperatorRecord], inputs: Sequence[int], outputs: Sequence[int]
) -> ModelRecord:
    """Operators of a subgraph as one, with the tensors that they touch."""
    kept = touched(operators, inputs, outputs)
    numbers = {tensor: new for new, tensor in enumerate(kept)}
    return replace(
        record,
        tensors=tuple(record.tensors[number] for number in kept),
        operators=tuple(_renumbered(operator, numbers) for operator in operators),
        inputs=tuple(numbers[number] for number in inputs),
        outputs=tuple(numbers[number] for number in outputs),
    )


def _renumbered(operator: OperatorRecord, numbers: Mapping[int, int]) -> OperatorRecord:
    return replace(
        operator,
        inputs=tuple(None if number is None else numbers[number] for number in operator.inputs),
        outputs=tuple(numbers[number] for number in operator.outputs),
        intermediates=tuple(numbers[number] for number in operator.intermediates),
    )


def resized(record: ModelRecord, shapes: Mapping[int, Shape], graph_of: GraphOf) -> ModelRecord:
    """A subgraph with other shapes of inputs, by number: those of results are open, those that it computes constants.

    Raises GraphError where one is computed from values.
    """
    results = {
        output for one in record.operators if one.kind in OPERATORS for output in one.outputs
    }  # of others nobody but the file knows the shape
    tensors = [
        replace(tensor, shape=shapes.get(number, () if number in results else tensor.shape))
        for number, tensor in enumerate(record.tensors)
    ]
    folding = Folding(replace(record, tensors=tuple(tensors)), record.inputs, graph_of)
    for operator in record.operators:
        folding.add(operator)
    return folding.record


class Folding:
    """The operators of a selection, with what they compute from shapes as constants."""

    def __init__(self, record: ModelRecord, inputs: Sequence[int], graph_of: GraphOf) -> None:
        """`record` has the shapes of the inputs as they are now."""
        self.record = record
        self._inputs = inputs
        self._graph_of = graph_of
        self._before: list[OperatorRecord] = []
        self._makers: dict[int, OperatorRecord] = {}

    def add(self, operator: OperatorRecord) -> None:
        """The next operator. Raises NpusimError where a value cannot be computed."""
        for number in computed_operands(self.record, operator):
            self._store(number, self._value(number))
        self._before.append(operator)
        self._makers.update(dict.fromkeys(operator.outputs, operator))

    def _store(self, number: int, value: Array) -> None:
        """Makes a tensor a constant."""
        tensors = list(self.record.tensors)
        buffer = len(self.record.buffers)
        tensors[number] = replace(tensors[number], buffer=buffer, shape=value.shape)
        data = np.frombuffer(value.tobytes(), np.uint8)
        self.record = replace(self.record, tensors=tuple(tensors), buffers=(*self.record.buffers, data))

    def _value(self, number: int) -> Array:
        maker = self._makers.get(number)
        if maker is None:
            raise GraphError(f"tensor {number}: says a shape, and none of these operators computes it")
        if maker.kind == _SHAPE:
            [measured] = maker.inputs
            assert measured is not None
            # All operators before: those that do not lead to it are no trouble.
            before = self._before[: self._before.index(maker)]
            graph = self._graph_of(part(self.record, before, self._inputs, (measured,)))
            shape = graph.tensors[graph.outputs[0]].type.shape
            return np.array(shape, _TYPES[self.record.tensors[number].kind])
        operands = [
            operand
            for operand in dict.fromkeys(maker.inputs)
            if operand is not None and not constant(self.record, operand)
        ]
        for operand in operands:
            self._store(operand, self._value(operand))
        graph = self._graph_of(part(self.record, [maker], (), maker.outputs))
        values = evaluate(graph, [])
        return values[graph.outputs[maker.outputs.index(number)]]
