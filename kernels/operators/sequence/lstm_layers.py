"""LSTM operators with one direction: one step, or a layer over a sequence, in floats and in integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence.float_cells import (
    CELL_TYPES,
    DynamicCell,
    FloatCell,
    float_reference,
    run_over_sequence,
    scaled_matrices,
)
from npusim.kernels.operators.sequence.integer_cell import (
    IntegerCell,
    cell_scale,
    hidden_scale,
    integer_reference,
    scales_of_operands,
    shifts_in_32_bits,
    sum_scales,
    tanh_activation,
)
from npusim.kernels.operators.sequence.integer_steps import integer_steps
from npusim.kernels.operators.sequence.lstm_cell import (
    CELL,
    OPERATIONS_PER_CELL,
    PEEPHOLES,
    CellParameters,
    IntegerParameters,
    LstmParameters,
    Operand,
    gates_at,
    given,
    macs_per_step,
    operands_of_cell,
    present,
    sizes_at,
    sizes_fit,
    sizes_of,
    two_axes,
    work_of_step,
)
from npusim.kernels.operators.sequence.unrolled import lstm_in_one_step, lstm_over_sequence

_OPERAND_COUNTS = (Operand.LAYER_NORM, Operand.LAYER_NORM + 4)
"""Number of operands without and with weights of layer normalization."""


def _shapes_of(call: Call) -> Shapes:
    """Return the shapes of all four results."""
    batch = input_type(call).shape[0]
    cells, outputs = sizes_at(call, CELL)
    scratch = batch, cells * len(gates_at(call, CELL))
    return (batch, outputs), (batch, outputs), (batch, cells), scratch


def _lstm_infer(call: Call) -> Shapes:
    return _shapes_of(call)[: len(call.outputs)]


def _lstm_reference(call: Call[CellParameters], values: Values) -> list[Array]:
    return _one_step(call, values, FloatCell(values, CELL, call.parameters))


def _lstm_dynamic_range(call: Call[CellParameters], values: Values) -> list[Array]:
    return _one_step(call, values, DynamicCell(call, values, CELL, rows_apart=False))


def _one_step(call: Call[CellParameters], values: Values, cell: FloatCell) -> list[Array]:
    shapes = _shapes_of(call)
    before = (
        input_value(values, position).reshape(shapes[1 + index])
        for index, position in enumerate((CELL.output_state, CELL.cell_state))
    )
    output, cell_state = cell.step(input_value(values), *before)
    results = [output, output.copy(), cell_state, np.zeros(shapes[3], np.float32)]
    return [result.reshape(tensor.shape) for result, tensor in zip(results, call.outputs, strict=False)]


# Rules


def _lstm_operand_count(call: Call) -> bool:
    """takes 20 or 24 operands and gives 1, 3 or 4 outputs"""
    return len(call.inputs) in _OPERAND_COUNTS and len(call.outputs) in (1, 3, 4)


def _lstm_shapes(call: Call) -> bool:
    """weights, biases, states and outputs have the sizes that input, cells and outputs ask for"""
    batch, inputs = input_type(call).shape
    return sizes_fit(call, CELL, batch, inputs) and _lstm_infer(call) == call.output_shapes


_RULES = (_lstm_operand_count, *operands_of_cell(CELL), two_axes, _lstm_shapes)

LSTM = Operator(
    name="lstm",
    parameters=CellParameters,
    types=alike("float32", "float16"),
    rules=_RULES,
    infer=_lstm_infer,
    reference=by_type(with_halves({"float32": _lstm_reference})),
    workload=work_of_step,
    states=(Operand.OUTPUT_STATE, Operand.CELL_STATE),
    expand=lstm_in_one_step,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            (f"float32, {CELL_TYPES} -> float32",), (*_RULES, scaled_matrices((CELL,))), _lstm_dynamic_range
        ),
    ),
)
"""One step of a long short-term memory cell; NNAPI's LSTM and TFLite's.

