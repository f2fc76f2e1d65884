"""The basic recurrent cell f(W x + A a + R h + b), its output the next state, for one step and over a sequence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import dynamic_range, parameters
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Rule, Shapes, Values
from npusim.kernels.operators.sequence import litert_functions
from npusim.kernels.operators.sequence.lstm_cell import operand
from npusim.kernels.operators.sequence.recurrence import Numbers, activated, by_steps, in_layout
from npusim.kernels.operators.sequence.unrolled import MOST_STEPS, FloatParts, one_way

OPERATIONS_PER_UNIT = 2  # the bias and the function


class RnnCellParameters(parameters.Parameters):
    """activation: the function of the cell."""

    activation: Literal["none", "relu", "relu6", "relu_n1_to_1", "tanh", "sigmoid"] = "none"


class Positions(NamedTuple):
    """The positions of a cell's operands among the inputs of a call."""

    weights: int
    recurrent_weights: int
    bias: int
    state: int
    auxiliary_weights: int | None = None


RNN_CELL = Positions(1, 2, 3, 4)
"""The operands of layers with one direction."""


def units_at(call: Call, cell: Positions) -> int:
    """Return the number of units of a cell."""
    return input_type(call, cell.weights).shape[0]


def rnn_initial_state(call: Call, values: Values, cell: Positions, batch: int) -> Numbers:
    """Return the state before the first step."""
    return input_value(values, cell.state).reshape(batch, units_at(call, cell))


def rnn_step(
    call: Call[RnnCellParameters],
    values: Values,
    cell: Positions,
    x: Numbers,
    state: Numbers,
    auxiliary: Numbers | None = None,
) -> Numbers:
    """Return the next state for an input [batch, its size]."""
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
    call: Call[RnnCellParameters],
    values: Values,
    cell: Positions,
    x: Numbers,
    state: Numbers,
    auxiliary: Numbers | None,
) -> Numbers:
    """Return the next state with int8 weights and rows quantized at run time.

    The order of the sum is LiteRT's, so that all bits are the same.
    """
    total: Numbers = np.broadcast_to(input_value(values, cell.bias), state.shape)
    operands = (x, cell.weights), (auxiliary, cell.auxiliary_weights), (state, cell.recurrent_weights)
    for rows, position in operands:
        if rows is not None and position is not None and rows.any():
            scales = dynamic_range.scales_of(input_type(call, position))
            weights: Any = input_value(values, position)
            total = total + dynamic_range.product(rows, weights, scales, dynamic_range.asymmetric(call))
    return litert_functions.activated(call.parameters.activation, total)


def rnn_scaled_matrices(*cells: Positions) -> Rule:
    """Return the rule for the quantization of the int8 operands of cells."""
    positions = [
        position
        for cell in cells
        for position in (cell.weights, cell.recurrent_weights, cell.auxiliary_weights)
        if position is not None
    ]
    return dynamic_range.symmetric_weights(None, *positions)


def rnn_sizes_fit(call: Call, cell: Positions, batch: int, inputs: int) -> bool:
    """Return True if weights, bias and state of a cell have matching sizess input."""
    units = units_at(call, cell)
    state = input_type(call, cell.state)
    return (
        input_type(call, cell.weights).shape == (units, inputs)
        and input_type(call, cell.recurrent_weights).shape == (units, units)
        and input_type(call, cell.bias).shape == (units,)
        and state.elements == batch * units
    )


def cell_is_there(call: Call, cell: Positions) -> bool:
    """Return True if input and operands of a cell are all there."""
    needed = (0, cell.weights, cell.recurrent_weights, cell.bias, cell.state)
    return all(operand(call, position) is not None for position in needed)


def rnn_macs_per_step(call: Call, cell: Positions, inputs: int) -> int:
    """Return the multiply-accumulates of a step of one sequence, from the depth of all its inputs."""
    units = units_at(call, cell)
    return units * (inputs + units)


