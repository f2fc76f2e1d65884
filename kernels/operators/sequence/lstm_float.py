"""The LSTM cell in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.operands import input_value
from npusim.kernels.operator.operator import Call, Values
from npusim.kernels.operators.sequence.lstm_cell import (
    PEEPHOLES,
    Numbers,
    Operand,
    Parameters,
    gates_of,
    initial_state,
    present,
    sizes_of,
    walk,
    weights_of,
)


def reference(call: Call[Parameters], values: Values) -> list[Array]:
    """All outputs of the sequence, then the states at its end."""
    sizes = sizes_of(call)
    output_state = initial_state(values, Operand.OUTPUT_STATE, (sizes.batch, sizes.outputs), 0)
    cell_state = initial_state(values, Operand.CELL_STATE, (sizes.batch, sizes.cells), 0)
    states = output_state.astype(np.float32), cell_state.astype(np.float32)

    def step(x: Numbers, output_state: Numbers, cell_state: Numbers) -> tuple[Numbers, Numbers]:
        return _step(call, values, x, output_state, cell_state)

    return walk(call, values, *states, step)


def _step(
    call: Call[Parameters], values: Values, x: Numbers, output_state: Numbers, cell_state: Numbers
) -> tuple[Numbers, Numbers]:
    def sums(gate: str) -> Numbers:
        weights: Any = input_value(values, weights_of(gate, Operand.INPUT_WEIGHTS))
        recurrent: Any = input_value(values, weights_of(gate, Operand.RECURRENT_WEIGHTS))
        bias: Any = input_value(values, weights_of(gate, Operand.BIAS))
        total: Numbers = x @ weights.T + output_state @ recurrent.T + bias
        if gate in PEEPHOLES and present(call, PEEPHOLES[gate]):
            peephole: Any = input_value(values, PEEPHOLES[gate])
            total = total + cell_state * peephole
        return total

    forget, candidate = _logistic(sums("forget")), np.tanh(sums("cell"))
    admitted = _logistic(sums("input")) if "input" in gates_of(call) else 1 - forget
    cell_state = _clip(forget * cell_state + admitted * candidate, call.parameters.cell_clip)
    output = _logistic(sums("output")) * np.tanh(cell_state)
    if present(call, Operand.PROJECTION_WEIGHTS):
        projection: Any = input_value(values, Operand.PROJECTION_WEIGHTS)
        output = output @ projection.T
        if present(call, Operand.PROJECTION_BIAS):
            output = output + np.asarray(input_value(values, Operand.PROJECTION_BIAS), np.float32)
        output = _clip(output, call.parameters.proj_clip)
    return output, cell_state


def _logistic(x: Numbers) -> Numbers:
    result: Numbers = 1 / (1 + np.exp(np.minimum(-x, np.float32(88))))
    return result


def _clip(x: Numbers, limit: float) -> Numbers:
    return np.clip(x, np.float32(-limit), np.float32(limit)) if limit > 0 else x
