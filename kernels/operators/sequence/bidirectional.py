"""Recurrent layers with two cells over a sequence, one from its beginning and one from its end."""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence.basic_rnn import (
    OPERATIONS_PER_UNIT,
    Positions,
    RnnCellParameters,
    RnnParts,
    cell_is_there,
    rnn_initial_state,
    rnn_macs_per_step,
    rnn_scaled_matrices,
    rnn_sizes_fit,
    rnn_step,
    units_at,
)
from npusim.kernels.operators.sequence.float_cells import CELL_TYPES, DynamicCell, FloatCell, scaled_matrices
from npusim.kernels.operators.sequence.lstm_cell import (
    OPERATIONS_PER_CELL,
    CellParameters,
    Layout,
    gates_at,
    given,
    macs_per_step,
    operands_of_cell,
    present,
    sizes_at,
    sizes_fit,
)
from npusim.kernels.operators.sequence.recurrence import (
    BothWays,
    Linking,
    Numbers,
    infer_both_ways,
    run_both_ways,
    sequences_fit,
)
from npusim.kernels.operators.sequence.unrolled import MOST_STEPS, FloatParts, LstmParts, both_ways

_FORWARD = Layout(1, 5, 9, 12, 16, 17, 35, 36, 48, 40)
_BACKWARD = Layout(18, 22, 26, 29, 33, 34, 37, 38, 52, 44)
_LSTM_CELLS = (_FORWARD, _BACKWARD)
_LSTM_AUXILIARY = 39
_AUXILIARY_WEIGHTS = 40
_LAYER_NORM = 48
_MOST_INPUTS = 56
_STATES = (35, 36, 37, 38)
_LSTM_LINKING = Linking(_LSTM_AUXILIARY, _AUXILIARY_WEIGHTS + 1)


class BidirectionalSequenceLstmParameters(BothWays, CellParameters):
    """activation: the function of the cells; the clips limit their states and projections."""


def _lstm_infer(call: Call[BidirectionalSequenceLstmParameters]) -> Shapes:
    outputs = [sizes_at(call, layout)[1] for layout in _LSTM_CELLS]
    return infer_both_ways(call, outputs, [tensor.shape for tensor in given(call, _STATES)])


def _lstm_reference(call: Call[BidirectionalSequenceLstmParameters], values: Values) -> list[Array]:
    def run(direction: int, steps: Numbers, auxiliary: Numbers | None) -> tuple[list[Numbers], list[Numbers]]:
        layout = _LSTM_CELLS[direction]
        dynamic = call.parameters.rescale != "fixed_point"
        cell = (
            DynamicCell(call, values, layout, rows_apart=not call.parameters.time_major)
            if dynamic
            else FloatCell(values, layout, call.parameters)
        )
        batch, (cells, outputs) = steps.shape[1], sizes_at(call, layout)
        output_state = input_value(values, layout.output_state).reshape(batch, outputs)
        cell_state = input_value(values, layout.cell_state).reshape(batch, cells)
        results = []
        for index, x in enumerate(steps):
            linked = None if auxiliary is None else auxiliary[index]
            output_state, cell_state = cell.step(x, output_state, cell_state, linked)
            results.append(output_state)
        return results, [output_state, cell_state]

    return run_both_ways(call, values, _LSTM_LINKING, run)


def _lstm_workload(call: Call[BidirectionalSequenceLstmParameters]) -> Workload:
    first, second, inputs = input_type(call).shape
    auxiliary = input_type(call, _LSTM_AUXILIARY).shape[-1] if _LSTM_LINKING.crossed(call) else 0
    steps = first * second
    cells = [sizes_at(call, layout)[0] for layout in _LSTM_CELLS]
    macs = [macs_per_step(call, layout, inputs, auxiliary) for layout in _LSTM_CELLS]
    work = elementwise(call, steps * sum(cells) * OPERATIONS_PER_CELL)
    inner_k = inputs + auxiliary + sizes_at(call, _FORWARD)[1]
    return replace(work, kind="gemm", macs=steps * sum(macs), inner_k=inner_k)


# Rules


def _operand_count(call: Call[BidirectionalSequenceLstmParameters]) -> bool:
    """takes 48 operands, or 56 with layer normalization, and gives the outputs, with or without the four states"""
    outputs = 1 if call.parameters.merge_outputs else 2
    return len(call.inputs) in (_LAYER_NORM, _MOST_INPUTS) and len(call.outputs) - outputs in (
        0,
        len(_STATES),
    )


