"""LSTM cells of float32 activations, with float32 weights or with int8 weights (dynamic range)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Rule, Values
from npusim.kernels.operators.sequence import litert_functions
from npusim.kernels.operators.sequence.lstm_cell import (
    CELL,
    GATES,
    LAYER_NORM_EPSILON,
    PEEPHOLE_GATES,
    CellParameters,
    Layout,
    LstmParameters,
    Operand,
    equations,
    initial_state,
    sizes_of,
    walk,
    weights_of_cell,
)
from npusim.kernels.operators.sequence.recurrence import Numbers, activated


def float_reference(call: Call[LstmParameters], values: Values) -> list[Array]:
    """Return all outputs of the sequence, then the states at its end if the call asks for them."""
    return run_over_sequence(call, values, FloatCell(values, CELL, call.parameters))


def run_over_sequence(call: Call[LstmParameters], values: Values, cell: FloatCell) -> list[Array]:
    """Take a cell through the sequence of a call."""
    sizes = sizes_of(call)
    output_state = initial_state(values, Operand.OUTPUT_STATE, (sizes.batch, sizes.outputs), 0)
    cell_state = initial_state(values, Operand.CELL_STATE, (sizes.batch, sizes.cells), 0)
    states = output_state.astype(np.float32), cell_state.astype(np.float32)
    return walk(call, values, *states, cell.step)[: len(call.outputs)]


class FloatCell:
    """An LSTM cell in float32: its weights, and a step."""

    def __init__(self, values: Values, layout: Layout, parameters: CellParameters) -> None:
        self.parameters = parameters
        self.input_weights = _by_gate(values, layout.input_weights)
        self.auxiliary_weights = _by_gate(values, layout.auxiliary_weights)
        self.recurrent_weights = _by_gate(values, layout.recurrent_weights)
        self.peepholes = _by_gate(values, layout.peepholes, PEEPHOLE_GATES)
        self.biases = _by_gate(values, layout.biases)
        self.layer_norms = _by_gate(values, layout.layer_norm)
        self.projection: Any = _at(values, layout.projection_weights)
        self.projection_bias: Any = _at(values, layout.projection_bias)

    def step(
        self, x: Numbers, output_state: Numbers, cell_state: Numbers, auxiliary: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return the next output state and cell state; `auxiliary` [batch, its size] has its own weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._step(x, output_state, cell_state, auxiliary)

    def _step(
        self, x: Numbers, output_state: Numbers, cell_state: Numbers, auxiliary: Numbers | None
    ) -> tuple[Numbers, Numbers]:
        def sums(gate: str, state: Numbers) -> Numbers:
            return self._sums(gate, self._products(gate, x, output_state, auxiliary), state)

        output, cell_state = equations(self, sums, cell_state)
        return self._projected(output), cell_state

    @property
    def coupled(self) -> bool:
        """True if the input gate is 1 - forget gate."""
        return "input" not in self.input_weights

    def opened(self, gate: str, sums: Numbers) -> Numbers:
        """Return the logistic function of the sums of a gate."""
        return activated("sigmoid", sums)

    def complement(self, forget: Numbers) -> Numbers:
        """Return 1 - forget gate."""
        return 1 - forget

    def candidate(self, sums: Numbers) -> Numbers:
        """Return the cell's activation."""
        return activated(self.parameters.activation, sums)

    def mixed(self, forget: Numbers, state: Numbers, admitted: Numbers, candidate: Numbers) -> Numbers:
        """Return the next cell state, clipped."""
        return self._clipped(forget * state + admitted * candidate, self.parameters.cell_clip)

    def shown(self, gate: Numbers, state: Numbers) -> Numbers:
        """Return the output before the projection."""
        return gate * self.candidate(state)

    def _products(self, gate: str, x: Numbers, output_state: Numbers, auxiliary: Numbers | None) -> Numbers:
        total: Numbers = x @ self.input_weights[gate].T + output_state @ self.recurrent_weights[gate].T
        if auxiliary is not None:
            total = total + auxiliary @ self.auxiliary_weights[gate].T
        return total

    def _sums(self, gate: str, products: Numbers, cell_state: Numbers) -> Numbers:
        """Return the sums of a gate: products, bias and peephole, normalized if the cell has weights for that."""
        bias, weight = self.biases[gate], self.layer_norms.get(gate)
        if weight is None:
            products = products + bias
        if gate in self.peepholes:
            products = products + cell_state * self.peepholes[gate]
        return products if weight is None else _float_normalized(products) * weight + bias

    def _projected(self, output: Numbers) -> Numbers:
        if self.projection is None:
            return output
        output = output @ self.projection.T
        if self.projection_bias is not None:
            output = output + self.projection_bias
        return self._clipped(output, self.parameters.proj_clip)

    @staticmethod
    def _clipped(x: Numbers, limit: float) -> Numbers:
        return np.clip(x, np.float32(-limit), np.float32(limit)) if limit > 0 else x


def _by_gate(values: Values, first: int | None, gates: Sequence[str] = GATES) -> dict[str, Numbers]:
    """Return the operands of the gates that have one, from a group that starts at `first`."""
    if first is None:
        return {}
    operands = {gate: _at(values, first + index) for index, gate in enumerate(gates)}
    return {gate: value for gate, value in operands.items() if value is not None}