class RnnParts:
    """A cell f(W x + A a + R h + b) that adds its steps to an expansion one by one."""

    def __init__(self, parts: FloatParts, cell: Positions, batch: int) -> None:
        self.parts, self.cell, self.batch = parts, cell, batch
        self.shape = batch, units_at(parts.call, cell)
        given = input_type(parts.call, cell.state).shape
        self.output = cell.state if given == self.shape else parts.reshaped("state", cell.state, self.shape)

    @property
    def states(self) -> tuple[int, ...]:
        """The states after the steps so far: the output."""
        return (self.output,)

    def step(self, x: int, auxiliary: int | None = None) -> None:
        """Return the next output."""
        parts, cell = self.parts, self.cell
        total = parts.product("input", x, self.batch, cell.weights, cell.bias)
        if auxiliary is not None and cell.auxiliary_weights is not None:
            linked = parts.product("auxiliary", auxiliary, self.batch, cell.auxiliary_weights)
            total = parts.sum("linked", total, linked, self.shape)
        recurrent = parts.product("recurrent", self.output, self.batch, cell.recurrent_weights)
        chosen: RnnCellParameters = parts.call.parameters
        self.output = parts.sum("sums", total, recurrent, self.shape, chosen.activation)


def rnn_in_one_step(call: Call[RnnCellParameters]) -> Expansion:
    """Expand an rnn: output and next state are one."""
    parts = FloatParts(call)
    cell = RnnParts(parts, RNN_CELL, input_type(call).shape[0])
    cell.step(0)
    parts.found.results = [cell.output, cell.output]
    return parts.found


def rnn_over_sequence(
    call: Call[RnnCellParameters], batch: int, count: int, time_major: bool
) -> Expansion | None:
    """Expand a unidirectional_sequence_rnn of `count` steps."""
    if not 0 < count <= MOST_STEPS:
        return None
    parts = FloatParts(call)
    return one_way(parts, RnnParts(parts, RNN_CELL, batch), count, time_major)


def _rnn_infer(call: Call) -> Shapes:
    shape = input_type(call).shape[0], units_at(call, RNN_CELL)
    return (shape, shape)[: len(call.outputs)]


def _rnn_reference(call: Call[RnnCellParameters], values: Values) -> list[Array]:
    x = input_value(values)
    state = rnn_initial_state(call, values, RNN_CELL, x.shape[0])
    after = rnn_step(call, values, RNN_CELL, x, state)
    return [after, after.copy()][: len(call.outputs)]


def _rnn_workload(call: Call) -> Workload:
    batch, inputs = input_type(call).shape
    units = units_at(call, RNN_CELL)
    work = elementwise(call, batch * units * OPERATIONS_PER_UNIT)
    macs = batch * rnn_macs_per_step(call, RNN_CELL, inputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + units)


def _rnn_operands(call: Call) -> bool:
    """takes 5 inputs and gives the output, or the next state beside it"""
    return len(call.inputs) == 5 and cell_is_there(call, RNN_CELL) and len(call.outputs) in (1, 2)


def _rnn_shapes(call: Call) -> bool:
    """the input is [batch, inputs], and weights, bias, state and outputs have matching sizes"""
    shape = input_type(call).shape
    return (
        len(shape) == 2 and rnn_sizes_fit(call, RNN_CELL, *shape) and _rnn_infer(call) == call.output_shapes
    )


_RNN_RULES = (_rnn_operands, _rnn_shapes)

RNN = Operator(
    name="rnn",
    parameters=RnnCellParameters,
    types=alike("float32", "float16"),
    rules=_RNN_RULES,
    infer=_rnn_infer,
    reference=by_type(with_halves({"float32": _rnn_reference})),
    workload=_rnn_workload,
    states=(RNN_CELL.state,),
    expand=rnn_in_one_step,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            ("float32, int8*2, float32*2 -> float32",),
            (*_RNN_RULES, rnn_scaled_matrices(RNN_CELL)),
            _rnn_reference,
        ),
    ),
)
"""One step of a basic recurrent cell with its state as a plain operand; NNAPI's RNN, and TFLite's.

Inputs: the input [batch, inputs], weights [units, inputs], recurrent weights [units, units], bias [units], and the
state [batch, units]. Outputs: the output [batch, units] and, if asked for, the next state, which equals it.
"""


