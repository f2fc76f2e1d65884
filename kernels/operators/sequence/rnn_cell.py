"""The basic recurrent cell: f(W x + A a + R h + b), which is output and next state in one."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from npusim.kernels.operator import dynamic_range, parameters
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Rule, Values
from npusim.kernels.operators.sequence import litert_functions
from npusim.kernels.operators.sequence.lstm_cell import operand
from npusim.kernels.operators.sequence.recurrence import Numbers, activated

OPERATIONS_PER_UNIT = 2  # the bias and the function


class CellParameters(parameters.Parameters):
    """activation: the function of the cell."""

    activation: Literal["none", "relu", "relu6", "relu_n1_to_1", "tanh", "sigmoid"] = "none"


class Positions(NamedTuple):
    """Where the operands of a cell lie among the inputs of a call."""

    weights: int
    recurrent_weights: int
    bias: int
    state: int
    auxiliary_weights: int | None = None


CELL = Positions(1, 2, 3, 4)
"""Of layers of one direction."""


def units_at(call: Call, cell: Positions) -> int:
    """How many units a cell has."""
    return input_type(call, cell.weights).shape[0]


def initial_state(call: Call, values: Values, cell: Positions, batch: int) -> Numbers:
    """The state before the first step."""
    return input_value(values, cell.state).reshape(batch, units_at(call, cell))


def step(
    call: Call[CellParameters],
    values: Values,
    cell: Positions,
    x: Numbers,
    state: Numbers,
    auxiliary: Numbers | None = None,
) -> Numbers:
    """The next state for an input [batch, its size]."""
    if call.parameters.rescale != "fixed_point":
        return _dynamic_step(call, values, cell, x, state, auxiliary)
    weights: Numbers = input_value(values, cell.weights)
    recurrent: Numbers = input_value(values, cell.recurrent_weights)
    bias: Numbers = input_value(values, cell.bias)
    with np.errstate(over="ignore", invalid="ignore"):
        total: Numbers = x @ weights.T + state @ recurrent.T + bias
        if auxiliary is not None and cell.auxiliary_weights is not None:
            linked: Numbers = input_value(values, cell.auxiliary_weights)
            total = total + auxiliary @ linked.T
        return activated(call.parameters.activation, total)


def _dynamic_step(
    call: Call[CellParameters],
    values: Values,
    cell: Positions,
    x: Numbers,
    state: Numbers,
    auxiliary: Numbers | None,
) -> Numbers:
    """The same with int8 weights, the rows quantized at run time: bit by bit as LiteRT, which adds in this order."""
    total: Numbers = np.broadcast_to(input_value(values, cell.bias), state.shape)
    operands = (x, cell.weights), (auxiliary, cell.auxiliary_weights), (state, cell.recurrent_weights)
    for rows, position in operands:
        if rows is not None and position is not None and rows.any():
            scales = dynamic_range.scales_of(input_type(call, position))
            weights: Any = input_value(values, position)
            total = total + dynamic_range.product(rows, weights, scales, dynamic_range.asymmetric(call))
    return litert_functions.activated(call.parameters.activation, total)


def scaled_matrices(*cells: Positions) -> Rule:
    """The rule for the quantization of the int8 operands of cells."""
    positions = [
        position
        for cell in cells
        for position in (cell.weights, cell.recurrent_weights, cell.auxiliary_weights)
        if position is not None
    ]
    return dynamic_range.symmetric_weights(None, *positions)


def sizes_fit(call: Call, cell: Positions, batch: int, inputs: int) -> bool:
    """Whether weights, bias and state of a cell have the sizes that go with its input."""
    units = units_at(call, cell)
    state = input_type(call, cell.state)
    return (
        input_type(call, cell.weights).shape == (units, inputs)
        and input_type(call, cell.recurrent_weights).shape == (units, units)
        and input_type(call, cell.bias).shape == (units,)
        and state.elements == batch * units
    )


def there(call: Call, cell: Positions) -> bool:
    """Whether input and operands of a cell are all there."""
    needed = (0, cell.weights, cell.recurrent_weights, cell.bias, cell.state)
    return all(operand(call, position) is not None for position in needed)


def macs_per_step(call: Call, cell: Positions, inputs: int) -> int:
    """Multiply-accumulates of a step of one sequence, from the depth of all its inputs."""
    units = units_at(call, cell)
    return units * (inputs + units)
