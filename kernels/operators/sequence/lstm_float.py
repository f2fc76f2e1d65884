"""The LSTM cell in float32: weights of all gates, a step, and the walk of a cell over a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.operands import input_value
from npusim.kernels.operator.operator import Call, Values
from npusim.kernels.operators.sequence.lstm_cell import (
    CELL,
    GATES,
    LAYER_NORM_EPSILON,
    PEEPHOLE_GATES,
    CellParameters,
    Layout,
    Operand,
    Parameters,
    initial_state,
    sizes_of,
    walk,
)
from npusim.kernels.operators.sequence.recurrence import Numbers, activated


def reference(call: Call[Parameters], values: Values) -> list[Array]:
    """All outputs of the sequence, then the states at its end if the call asks for them."""
    return run(call, values, Cell(values, CELL, call.parameters))


def run(call: Call[Parameters], values: Values, cell: Cell) -> list[Array]:
    """Take a cell through the sequence of a call."""
    sizes = sizes_of(call)
    output_state = initial_state(values, Operand.OUTPUT_STATE, (sizes.batch, sizes.outputs), 0)
    cell_state = initial_state(values, Operand.CELL_STATE, (sizes.batch, sizes.cells), 0)
    states = output_state.astype(np.float32), cell_state.astype(np.float32)
    return walk(call, values, *states, cell.step)[: len(call.outputs)]


class Cell:
    """The weights of a cell, ready to take steps."""

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
        """The next output state and cell state; `auxiliary` [batch, its size] goes through its own weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._step(x, output_state, cell_state, auxiliary)

    def _step(
        self, x: Numbers, output_state: Numbers, cell_state: Numbers, auxiliary: Numbers | None
    ) -> tuple[Numbers, Numbers]:
        products = {
            gate: self._products(gate, x, output_state, auxiliary)
            for gate in GATES
            if gate in self.input_weights
        }

        def gate(name: str, state: Numbers) -> Numbers:
            return self._admission(name, self._sums(name, products[name], state))

        forget = gate("forget", cell_state)
        admitted = gate("input", cell_state) if "input" in products else 1 - forget
        candidate = self._activated(self._sums("cell", products["cell"], cell_state))
        cell_state = self._clipped(forget * cell_state + admitted * candidate, self.parameters.cell_clip)
        output = gate("output", cell_state) * self._activated(cell_state)
        return self._projected(output), cell_state

    def _admission(self, gate: str, sums: Numbers) -> Numbers:
        """How far a gate is open."""
        return activated("sigmoid", sums)

    def _activated(self, sums: Numbers) -> Numbers:
        return activated(self.parameters.activation, sums)

    def _products(self, gate: str, x: Numbers, output_state: Numbers, auxiliary: Numbers | None) -> Numbers:
        total: Numbers = x @ self.input_weights[gate].T + output_state @ self.recurrent_weights[gate].T
        if auxiliary is not None:
            total = total + auxiliary @ self.auxiliary_weights[gate].T
        return total

    def _sums(self, gate: str, products: Numbers, cell_state: Numbers) -> Numbers:
        """What the function of a gate is taken of."""
        bias, weight = self.biases[gate], self.layer_norms.get(gate)
        if weight is None:
            products = products + bias
        if gate in self.peepholes:
            products = products + cell_state * self.peepholes[gate]
        return products if weight is None else _normalized(products) * weight + bias

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
    """The operands of the gates that have one, of a group that starts at `first`."""
    if first is None:
        return {}
    found = {gate: _at(values, first + index) for index, gate in enumerate(gates)}
    return {gate: value for gate, value in found.items() if value is not None}


def _at(values: Values, position: int) -> Numbers | None:
    if position >= len(values) or values[position] is None:
        return None
    return input_value(values, position).astype(np.float32, copy=False)


def _normalized(sums: Numbers) -> Numbers:
    """Each row with mean 0 and variance 1."""
    if sums.size == 0:
        return sums
    mean = sums.mean(axis=-1, keepdims=True)
    variance = ((sums - mean) ** 2).mean(axis=-1, keepdims=True)
    result: Numbers = (sums - mean) / np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))
    return result