class UnidirectionalSequenceRnnParameters(RnnCellParameters):
    """activation: the function of the cell; time_major: the input is [steps, batch, inputs]."""

    time_major: bool = False


def _batch(call: Call[UnidirectionalSequenceRnnParameters]) -> int:
    first, second, _ = input_type(call).shape
    return second if call.parameters.time_major else first


def _layer_infer(call: Call[UnidirectionalSequenceRnnParameters]) -> Shapes:
    units = units_at(call, RNN_CELL)
    outputs = (*input_type(call).shape[:2], units)
    return (outputs, input_type(call, RNN_CELL.state).shape)[: len(call.outputs)]


def _layer_reference(call: Call[UnidirectionalSequenceRnnParameters], values: Values) -> list[Array]:
    state = rnn_initial_state(call, values, RNN_CELL, _batch(call))
    outputs = []
    for x in by_steps(input_value(values), call.parameters.time_major):
        state = rnn_step(call, values, RNN_CELL, x, state)
        outputs.append(state)
    stacked = in_layout(outputs, call.outputs[0].shape, call.parameters.time_major)
    return [stacked, state.reshape(input_type(call, RNN_CELL.state).shape)][: len(call.outputs)]


def _layer_workload(call: Call) -> Workload:
    first, second, inputs = input_type(call).shape
    units = units_at(call, RNN_CELL)
    work = elementwise(call, first * second * units * OPERATIONS_PER_UNIT)
    macs = first * second * rnn_macs_per_step(call, RNN_CELL, inputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + units)


def _layer_operands(call: Call) -> bool:
    """takes 5 inputs and gives the output, or the state at the end beside it"""
    return len(call.inputs) == 5 and cell_is_there(call, RNN_CELL) and len(call.outputs) in (1, 2)


def _layer_shapes(call: Call[UnidirectionalSequenceRnnParameters]) -> bool:
    """the input has three axes, and weights, bias, state and outputs have matching sizes"""
    shape = input_type(call).shape
    return (
        len(shape) == 3
        and rnn_sizes_fit(call, RNN_CELL, _batch(call), shape[2])
        and _layer_infer(call) == call.output_shapes
    )


def _expand(call: Call[UnidirectionalSequenceRnnParameters]) -> Expansion | None:
    shape, time_major = input_type(call).shape, call.parameters.time_major
    return rnn_over_sequence(call, _batch(call), shape[0 if time_major else 1], time_major)


_LAYER_RULES = (_layer_operands, _layer_shapes)

UNIDIRECTIONAL_SEQUENCE_RNN = Operator(
    name="unidirectional_sequence_rnn",
    parameters=UnidirectionalSequenceRnnParameters,
    types=alike("float32", "float16"),
    rules=_LAYER_RULES,
    infer=_layer_infer,
    reference=by_type(with_halves({"float32": _layer_reference})),
    workload=_layer_workload,
    states=(RNN_CELL.state,),
    expand=_expand,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            ("float32, int8*2, float32*2 -> float32",),
            (*_LAYER_RULES, rnn_scaled_matrices(RNN_CELL)),
            _layer_reference,
        ),
    ),
)
"""A basic recurrent cell over a sequence.

Inputs: the sequence [batch, steps, inputs] or, time-major, [steps, batch, inputs], weights [units, inputs], recurrent
weights [units, units], bias [units], and the state [batch, units]. Outputs: the outputs of all steps, in the layout of
the input, and the state at the end if it is asked for.
"""


OPERATORS = (
    RNN,
    UNIDIRECTIONAL_SEQUENCE_RNN,
)
