"""Recurrent layers of floats as simpler operators, step by step: products, sums and functions of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from npusim.isa.base.tensor import TensorType
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import NONE, Activated, Activation, Parameters
from npusim.kernels.operators.convolution import fully_connected
from npusim.kernels.operators.movement.joining import ConcatenationParameters
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters
from npusim.kernels.operators.movement.slicing import SliceParameters
from npusim.kernels.operators.reduction.sums_and_means import MeanParameters
from npusim.kernels.operators.sequence.lstm_cell import (
    CELL,
    GATES,
    LAYER_NORM_EPSILON,
    PEEPHOLE_GATES,
    CellParameters,
    Layout,
    equations,
    sizes_at,
)
from npusim.kernels.operators.sequence.recurrence import BothWays, Function, Linking

MOST_STEPS = 64
"""Maximum number of steps of a layer that is unrolled: each becomes up to forty layers."""

Shape = tuple[int, ...]

_FUSED: dict[Function, Activation] = {
    "none": "none",
    "relu": "relu",
    "relu6": "relu6",
    "relu_n1_to_1": "relu_n1_to_1",
}
_OPERATORS: dict[Function, str] = {"tanh": "tanh", "sigmoid": "logistic", **_FUSED}


class CellInParts(Protocol):
    """A cell that adds its steps to an expansion; `output` and `states` are the numbers of its latest results."""

    output: int

    @property
    def states(self) -> tuple[int, ...]:
        """The states after the steps so far, in the order of the operands."""

    def step(self, x: int, auxiliary: int | None = None) -> None:
        """Add the next output and states."""


class FloatParts:
    """Builds the parts of a float call as an expansion; tensors are known by their numbers in it."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.found = Expansion(len(call.inputs))
        self.dtype = input_type(call).dtype
        self.where = ""

    def _add(self, name: str, op: str, inputs: list[int | None], shape: Shape, parameters: Parameters) -> int:
        kind = TensorType(self.dtype, shape)
        return self.found.call(f"{self.where}{name}", op, inputs, (kind,), parameters)[0]

    def has(self, position: int) -> bool:
        """Return True if an operand of the call is there."""
        return position < len(self.call.inputs) and self.call.inputs[position] is not None

    def constant(self, value: float) -> int:
        """Add one number, in a shape that broadcasts."""
        return self.found.constant(np.array([[value]], self.dtype))

    def product(self, name: str, x: int, rows: int, weights: int, bias: int | None = None) -> int:
        """Add x [rows, k] times weights [units, k], an operand of the call, plus a bias."""
        units = input_type(self.call, weights).shape[0]
        inputs: list[int | None] = [x, weights] if bias is None else [x, weights, bias]
        return self._add(name, "fully_connected", inputs, (rows, units), fully_connected.Parameters())

    def sum(self, name: str, a: int, b: int, shape: Shape, function: Function = "none") -> int:
        """Add a + b, and a function of it."""
        fused = _FUSED.get(function)
        total = self._add(name, "add", [a, b], shape, Activated(activation=fused or "none"))
        return total if fused is not None else self.function(f"{name}_{function}", total, shape, function)

    def difference(self, name: str, a: int, b: int, shape: Shape) -> int:
        """Add a - b."""
        return self._add(name, "sub", [a, b], shape, Activated())

    def times(self, name: str, a: int, b: int, shape: Shape) -> int:
        """Add a b, element by element."""
        return self._add(name, "mul", [a, b], shape, Activated())

    def function(self, name: str, x: int, shape: Shape, function: Function) -> int:
        """Add a function of every element."""
        return x if function == "none" else self._add(name, _OPERATORS[function], [x], shape, NONE)

    def limited(self, name: str, x: int, shape: Shape, limit: float) -> int:
        """Add x within -limit..limit, unless the limit is 0."""
        if not limit:
            return x
        below = self._add(f"{name}_most", "minimum", [x, self.constant(limit)], shape, NONE)
        return self._add(f"{name}_least", "maximum", [below, self.constant(-limit)], shape, NONE)

    def normalized(self, name: str, x: int, shape: Shape, epsilon: float) -> int:
        """Add rows normalized to mean 0 and variance 1."""
        column, rows = (shape[0], 1), MeanParameters(axes=(1,), keep_dims=True)
        centre = self._add(f"{name}_mean", "mean", [x], column, rows)
        deviations = self.difference(f"{name}_deviations", x, centre, shape)
        squares = self.times(f"{name}_squares", deviations, deviations, shape)
        variance = self._add(f"{name}_variance", "mean", [squares], column, rows)
        positive = self.sum(f"{name}_positive", variance, self.constant(epsilon), column)
        root = self._add(f"{name}_root", "rsqrt", [positive], column, NONE)
        return self.times(f"{name}_normalized", deviations, root, shape)

    def reshaped(self, name: str, x: int, shape: Shape) -> int:
        """Add the same elements under another shape."""
        return self._add(name, "reshape", [x], shape, ReshapeParameters(shape=shape))

    def summed(self, name: str, x: int, shape: Shape) -> int:
        """Add x summed along its last axis."""
        axes = MeanParameters(axes=(len(shape) - 1,), keep_dims=False)
        return self._add(name, "sum", [x], shape[:-1], axes)

    def part(self, name: str, x: int, axis: int, begin: int, size: int, shape: Shape) -> int:
        """Add a slice of x, of `shape`, along an axis."""
        sizes = tuple(size if at == axis else extent for at, extent in enumerate(shape))
        begins = tuple(begin if at == axis else 0 for at in range(len(shape)))
        return self._add(name, "slice", [x], sizes, SliceParameters(begin=begins, size=sizes))

    def step(self, sequence: int, number: int, time_major: bool) -> int:
        """Add the input of one step, [batch, depth]; `sequence` is an operand of the call."""
        shape = input_type(self.call, sequence).shape
        axis = 0 if time_major else 1
        x = self.part(f"input_{sequence}", sequence, axis, number, 1, shape)
        return self.reshaped(f"step_{sequence}", x, (shape[1 - axis], shape[2]))

    def joined(self, name: str, outputs: list[int], shape: Shape, time_major: bool) -> int:
        """Add the outputs of all steps, each [batch, depth], as one tensor."""
        axis = 0 if time_major else 1
        size = tuple(1 if at == axis else extent for at, extent in enumerate(shape))
        parts: list[int | None] = [
            self.reshaped(f"{name}_{number}", output, size) for number, output in enumerate(outputs)
        ]
        return self._add(name, "concatenation", parts, shape, ConcatenationParameters(axis=axis))

    def merged(self, name: str, parts: list[int], shape: Shape) -> int:
        """Add tensors side by side along the last axis."""
        return self._add(name, "concatenation", [*parts], shape, ConcatenationParameters(axis=len(shape) - 1))