Inputs by position as `lstm_cell.Operand` says, the first [batch, inputs]. Outputs: the output [batch, outputs], which
is also the next output state, the next cell state [batch, cells], and NNAPI's scratch buffer [batch, cells of all gates
that have weights], which holds nothing that anybody reads: zeros. A call may ask for one, three or four of them.
`unidirectional_sequence_lstm` has the arithmetic.
"""


UnidirectionalSequenceLstmParameters = LstmParameters

_PEEPHOLES = tuple(PEEPHOLES.values())
_STATES = (Operand.OUTPUT_STATE, Operand.CELL_STATE)
_LAYER_TYPES = (
    # input and weights, peepholes, biases, projection, states, layer normalization
    "int8*9, int16*3, int32*4, int8, int32, int8, int16*5 -> int8*2, int16",
    *alike("float32", "float16"),
)

_COMPUTE = by_type({**with_halves({"float32": float_reference}), "int8": integer_reference})


def _layer_reference(call: Call[UnidirectionalSequenceLstmParameters], values: Values) -> list[Array]:
    """Return the output, then the next values of the states if the call asks for them."""
    return _COMPUTE(call, values)[: len(call.outputs)]


def _layer_dynamic_range(call: Call[UnidirectionalSequenceLstmParameters], values: Values) -> list[Array]:
    cell = DynamicCell(call, values, CELL, rows_apart=not call.parameters.time_major)
    return run_over_sequence(call, values, cell)


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


def _layer_operand_count(call: Call) -> bool:
    """takes 20 or 24 operands and gives 1 output, or the next values of both states beside it"""
    return len(call.inputs) in _OPERAND_COUNTS and len(call.outputs) in (1, 1 + len(_STATES))


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


def _layer_infer(call: Call) -> Shapes:
    shape = (*input_type(call).shape[:2], sizes_of(call).outputs)
    return (shape, *(state.shape for state in given(call, _STATES)))[: len(call.outputs)]


def _layer_shapes(call: Call) -> bool:
    """weights, biases, states and output have the sizes that input, cells and outputs ask for"""
    sizes = sizes_of(call)
    return sizes_fit(call, CELL, sizes.batch, sizes.inputs) and _layer_infer(call) == call.output_shapes


def _layer_expand(call: Call[UnidirectionalSequenceLstmParameters]) -> Expansion | None:
    """Expand a layer into its steps."""
    if input_type(call).real:
        sizes = sizes_of(call)
        return lstm_over_sequence(call, sizes.batch, sizes.steps, call.parameters.time_major)
    return integer_steps(call, sizes_of(call).steps, call.parameters.time_major)


_SIZES = (_next_states, _rank, _layer_shapes)

UNIDIRECTIONAL_SEQUENCE_LSTM = Operator(
    name="unidirectional_sequence_lstm",
    parameters=UnidirectionalSequenceLstmParameters,
    types=_LAYER_TYPES,
    rules=(
        _layer_operand_count,
        *operands_of_cell(CELL),
        _integer_operands,
        tanh_activation,
        *_SIZES,
        scales_of_operands,
        cell_scale,
        hidden_scale,
        sum_scales,
        shifts_in_32_bits,
    ),
    infer=_layer_infer,
    reference=_layer_reference,
    workload=_workload,
    on_host="the NPU has int8 cells without peepholes or layer normalization; float cells need float lanes and columns",
    expand=_layer_expand,
    states=tuple(map(int, _STATES)),
    arithmetics=(
        dynamic_range.arithmetic(
            (f"float32, {CELL_TYPES} -> float32",),
            (_layer_operand_count, *operands_of_cell(CELL), *_SIZES, scaled_matrices((CELL,))),
            _layer_dynamic_range,
        ),
    ),
)
"""A long short-term memory layer over a sequence, in floats or integers.

The inputs are TFLite's by position (`lstm_cell.Operand`). Every step computes, with W, R, b of each gate,

    i, f, o = logistic(W x + R h + p c + b)    g = tanh(W x + R h + b)
    c = f c + i g                              h = o tanh(c), or its projection

with the new c in o. Peephole weights p and the projection may be absent; without weights of its own i = 1 - f. With
weights n of layer normalization the sums without b, taken to mean 0 and variance 1, are multiplied by n before b is
added. NNAPI names other functions than tanh, and always gives states.
"""


_QUANTIZED_TYPES = ("int8*9, int16*3, int32*4, int8, int32, int8, int16*5 -> int8, int16, int8",)


def _quantized_infer(call: Call) -> Shapes:
    batch = input_type(call).shape[0]
    cells, outputs = sizes_at(call, CELL)
    return (batch, outputs), (batch, cells), (batch, outputs)


def _quantized_reference(call: Call[IntegerParameters], values: Values) -> list[Array]:
    output_shape, cell_shape, _ = _quantized_infer(call)
    output_state = input_value(values, Operand.OUTPUT_STATE).reshape(output_shape)
    cell_state = input_value(values, Operand.CELL_STATE).reshape(cell_shape).astype(np.int64)
    output, after = IntegerCell(call, values).step(input_value(values), output_state, cell_state)
    codes = output.astype(np.int8)
    return [codes, after.astype(np.int16), codes.copy()]


# Rules


def _quantized_operand_count(call: Call) -> bool:
    """takes 20 operands, or 24 with layer normalization, and gives 3 outputs"""
    return len(call.inputs) in _OPERAND_COUNTS and len(call.outputs) == 3


def _quantized_shapes(call: Call) -> bool:
    """weights, biases, states and outputs have the sizes that input, cells and outputs ask for"""
    batch, inputs = input_type(call).shape
    return sizes_fit(call, CELL, batch, inputs) and _quantized_infer(call) == call.output_shapes


def _quantized_expand(call: Call[IntegerParameters]) -> Expansion | None:
    """Return the cell as products and a step; the output is the output state."""
    body = integer_steps(call, 1, True)
    if body is not None:
        _, output, state = body.results
        body.results = [output, state, output]
    return body


QUANTIZED_LSTM = Operator(
    name="quantized_lstm",
    parameters=IntegerParameters,
    types=_QUANTIZED_TYPES,
    rules=(
        _quantized_operand_count,
        *operands_of_cell(CELL),
        tanh_activation,
        two_axes,
        _quantized_shapes,
        scales_of_operands,
        cell_scale,
        hidden_scale,
        sum_scales,
        shifts_in_32_bits,
    ),
    infer=_quantized_infer,
    reference=_quantized_reference,
    workload=work_of_step,
    on_host="the NPU has cells without peepholes or layer normalization",
    expand=_quantized_expand,
)
"""One step of a long short-term memory cell in integers; NNAPI's QUANTIZED_LSTM.

Inputs by position as `lstm_cell.Operand` says: int8 input, weights, projection and output state, int16 peephole
weights, weights of layer normalization and cell state, int32 biases. Outputs: the next output state, the next cell
state, and the output, which equals the output state. `lstm_integer` has the arithmetic, bit for bit LiteRT's.
"""


OPERATORS = (
    LSTM,
    UNIDIRECTIONAL_SEQUENCE_LSTM,
    QUANTIZED_LSTM,
)
