"""bidirectional_sequence_lstm: two LSTM cells over a sequence, one from its beginning and one from its end.

Inputs by position: 0 the sequence; 1..17 the forward cell's weights, biases and projection, in the order of
`lstm_cell.Operand`, 18..34 the backward cell's; 35..38 output and cell state, forward and backward; 39 an auxiliary
sequence; 40..43 and 44..47 its weights of the two cells; 48..51 and 52..55 their weights of layer normalization.
With an auxiliary sequence but no weights for it the backward cell reads it in place of the input; with weights every
gate of both cells adds its product. Outputs: the forward one and, unless they are merged into one along the last
axis, the backward one; then, if asked for, the four states at the end, in the order of the inputs 35..38.
The outputs of the backward cell stand at their own steps. `unidirectional_sequence_lstm` has the arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence.both_ways import (
    BothWays,
    Linking,
    infer_both_ways,
    run_both_ways,
    sequences_fit,
)
from npusim.kernels.operators.sequence.lstm_cell import CellParameters, Layout, present
from npusim.kernels.operators.sequence.lstm_dynamic import CELL_TYPES, DynamicCell, scaled_matrices
from npusim.kernels.operators.sequence.lstm_float import Cell
from npusim.kernels.operators.sequence.lstm_real_parts import CellParts
from npusim.kernels.operators.sequence.lstm_rules import (
    OPERATIONS_PER_CELL,
    gates_at,
    given,
    macs_per_step,
    operands_of_cell,
    sizes_at,
    sizes_fit,
)
from npusim.kernels.operators.sequence.real_parts import MOST_STEPS, RealParts, both_ways
from npusim.kernels.operators.sequence.recurrence import Numbers

_FORWARD = Layout(1, 5, 9, 12, 16, 17, 35, 36, 48, 40)
_BACKWARD = Layout(18, 22, 26, 29, 33, 34, 37, 38, 52, 44)
_CELLS = (_FORWARD, _BACKWARD)
_AUXILIARY = 39
_AUXILIARY_WEIGHTS = 40
_LAYER_NORM = 48
_MOST_INPUTS = 56
_STATES = (35, 36, 37, 38)
_LINKING = Linking(_AUXILIARY, _AUXILIARY_WEIGHTS + 1)


class Parameters(BothWays, CellParameters):
    """activation: of the cells; the clips limit their states and projections."""


def _infer(call: Call[Parameters]) -> Shapes:
    outputs = [sizes_at(call, layout)[1] for layout in _CELLS]
    return infer_both_ways(call, outputs, [tensor.shape for tensor in given(call, _STATES)])


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    def run(direction: int, steps: Numbers, auxiliary: Numbers | None) -> tuple[list[Numbers], list[Numbers]]:
        layout = _CELLS[direction]
        dynamic = call.parameters.rescale != "fixed_point"
        cell = (
            DynamicCell(call, values, layout, rows_apart=not call.parameters.time_major)
            if dynamic
            else Cell(values, layout, call.parameters)
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

    return run_both_ways(call, values, _LINKING, run)


def _workload(call: Call[Parameters]) -> Workload:
    first, second, inputs = input_type(call).shape
    auxiliary = input_type(call, _AUXILIARY).shape[-1] if _LINKING.crossed(call) else 0
    steps = first * second
    cells = [sizes_at(call, layout)[0] for layout in _CELLS]
    macs = [macs_per_step(call, layout, inputs, auxiliary) for layout in _CELLS]
    work = elementwise(call, steps * sum(cells) * OPERATIONS_PER_CELL)
    inner_k = inputs + auxiliary + sizes_at(call, _FORWARD)[1]
    return replace(work, kind="gemm", macs=steps * sum(macs), inner_k=inner_k)


# Rules


def _operand_count(call: Call[Parameters]) -> bool:
    """takes 48 operands, or 56 with layer normalization, and gives the outputs, with or without the four states"""
    outputs = 1 if call.parameters.merge_outputs else 2
    return len(call.inputs) in (_LAYER_NORM, _MOST_INPUTS) and len(call.outputs) - outputs in (
        0,
        len(_STATES),
    )


def _auxiliary(call: Call) -> bool:
    """weights of the auxiliary input come with it, for every gate that has weights or for none"""
    gates = [layout.auxiliary_weights or 0 for layout in _CELLS]
    found = [
        present(call, first + gate)
        for layout, first in zip(_CELLS, gates, strict=True)
        for gate in gates_at(call, layout)
    ]
    return len(set(found)) == 1 and (present(call, _AUXILIARY) or not found[0])


def _shapes(call: Call[Parameters]) -> bool:
    """sequences, weights, biases, states and outputs have the sizes that inputs, cells and outputs ask for"""
    if not sequences_fit(call, _LINKING):
        return False
    shape = input_type(call).shape
    batch = shape[1] if call.parameters.time_major else shape[0]
    for direction, layout in enumerate(_CELLS):
        if not sizes_fit(call, layout, batch, _LINKING.inputs(call, direction)):
            return False
        if _LINKING.crossed(call):
            size = sizes_at(call, layout)[0], input_type(call, _AUXILIARY).shape[-1]
            first = layout.auxiliary_weights or 0
            if any(tensor.shape != size for tensor in given(call, range(first, first + 4))):
                return False
    return _infer(call) == tuple(output.shape for output in call.outputs)


def _expand(call: Call[Parameters]) -> Expansion | None:
    shape, time_major = input_type(call).shape, call.parameters.time_major
    if not 0 < shape[0 if time_major else 1] <= MOST_STEPS:
        return None
    parts = RealParts(call)
    cells = [CellParts(parts, layout, shape[1 if time_major else 0]) for layout in _CELLS]
    return both_ways(parts, cells, _LINKING, [sizes_at(call, layout)[1] for layout in _CELLS])


_RULES = (
    _operand_count,
    *operands_of_cell(_FORWARD),
    *operands_of_cell(_BACKWARD),
    _auxiliary,
    _shapes,
)
BIDIRECTIONAL_SEQUENCE_LSTM = Operator(
    name="bidirectional_sequence_lstm",
    parameters=Parameters,
    types=alike("float32", "float16"),
    rules=_RULES,
    infer=_infer,
    reference=by_type(with_halves({"float32": _reference})),
    workload=_workload,
    states=_STATES,
    expand=_expand,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            (f"float32, {CELL_TYPES}, {CELL_TYPES}, float32*5, int8*8, float32 -> float32",),
            (*_RULES, scaled_matrices(_CELLS)),
            _reference,
        ),
    ),
)

OPERATORS = (BIDIRECTIONAL_SEQUENCE_LSTM,)