def one_way(parts: FloatParts, cell: CellInParts, count: int, time_major: bool) -> Expansion:
    """Expand a layer that takes a cell through the `count` steps of its first operand."""
    outputs = []
    for number in range(count):
        parts.where = f"step_{number}/"
        cell.step(parts.step(0, number, time_major))
        outputs.append(cell.output)
    parts.where = ""
    joined = parts.joined("outputs", outputs, parts.call.outputs[0].shape, time_major)
    parts.found.results = [joined, *cell.states]
    return parts.found


def both_ways(
    parts: FloatParts, cells: Sequence[CellInParts], linking: Linking, depths: Sequence[int]
) -> Expansion:
    """Expand a layer that takes two cells through the steps, the second from the end.

    `depths` are the depths of their outputs.
    """
    call: Call[BothWays] = parts.call
    time_major = call.parameters.time_major
    shape = input_type(call).shape
    count = shape[0 if time_major else 1]
    results: list[int] = []
    for direction, (way, cell, depth) in enumerate(zip(("forward", "backward"), cells, depths, strict=True)):
        outputs = [0] * count
        for number in range(count) if direction == 0 else reversed(range(count)):
            parts.where = f"{way}/step_{number}/"
            auxiliary = parts.step(linking.auxiliary, number, time_major) if linking.crossed(call) else None
            cell.step(parts.step(linking.source(call, direction), number, time_major), auxiliary)
            outputs[number] = cell.output
        parts.where = f"{way}/"
        results.append(parts.joined("outputs", outputs, (*shape[:2], depth), time_major))
    parts.where = ""
    if call.parameters.merge_outputs:
        results = [parts.merged("merged", results, call.outputs[0].shape)]
    parts.found.results = [*results, *(state for cell in cells for state in cell.states)]
    return parts.found


