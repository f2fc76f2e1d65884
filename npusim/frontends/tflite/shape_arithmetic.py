"""Operators of TFLite that compute shapes, and operands whose values the reader does not need.

Converters write SHAPE, STRIDED_SLICE, PACK and RESHAPE for an open batch. Once the input sizes are known, their results
are constants: the reader computes those of the operators in `VALUES`, constant folding
(`npusim.kernels.graph.folding`) the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from npusim.frontends.tflite.layer import Layer
from npusim.frontends.tflite.operators import OPERATORS, Translation
from npusim.frontends.tflite.records import ModelRecord, OperatorRecord
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.folding import MOST_ELEMENTS

Shape = tuple[int, ...]


def _shape(layer: Layer) -> Array:
    return np.array(layer.input(0).shape, layer.outputs[0].numpy_dtype)


def _rank(layer: Layer) -> Array:
    return np.array(len(layer.input(0).shape), layer.outputs[0].numpy_dtype)


def _range(layer: Layer) -> Array:
    """Return start + i * delta for i = 0, 1, ... as long as it has not reached the limit."""
    start, limit, delta = (_one(layer, *operand) for operand in enumerate(("start", "limit", "delta")))
    if not np.isfinite([start, limit, delta]).all() or delta == 0 or (limit - start) * delta < 0:
        layer.fail(f"goes from {start} to {limit} by {delta}, which never gets there")
    count = int(np.ceil((limit - start) / delta))
    _require_few(layer, count)
    return (start + np.arange(count) * delta).astype(layer.outputs[0].numpy_dtype)


def _one(layer: Layer, position: int, meaning: str) -> int | float:
    data = layer.constants[position]
    if data is None:
        layer.fail(f"operand {position} ({meaning}) is computed while running, must be constant")
    if data.size != 1:
        layer.fail(f"operand {position} ({meaning}) has {data.size} values, must have 1")
    number: int | float = data.ravel()[0].item()
    return number


def _broadcast(layer: Layer) -> Array:
    """Return the shape that two shapes broadcast to."""
    shapes = [layer.integers(position, "shape") for position in (0, 1)]
    try:
        common = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        layer.fail(f"shapes {shapes[0]} and {shapes[1]} do not broadcast")
    return np.array(common, layer.outputs[0].numpy_dtype)


def _zeros(layer: Layer) -> Array:
    kind = layer.input(0)
    _require_few(layer, kind.elements)
    return np.zeros(kind.shape, kind.numpy_dtype)


def _require_few(layer: Layer, count: int) -> None:
    if count > MOST_ELEMENTS:
        layer.fail(f"makes a constant of {count:,} elements, may make {MOST_ELEMENTS:,}")


VALUES: Mapping[str, tuple[Translation, Callable[[Layer], Array]]] = {
    "BROADCAST_ARGS": (Translation("", 2, 2), _broadcast),
    "RANGE": (Translation("", 3, 3), _range),
    "RANK": (Translation("", 1, 1), _rank),
    "SHAPE": (Translation("", 1, 1), _shape),
    "ZEROS_LIKE": (Translation("", 1, 1), _zeros),
}
"""Functions that compute the results of shape operators, by their names in the schema's BuiltinOperator."""

_OF_SHAPES = frozenset({"RANK", "SHAPE", "ZEROS_LIKE"})
"""Operators that read only the shape of their operand."""


def reads_shapes(operator: OperatorRecord, position: int) -> bool:
    """Return True if an operator reads only the shape of an operand, or takes it as a parameter."""
    row = OPERATORS.get(operator.kind)
    return operator.kind in _OF_SHAPES or not (row is None or row.keeps is None or position in row.keeps)


def constant(record: ModelRecord, number: int) -> bool:
    """Return True if a tensor's value is in the file."""
    tensor = record.tensors[number]
    known = tensor.buffer < len(record.buffers) and record.buffers[tensor.buffer].size > 0
    return known and not tensor.variable


def computed_operands(record: ModelRecord, operator: OperatorRecord) -> list[int]:
    """Return the operands that are parameters, such as a shape, and are computed at run time."""
    if operator.kind in _OF_SHAPES:
        return []
    return [
        operand
        for position, operand in enumerate(operator.inputs)
        if operand is not None and reads_shapes(operator, position) and not constant(record, operand)
    ]


def touched(operators: Sequence[OperatorRecord], inputs: Sequence[int], outputs: Sequence[int]) -> list[int]:
    """Return the tensors that operators touch, and those that go in and out, each once, in the order of the file."""
    numbers = {*inputs, *outputs}
    for operator in operators:
        numbers.update(number for number in operator.inputs if number is not None)
        numbers.update(operator.outputs, operator.intermediates)
    return sorted(numbers)


def part(
    record: ModelRecord, operators: Sequence[OperatorRecord], inputs: Sequence[int], outputs: Sequence[int]
) -> ModelRecord:
    """Return some operators of a subgraph as a subgraph, with the tensors that they touch."""
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


def resized(record: ModelRecord, shapes: Mapping[int, Shape]) -> ModelRecord:
    """Return a subgraph with other shapes of inputs, by tensor number; the shapes of results become open."""
    results = {
        output for one in record.operators if one.kind in OPERATORS for output in one.outputs
    }  # of others nobody but the file knows the shape
    tensors = [
        replace(tensor, shape=shapes.get(number, () if number in results else tensor.shape))
        for number, tensor in enumerate(record.tensors)
    ]
    return replace(record, tensors=tuple(tensors))
