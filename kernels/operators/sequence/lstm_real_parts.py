"""LSTM cells of reals as simpler operators."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.sequence.lstm_cell import (
    CELL,
    GATES,
    LAYER_NORM_EPSILON,
    PEEPHOLE_GATES,
    CellParameters,
    Layout,
)
from npusim.kernels.operators.sequence.lstm_rules import sizes_at
from npusim.kernels.operators.sequence.real_parts import MOST_STEPS, RealParts, one_way


class CellParts:
    """A cell and its states, taken from step to step."""

    def __init__(self, parts: RealParts, layout: Layout, batch: int) -> None:
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
        """Of output and cell."""
        return self.output, self.state

    def step(self, x: int, auxiliary: int | None = None) -> None:
        """The next output and state."""
        parts, layout, shape = self.parts, self.layout, self.shape
        before, g = self.state, self.chosen.activation
        forget = parts.function("forget", self._sums("forget", x, auxiliary, before), shape, "sigmoid")
        candidate = parts.function("candidate", self._sums("cell", x, auxiliary, before), shape, g)
        if parts.has(layout.input_weights):
            admitted = parts.function("input", self._sums("input", x, auxiliary, before), shape, "sigmoid")
        else:
            admitted = parts.difference("input", parts.constant(1.0), forget, shape)
        kept = parts.times("kept", forget, before, shape)
        state = parts.sum("state", kept, parts.times("change", admitted, candidate, shape), shape)
        self.state = parts.limited("state", state, shape, self.chosen.cell_clip)
        shown = parts.function("output", self._sums("output", x, auxiliary, self.state), shape, "sigmoid")
        activated = parts.function("activated", self.state, shape, g)
        self.output = self._projected(parts.times("hidden", shown, activated, shape))

    def _sums(self, gate: str, x: int, auxiliary: int | None, state: int) -> int:
        """What the function of a gate is taken of."""
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


def one_step(call: Call[CellParameters]) -> Expansion:
    """An lstm."""
    parts = RealParts(call)
    cell = CellParts(parts, CELL, input_type(call).shape[0])
    cell.step(0)
    results = [cell.output, *cell.states]
    if len(call.outputs) > len(results):
        zeros = parts.found.constant(np.zeros(call.outputs[-1].shape, parts.dtype))
        results.append(parts.reshaped("scratch", zeros, call.outputs[-1].shape))
    parts.found.results = results
    return parts.found


def sequence(call: Call[CellParameters], batch: int, count: int, time_major: bool) -> Expansion | None:
    """A unidirectional_sequence_lstm of `count` steps."""
    if not 0 < count <= MOST_STEPS:
        return None
    parts = RealParts(call)
    return one_way(parts, CellParts(parts, CELL, batch), count, time_major)
