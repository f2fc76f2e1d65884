"""unidirectional_sequence_lstm: a long short-term memory layer over a sequence, in reals or integers.

The inputs are TFLite's by position (`lstm_cell.Operand`). Every step computes, with W, R, b of each gate,

    i, f, o = logistic(W x + R h + p c + b)    g = tanh(W x + R h + b)
    c = f c + i g                              h = o tanh(c), or its projection

with the new c in o. Peephole weights p and the projection may be absent; without weights of its own i = 1 - f. With
weights n of layer normalization the sums without b, taken to mean 0 and variance 1, are multiplied by n before b is
added. NNAPI names other functions than tanh, and always gives states.
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
from npusim.kernels.operators.sequence import (
    lstm_cell,
    lstm_dynamic,
    lstm_float,
    lstm_integer,
    lstm_parts,
    lstm_real_parts,
    lstm_scales,
)
from npusim.kernels.operators.sequence.lstm_cell import CELL, PEEPHOLES, Operand, present, sizes_of
from npusim.kernels.operators.sequence.lstm_rules import (
    OPERATIONS_PER_CELL,
    given,
    macs_per_step,
    operands_of_cell,
    sizes_fit,
)

Parameters = lstm_cell.Parameters

_PEEPHOLES = tuple(PEEPHOLES.values())
_STATES = (Operand.OUTPUT_STATE, Operand.CELL_STATE)
_TYPES = (
    # input and weights, peepholes, biases, projection, states, layer normalization
    "int8*9, int16*3, int32*4, int8, int32, int8, int16*5 -> int8*2, int16",
    *alike("float32", "float16"),
)

_COMPUTE = by_type({**with_halves({"float32": lstm_float.reference}), "int8": lstm_integer.reference})


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    """The output, then the next values of the states if the call asks for them."""
    return _COMPUTE(call, values)[: len(call.outputs)]


def _dynamic_range(call: Call[Parameters], values: Values) -> list[Array]:
    cell = lstm_dynamic.DynamicCell(call, values, CELL, rows_apart=not call.parameters.time_major)
    return lstm_float.run(call, values, cell)


def _workload(call: Call) -> Workload:
    sizes = sizes_of(call)
    steps = sizes.batch * sizes.steps
    work = elementwise(call, steps * sizes.cells * OPERATIONS_PER_CELL)
    # The states stay in the caches from step to step.
    return replace(
        work,
        kind="gemm",
        macs=steps * macs_per_step(call, CELL, sizes.inputs),
        inner_k=sizes.inputs + sizes.outputs,
        output_bytes=call.outputs[0].size_bytes,
    )


# Rules


def _operand_count(call: Call) -> bool:
    """takes 20 or 24 operands and gives 1 output, or the next values of both states beside it"""
    return len(call.inputs) in (20, 24) and len(call.outputs) in (1, 1 + len(_STATES))


def _integer_operands(call: Call) -> bool:
    """in integers there are no peephole weights beside a projection"""
    if input_type(call).real:
        return True
    return not (present(call, Operand.PROJECTION_WEIGHTS) and given(call, _PEEPHOLES))


def _next_states(call: Call) -> bool:
    """the next value of a state is of its type"""
    after = zip(call.outputs[1:], given(call, _STATES), strict=False)
    return all(state == before for state, before in after)


def _rank(call: Call) -> bool:
    """the input has three axes"""
    return len(input_type(call).shape) == 3


def _infer(call: Call) -> Shapes:
    shape = (*input_type(call).shape[:2], sizes_of(call).outputs)
    return (shape, *(state.shape for state in given(call, _STATES)))[: len(call.outputs)]


def _shapes(call: Call) -> bool:
    """weights, biases, states and output have the sizes that input, cells and outputs ask for"""
    sizes = sizes_of(call)
    return sizes_fit(call, CELL, sizes.batch, sizes.inputs) and _infer(call) == tuple(
        output.shape for output in call.outputs
    )


def _expand(call: Call[Parameters]) -> Expansion | None:
    """Layers as steps."""
    if input_type(call).real:
        sizes = sizes_of(call)
        return lstm_real_parts.sequence(call, sizes.batch, sizes.steps, call.parameters.time_major)
    return lstm_parts.steps(call, sizes_of(call).steps, call.parameters.time_major)


_SIZES = (_next_states, _rank, _shapes)

UNIDIRECTIONAL_SEQUENCE_LSTM = Operator(
    name="unidirectional_sequence_lstm",
    parameters=Parameters,
    types=_TYPES,
    rules=(
        _operand_count,
        *operands_of_cell(CELL),
        _integer_operands,
        lstm_scales.tanh,
        *_SIZES,
        lstm_scales.one_scale,
        lstm_scales.cell_scale,
        lstm_scales.hidden_scale,
        lstm_scales.sum_scales,
        lstm_scales.shifts,
    ),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="the NPU has cells of int8 without peepholes and normalized sums; reals need float lanes and columns",
    expand=_expand,
    states=tuple(map(int, _STATES)),
    arithmetics=(
        dynamic_range.arithmetic(
            (f"float32, {lstm_dynamic.CELL_TYPES} -> float32",),
            (_operand_count, *operands_of_cell(CELL), *_SIZES, lstm_dynamic.scaled_matrices((CELL,))),
            _dynamic_range,
        ),
    ),
)

OPERATORS = (UNIDIRECTIONAL_SEQUENCE_LSTM,)
