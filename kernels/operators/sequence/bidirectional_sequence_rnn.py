"""bidirectional_sequence_rnn: two basic recurrent cells over a sequence, one from its beginning, one from its end.

Inputs by position: 0 the sequence; 1..4 weights, recurrent weights, bias and state of the forward cell, 5..8 those of
the backward cell; 9 an auxiliary sequence, 10 and 11 its weights of the two cells. With an auxiliary sequence but no
weights for it the backward cell reads it in place of the input; with weights both cells add its product. Outputs: the
forward one and, unless they are merged into one along the last axis, the backward one, whose outputs stand at their own
steps; then, if asked for, the two states at the end.
"""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import by_type, elementwise, input_type, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence import rnn_cell, rnn_parts
from npusim.kernels.operators.sequence.both_ways import (
    BothWays,
    Linking,
    infer_both_ways,
    run_both_ways,
    sequences_fit,
)
from npusim.kernels.operators.sequence.real_parts import MOST_STEPS, RealParts, both_ways
from npusim.kernels.operators.sequence.recurrence import Numbers
from npusim.kernels.operators.sequence.rnn_cell import Positions

_CELLS = Positions(1, 2, 3, 4, 10), Positions(5, 6, 7, 8, 11)
_AUXILIARY = 9
_OPERANDS = 12
_LINKING = Linking(_AUXILIARY, 10)


class Parameters(BothWays, rnn_cell.CellParameters):
    """activation: the function of the cells."""


def _infer(call: Call[Parameters]) -> Shapes:
    units = [rnn_cell.units_at(call, cell) for cell in _CELLS]
    return infer_both_ways(call, units, [input_type(call, cell.state).shape for cell in _CELLS])


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    def run(direction: int, steps: Numbers, auxiliary: Numbers | None) -> tuple[list[Numbers], list[Numbers]]:
        cell = _CELLS[direction]
        state = rnn_cell.initial_state(call, values, cell, steps.shape[1])
        outputs = []
        for index, x in enumerate(steps):
            linked = None if auxiliary is None else auxiliary[index]
            state = rnn_cell.step(call, values, cell, x, state, linked)
            outputs.append(state)
        return outputs, [state]

    return run_both_ways(call, values, _LINKING, run)


def _workload(call: Call[Parameters]) -> Workload:
    first, second, inputs = input_type(call).shape
    auxiliary = input_type(call, _AUXILIARY).shape[-1] if _LINKING.crossed(call) else 0
    steps = first * second
    units = [rnn_cell.units_at(call, cell) for cell in _CELLS]
    macs = [
        rnn_cell.macs_per_step(call, cell, _LINKING.inputs(call, direction) + auxiliary)
        for direction, cell in enumerate(_CELLS)
    ]
    work = elementwise(call, steps * sum(units) * rnn_cell.OPERATIONS_PER_UNIT)
    return replace(work, kind="gemm", macs=steps * sum(macs), inner_k=inputs + auxiliary + units[0])


# Rules


def _operands(call: Call[Parameters]) -> bool:
    """takes 12 operands, of which the last three may be absent, and gives the outputs, with or without both states"""
    outputs = 1 if call.parameters.merge_outputs else 2
    return (
        len(call.inputs) == _OPERANDS
        and all(rnn_cell.there(call, cell) for cell in _CELLS)
        and len(call.outputs) - outputs in (0, len(_CELLS))
    )


def _auxiliary(call: Call) -> bool:
    """weights of the auxiliary input come with it, for both cells or for none"""
    sequence, *weights = (call.inputs[position] is not None for position in (_AUXILIARY, 10, 11))
    return weights[0] == weights[1] and (sequence or not weights[0])


def _shapes(call: Call[Parameters]) -> bool:
    """sequences, weights, biases, states and outputs have the sizes that inputs and units ask for"""
    if not sequences_fit(call, _LINKING):
        return False
    shape = input_type(call).shape
    batch = shape[1] if call.parameters.time_major else shape[0]
    for direction, cell in enumerate(_CELLS):
        if not rnn_cell.sizes_fit(call, cell, batch, _LINKING.inputs(call, direction)):
            return False
        if _LINKING.crossed(call):
            linked = input_type(call, cell.auxiliary_weights or 0).shape
            if linked != (rnn_cell.units_at(call, cell), input_type(call, _AUXILIARY).shape[-1]):
                return False
    return _infer(call) == tuple(output.shape for output in call.outputs)


def _expand(call: Call[Parameters]) -> Expansion | None:
    shape, time_major = input_type(call).shape, call.parameters.time_major
    if not 0 < shape[0 if time_major else 1] <= MOST_STEPS:
        return None
    parts = RealParts(call)
    cells = [rnn_parts.CellParts(parts, cell, shape[1 if time_major else 0]) for cell in _CELLS]
    return both_ways(parts, cells, _LINKING, [rnn_cell.units_at(call, cell) for cell in _CELLS])


_RULES = (_operands, _auxiliary, _shapes)

BIDIRECTIONAL_SEQUENCE_RNN = Operator(
    name="bidirectional_sequence_rnn",
    parameters=Parameters,
    types=alike("float32", "float16"),
    rules=_RULES,
    infer=_infer,
    reference=by_type(with_halves({"float32": _reference})),
    workload=_workload,
    states=tuple(cell.state for cell in _CELLS),
    expand=_expand,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            ("float32, int8*2, float32*2, int8*2, float32*3, int8*2 -> float32",),
            (*_RULES, rnn_cell.scaled_matrices(*_CELLS)),
            _reference,
        ),
    ),
)

OPERATORS = (BIDIRECTIONAL_SEQUENCE_RNN,)
