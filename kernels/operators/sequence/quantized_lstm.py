"""quantized_lstm: one step of a long short-term memory cell in integers; NNAPI's QUANTIZED_LSTM.

Inputs by position as `lstm_cell.Operand` says: int8 input, weights, projection and output state, int16 peephole
weights, weights of layer normalization and cell state, int32 biases. Outputs: the next output state, the next cell
state, and the output, which equals the output state. `lstm_integer` has the arithmetic, bit for bit LiteRT's.
"""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence import lstm_integer, lstm_parts, lstm_scales
from npusim.kernels.operators.sequence.lstm_cell import CELL, IntegerParameters, Operand
from npusim.kernels.operators.sequence.lstm_rules import (
    operands_of_cell,
    sizes_at,
    sizes_fit,
    two_axes,
    work_of_step,
)

_INPUTS = Operand.LAYER_NORM + 4
_TYPES = ("int8*9, int16*3, int32*4, int8, int32, int8, int16*5 -> int8, int16, int8",)


def _infer(call: Call) -> Shapes:
    batch = input_type(call).shape[0]
    cells, outputs = sizes_at(call, CELL)
    return (batch, outputs), (batch, cells), (batch, outputs)


def _reference(call: Call[IntegerParameters], values: Values) -> list[Array]:
    output_shape, cell_shape, _ = _infer(call)
    output_state = input_value(values, Operand.OUTPUT_STATE).reshape(output_shape)
    cell_state = input_value(values, Operand.CELL_STATE).reshape(cell_shape).astype(np.int64)
    output, after = lstm_integer.Cell(call, values).step(input_value(values), output_state, cell_state)
    codes = output.astype(np.int8)
    return [codes, after.astype(np.int16), codes.copy()]


# Rules


def _operand_count(call: Call) -> bool:
    """takes 20 operands, or 24 with layer normalization, and gives 3 outputs"""
    return len(call.inputs) in (Operand.LAYER_NORM, _INPUTS) and len(call.outputs) == 3


def _shapes(call: Call) -> bool:
    """weights, biases, states and outputs have the sizes that input, cells and outputs ask for"""
    batch, inputs = input_type(call).shape
    return sizes_fit(call, CELL, batch, inputs) and _infer(call) == tuple(
        output.shape for output in call.outputs
    )


def _expand(call: Call[IntegerParameters]) -> Expansion | None:
    """The cell as products and a step; the output is the output state."""
    found = lstm_parts.steps(call, 1, True)
    if found is not None:
        _, output, state = found.results
        found.results = [output, state, output]
    return found


QUANTIZED_LSTM = Operator(
    name="quantized_lstm",
    parameters=IntegerParameters,
    types=_TYPES,
    rules=(
        _operand_count,
        *operands_of_cell(CELL),
        lstm_scales.tanh,
        two_axes,
        _shapes,
        lstm_scales.one_scale,
        lstm_scales.cell_scale,
        lstm_scales.hidden_scale,
        lstm_scales.sum_scales,
        lstm_scales.shifts,
    ),
    infer=_infer,
    reference=_reference,
    workload=work_of_step,
    on_host="the NPU has cells without peepholes and normalized sums",
    expand=_expand,
)

OPERATORS = (QUANTIZED_LSTM,)