def _lstm_auxiliary(call: Call) -> bool:
    """weights of the auxiliary input come with it, for every gate that has weights or for none"""
    gates = [layout.auxiliary_weights or 0 for layout in _LSTM_CELLS]
    presence = [
        present(call, first + gate)
        for layout, first in zip(_LSTM_CELLS, gates, strict=True)
        for gate in gates_at(call, layout)
    ]
    return len(set(presence)) == 1 and (present(call, _LSTM_AUXILIARY) or not presence[0])


def _lstm_shapes(call: Call[BidirectionalSequenceLstmParameters]) -> bool:
    """sequences, weights, biases, states and outputs have the sizes that inputs, cells and outputs ask for"""
    if not sequences_fit(call, _LSTM_LINKING):
        return False
    shape = input_type(call).shape
    batch = shape[1] if call.parameters.time_major else shape[0]
    for direction, layout in enumerate(_LSTM_CELLS):
        if not sizes_fit(call, layout, batch, _LSTM_LINKING.depth(call, direction)):
            return False
        if _LSTM_LINKING.crossed(call):
            size = sizes_at(call, layout)[0], input_type(call, _LSTM_AUXILIARY).shape[-1]
            first = layout.auxiliary_weights or 0
            if any(tensor.shape != size for tensor in given(call, range(first, first + 4))):
                return False
    return _lstm_infer(call) == call.output_shapes


def _lstm_expand(call: Call[BidirectionalSequenceLstmParameters]) -> Expansion | None:
    shape, time_major = input_type(call).shape, call.parameters.time_major
    if not 0 < shape[0 if time_major else 1] <= MOST_STEPS:
        return None
    parts = FloatParts(call)
    cells = [LstmParts(parts, layout, shape[1 if time_major else 0]) for layout in _LSTM_CELLS]
    return both_ways(parts, cells, _LSTM_LINKING, [sizes_at(call, layout)[1] for layout in _LSTM_CELLS])


_LSTM_RULES = (
    _operand_count,
    *operands_of_cell(_FORWARD),
    *operands_of_cell(_BACKWARD),
    _lstm_auxiliary,
    _lstm_shapes,
)
BIDIRECTIONAL_SEQUENCE_LSTM = Operator(
    name="bidirectional_sequence_lstm",
    parameters=BidirectionalSequenceLstmParameters,
    types=alike("float32", "float16"),
    rules=_LSTM_RULES,
    infer=_lstm_infer,
    reference=by_type(with_halves({"float32": _lstm_reference})),
    workload=_lstm_workload,
    states=_STATES,
    expand=_lstm_expand,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            (f"float32, {CELL_TYPES}, {CELL_TYPES}, float32*5, int8*8, float32 -> float32",),
            (*_LSTM_RULES, scaled_matrices(_LSTM_CELLS)),
            _lstm_reference,
        ),
    ),
)
"""Two LSTM cells over a sequence, one from its beginning and one from its end.

Inputs by position: 0 the sequence; 1..17 the forward cell's weights, biases and projection, in the order of
`lstm_cell.Operand`, 18..34 the backward cell's; 35..38 output and cell state, forward and backward; 39 an auxiliary
sequence; 40..43 and 44..47 its weights of the two cells; 48..51 and 52..55 their weights of layer normalization.
With an auxiliary sequence but no weights for it the backward cell reads it in place of the input; with weights every
gate of both cells adds its product. Outputs: the forward one and, unless they are merged into one along the last
axis, the backward one; then, if asked for, the four states at the end, in the order of the inputs 35..38.
The outputs of the backward cell stand at their own steps. `unidirectional_sequence_lstm` has the arithmetic.
"""


_RNN_CELLS = Positions(1, 2, 3, 4, 10), Positions(5, 6, 7, 8, 11)
_RNN_AUXILIARY = 9
_OPERANDS = 12
_RNN_LINKING = Linking(_RNN_AUXILIARY, 10)


class BidirectionalSequenceRnnParameters(BothWays, RnnCellParameters):
    """activation: the function of the cells."""


def _rnn_infer(call: Call[BidirectionalSequenceRnnParameters]) -> Shapes:
    units = [units_at(call, cell) for cell in _RNN_CELLS]
    return infer_both_ways(call, units, [input_type(call, cell.state).shape for cell in _RNN_CELLS])


def _rnn_reference(call: Call[BidirectionalSequenceRnnParameters], values: Values) -> list[Array]:
    def run(direction: int, steps: Numbers, auxiliary: Numbers | None) -> tuple[list[Numbers], list[Numbers]]:
        cell = _RNN_CELLS[direction]
        state = rnn_initial_state(call, values, cell, steps.shape[1])
        outputs = []
        for index, x in enumerate(steps):
            linked = None if auxiliary is None else auxiliary[index]
            state = rnn_step(call, values, cell, x, state, linked)
            outputs.append(state)
        return outputs, [state]

    return run_both_ways(call, values, _RNN_LINKING, run)