class LstmParts:
    """An LSTM cell that adds its steps to an expansion one by one."""

    def __init__(self, parts: FloatParts, layout: Layout, batch: int) -> None:
        self.parts, self.layout = parts, layout
        self.chosen: CellParameters = parts.call.parameters
        cells, outputs = sizes_at(parts.call, layout)
        self.batch, self.shape, self.output_shape = batch, (batch, cells), (batch, outputs)
        self.output = self._state("output_state", layout.output_state, self.output_shape)
        self.state = self._state("cell_state", layout.cell_state, self.shape)

    def _state(self, name: str, position: int, shape: tuple[int, int]) -> int:
        given = input_type(self.parts.call, position).shape
        return position if given == shape else self.parts.reshaped(name, position, shape)

    @property
    def states(self) -> tuple[int, ...]:
        """Output and cell state after the steps so far."""
        return self.output, self.state

    def step(self, x: int, auxiliary: int | None = None) -> None:
        """Add the next output and state."""

        def sums(gate: str, state: int) -> int:
            return self._sums(gate, x, auxiliary, state)

        hidden, self.state = equations(self, sums, self.state)
        self.output = self._projected(hidden)

    @property
    def coupled(self) -> bool:
        """True if the input gate is 1 - forget gate."""
        return not self.parts.has(self.layout.input_weights)

    def opened(self, gate: str, sums: int) -> int:
        """Add the logistic function of the sums of a gate."""
        return self.parts.function(gate, sums, self.shape, "sigmoid")

    def complement(self, forget: int) -> int:
        """Add 1 - forget gate."""
        return self.parts.difference("input", self.parts.constant(1.0), forget, self.shape)

    def candidate(self, sums: int) -> int:
        """Add the activation of the sums of the cell gate."""
        return self.parts.function("candidate", sums, self.shape, self.chosen.activation)

    def mixed(self, forget: int, state: int, admitted: int, candidate: int) -> int:
        """Add the next cell state, clipped."""
        parts, shape = self.parts, self.shape
        kept = parts.times("kept", forget, state, shape)
        total = parts.sum("state", kept, parts.times("change", admitted, candidate, shape), shape)
        return parts.limited("state", total, shape, self.chosen.cell_clip)

    def shown(self, gate: int, state: int) -> int:
        """Add the output before the projection."""
        activated = self.parts.function("activated", state, self.shape, self.chosen.activation)
        return self.parts.times("hidden", gate, activated, self.shape)

    def _sums(self, gate: str, x: int, auxiliary: int | None, state: int) -> int:
        """Add the sums of a gate: products, bias and peephole, normalized if the cell has weights for that."""
        parts, layout, shape, number = self.parts, self.layout, self.shape, GATES.index(gate)
        normalized = parts.has(layout.layer_norm + number)
        bias = layout.biases + number
        first = layout.input_weights + number
        total = parts.product(f"{gate}_input", x, self.batch, first, None if normalized else bias)
        recurrent = parts.product(
            f"{gate}_recurrent", self.output, self.batch, layout.recurrent_weights + number
        )
        total = parts.sum(f"{gate}_sums", total, recurrent, shape)
        if auxiliary is not None and layout.auxiliary_weights is not None:
            linked = parts.product(
                f"{gate}_auxiliary", auxiliary, self.batch, layout.auxiliary_weights + number
            )
            total = parts.sum(f"{gate}_linked", total, linked, shape)
        if gate in PEEPHOLE_GATES:
            peephole = layout.peepholes + PEEPHOLE_GATES.index(gate)
            if parts.has(peephole):
                seen = parts.times(f"{gate}_peephole", state, peephole, shape)
                total = parts.sum(f"{gate}_seen", total, seen, shape)
        if not normalized:
            return total
        total = parts.normalized(gate, total, shape, LAYER_NORM_EPSILON)
        weighted = parts.times(f"{gate}_weighted", total, layout.layer_norm + number, shape)
        return parts.sum(f"{gate}_biased", weighted, bias, shape)

    def _projected(self, hidden: int) -> int:
        parts, layout = self.parts, self.layout
        if not parts.has(layout.projection_weights):
            return hidden
        bias = layout.projection_bias if parts.has(layout.projection_bias) else None
        output = parts.product("projection", hidden, self.batch, layout.projection_weights, bias)
        return parts.limited("projection", output, self.output_shape, self.chosen.proj_clip)


def lstm_in_one_step(call: Call[CellParameters]) -> Expansion:
    """Expand an lstm."""
    parts = FloatParts(call)
    cell = LstmParts(parts, CELL, input_type(call).shape[0])
    cell.step(0)
    results = [cell.output, *cell.states]
    if len(call.outputs) > len(results):
        zeros = parts.found.constant(np.zeros(call.outputs[-1].shape, parts.dtype))
        results.append(parts.reshaped("scratch", zeros, call.outputs[-1].shape))
    parts.found.results = results
    return parts.found


def lstm_over_sequence(
    call: Call[CellParameters], batch: int, count: int, time_major: bool
) -> Expansion | None:
    """Expand a unidirectional_sequence_lstm of `count` steps."""
    if not 0 < count <= MOST_STEPS:
        return None
    parts = FloatParts(call)
    return one_way(parts, LstmParts(parts, CELL, batch), count, time_major)