def _at(values: Values, position: int) -> Numbers | None:
    if position >= len(values) or values[position] is None:
        return None
    return input_value(values, position).astype(np.float32, copy=False)


def _float_normalized(sums: Numbers) -> Numbers:
    """Return each row with mean 0 and variance 1."""
    if sums.size == 0:
        return sums
    mean = sums.mean(axis=-1, keepdims=True)
    variance = ((sums - mean) ** 2).mean(axis=-1, keepdims=True)
    result: Numbers = (sums - mean) / np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))
    return result


CELL_TYPES = "int8*11, float32*4, int8, float32"
"""Element types of the weights of input, state and peepholes, biases, projection and its bias."""

_PLACES: tuple[str, ...] = ("input", "cell", "forget", "output")
"""The order of the gates in LiteRT's buffer. It has no place for an input gate without weights."""
_BLOCK = 16
"""Number of values that LiteRT's layer normalization adds at a time; the remaining ones are added one by one."""


class DynamicCell(FloatCell):
    """An LSTM cell with int8 weights and float32 activations, bit by bit as LiteRT's.

    Input, output state and the output that is projected are quantized row by row in every step. All else is float32,
    added up in LiteRT's order: bias, input, auxiliary input, output state, peephole.

    rows_apart: LiteRT steps through the sequences of a batch one after the other, so that vectors of gates begin
                elsewhere in memory, which decides how their logistic function is rounded.
    """

    def __init__(self, call: Call, values: Values, layout: Layout, rows_apart: bool) -> None:
        super().__init__(values, layout, call.parameters)
        self._call, self._layout, self._rows_apart = call, layout, rows_apart
        self._asymmetric = dynamic_range.asymmetric(call)
        self.peepholes = {
            gate: weights * self._scales(layout.peepholes + PEEPHOLE_GATES.index(gate))
            for gate, weights in self.peepholes.items()
        }

    def _scales(self, position: int) -> Any:
        return dynamic_range.scales_of(input_type(self._call, position))

    def _product(self, rows: Numbers, weights: Any, position: int) -> Numbers:
        return dynamic_range.product(rows, weights, self._scales(position), self._asymmetric)

    def _products(self, gate: str, x: Numbers, output_state: Numbers, auxiliary: Numbers | None) -> Numbers:
        number, layout = GATES.index(gate), self._layout
        total: Numbers = np.zeros((len(x), len(self.biases[gate])), np.float32)
        if gate not in self.layer_norms:
            total += self.biases[gate]
        total = total + self._product(x, self.input_weights[gate], layout.input_weights + number)
        if auxiliary is not None and layout.auxiliary_weights is not None:
            weights = self.auxiliary_weights[gate]
            total = total + self._product(auxiliary, weights, layout.auxiliary_weights + number)
        recurrent = self.recurrent_weights[gate]
        return total + self._product(output_state, recurrent, layout.recurrent_weights + number)

    def _sums(self, gate: str, products: Numbers, cell_state: Numbers) -> Numbers:
        if gate in self.peepholes:
            products = products + cell_state * self.peepholes[gate]
        if gate not in self.layer_norms:
            return products
        return _dynamic_normalized(products) * self.layer_norms[gate] + self.biases[gate]

    def _projected(self, output: Numbers) -> Numbers:
        if self.projection is None:
            return output
        bias = np.float32(0) if self.projection_bias is None else self.projection_bias
        product = self._product(output, self.projection, self._layout.projection_weights)
        return self._clipped(bias + product, self.parameters.proj_clip)

    def opened(self, gate: str, sums: Numbers) -> Numbers:
        """Return the logistic function, each vector at its place in LiteRT's buffer of gates."""
        batch, cells = sums.shape
        number = [name for name in _PLACES if name in self.input_weights].index(gate)
        begin, length = number * batch * cells, cells if self._rows_apart else batch * cells
        vectors = sums.reshape(-1, length)
        result = [
            litert_functions.logistic(vector, begin + place * length) for place, vector in enumerate(vectors)
        ]
        return np.concatenate(result).reshape(sums.shape) if result else sums

    def candidate(self, sums: Numbers) -> Numbers:
        """Return the cell's activation as LiteRT approximates it."""
        return litert_functions.activated(self.parameters.activation, sums)


def _dynamic_normalized(sums: Numbers) -> Numbers:
    """Return each row with mean 0 and variance 1."""
    size = np.float32(max(sums.shape[1], 1))
    centred = sums - (litert_functions.added_up(sums, _BLOCK) / size)[:, None]
    variance = litert_functions.added_up(centred * centred, _BLOCK) / size
    inverse = np.float32(1) / np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))
    result: Numbers = centred * inverse[:, None]
    return result


def scaled_matrices(layouts: tuple[Layout, ...]) -> Rule:
    """Return the rule for the quantization of the int8 operands of cells."""
    positions = [
        position
        for layout in layouts
        for first, count in ((layout.peepholes, len(PEEPHOLE_GATES)), (layout.auxiliary_weights, len(GATES)))
        if first is not None
        for position in range(first, first + count)
    ]
    matrices = [position for layout in layouts for position in weights_of_cell(layout)]
    return dynamic_range.symmetric_weights(None, *matrices, *positions)