def _rnn_workload(call: Call[BidirectionalSequenceRnnParameters]) -> Workload:
    first, second, inputs = input_type(call).shape
    auxiliary = input_type(call, _RNN_AUXILIARY).shape[-1] if _RNN_LINKING.crossed(call) else 0
    steps = first * second
    units = [units_at(call, cell) for cell in _RNN_CELLS]
    macs = [
        rnn_macs_per_step(call, cell, _RNN_LINKING.depth(call, direction) + auxiliary)
        for direction, cell in enumerate(_RNN_CELLS)
    ]
    work = elementwise(call, steps * sum(units) * OPERATIONS_PER_UNIT)
    return replace(work, kind="gemm", macs=steps * sum(macs), inner_k=inputs + auxiliary + units[0])


# Rules


def _operands(call: Call[BidirectionalSequenceRnnParameters]) -> bool:
    """takes 12 operands, of which the last three may be absent, and gives the outputs, with or without both states"""
    outputs = 1 if call.parameters.merge_outputs else 2
    return (
        len(call.inputs) == _OPERANDS
        and all(cell_is_there(call, cell) for cell in _RNN_CELLS)
        and len(call.outputs) - outputs in (0, len(_RNN_CELLS))
    )


def _rnn_auxiliary(call: Call) -> bool:
    """weights of the auxiliary input come with it, for both cells or for none"""
    sequence, *weights = (call.inputs[position] is not None for position in (_RNN_AUXILIARY, 10, 11))
    return weights[0] == weights[1] and (sequence or not weights[0])


def _rnn_shapes(call: Call[BidirectionalSequenceRnnParameters]) -> bool:
    """sequences, weights, biases, states and outputs have the sizes that inputs and units ask for"""
    if not sequences_fit(call, _RNN_LINKING):
        return False
    shape = input_type(call).shape
    batch = shape[1] if call.parameters.time_major else shape[0]
    for direction, cell in enumerate(_RNN_CELLS):
        if not rnn_sizes_fit(call, cell, batch, _RNN_LINKING.depth(call, direction)):
            return False
        if _RNN_LINKING.crossed(call):
            linked = input_type(call, cell.auxiliary_weights or 0).shape
            if linked != (units_at(call, cell), input_type(call, _RNN_AUXILIARY).shape[-1]):
                return False
    return _rnn_infer(call) == call.output_shapes


def _rnn_expand(call: Call[BidirectionalSequenceRnnParameters]) -> Expansion | None:
    shape, time_major = input_type(call).shape, call.parameters.time_major
    if not 0 < shape[0 if time_major else 1] <= MOST_STEPS:
        return None
    parts = FloatParts(call)
    cells = [RnnParts(parts, cell, shape[1 if time_major else 0]) for cell in _RNN_CELLS]
    return both_ways(parts, cells, _RNN_LINKING, [units_at(call, cell) for cell in _RNN_CELLS])


_RNN_RULES = (_operands, _rnn_auxiliary, _rnn_shapes)

BIDIRECTIONAL_SEQUENCE_RNN = Operator(
    name="bidirectional_sequence_rnn",
    parameters=BidirectionalSequenceRnnParameters,
    types=alike("float32", "float16"),
    rules=_RNN_RULES,
    infer=_rnn_infer,
    reference=by_type(with_halves({"float32": _rnn_reference})),
    workload=_rnn_workload,
    states=tuple(cell.state for cell in _RNN_CELLS),
    expand=_rnn_expand,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            ("float32, int8*2, float32*2, int8*2, float32*3, int8*2 -> float32",),
            (*_RNN_RULES, rnn_scaled_matrices(*_RNN_CELLS)),
            _rnn_reference,
        ),
    ),
)
"""Two basic recurrent cells over a sequence, one from its beginning, one from its end.

Inputs by position: 0 the sequence; 1..4 weights, recurrent weights, bias and state of the forward cell, 5..8 those of
the backward cell; 9 an auxiliary sequence, 10 and 11 its weights of the two cells. With an auxiliary sequence but no
weights for it the backward cell reads it in place of the input; with weights both cells add its product. Outputs: the
forward one and, unless they are merged into one along the last axis, the backward one, whose outputs stand at their own
steps; then, if asked for, the two states at the end.
"""


OPERATORS = (
    BIDIRECTIONAL_SEQUENCE_LSTM,
    BIDIRECTIONAL_SEQUENCE_RNN,
)
