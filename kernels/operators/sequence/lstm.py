"""lstm: one step of a long short-term memory cell; NNAPI's LSTM and TFLite's.

Inputs by position as `lstm_cell.Operand` says, the first [batch, inputs]. Outputs: the output [batch, outputs], which
is also the next output state, the next cell state [batch, cells], and NNAPI's scratch buffer [batch, cells of all gates
that have weights], which holds nothing that anybody reads: zeros. A call may ask for one, three or four of them.
`unidirectional_sequence_lstm` has the arithmetic.
"""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence import lstm_real_parts
from npusim.kernels.operators.sequence.lstm_cell import CELL, CellParameters, Operand
from npusim.kernels.operators.sequence.lstm_dynamic import CELL_TYPES, DynamicCell, scaled_matrices
from npusim.kernels.operators.sequence.lstm_float import Cell
from npusim.kernels.operators.sequence.lstm_rules import (
    gates_at,
    operands_of_cell,
    sizes_at,
    sizes_fit,
    two_axes,
    work_of_step,
)

_MOST_INPUTS = Operand.LAYER_NORM + 4


def _shapes_of(call: Call) -> Shapes:
    """The shapes of all four results."""
    batch = input_type(call).shape[0]
    cells, outputs = sizes_at(call, CELL)
    scratch = batch, cells * len(gates_at(call, CELL))
    return (batch, outputs), (batch, outputs), (batch, cells), scratch


def _infer(call: Call) -> Shapes:
    return _shapes_of(call)[: len(call.outputs)]


def _reference(call: Call[CellParameters], values: Values) -> list[Array]:
    return _one_step(call, values, Cell(values, CELL, call.parameters))


def _dynamic_range(call: Call[CellParameters], values: Values) -> list[Array]:
    return _one_step(call, values, DynamicCell(call, values, CELL, rows_apart=False))


def _one_step(call: Call[CellParameters], values: Values, cell: Cell) -> list[Array]:
    shapes = _shapes_of(call)
    before = (
        input_value(values, position).reshape(shapes[1 + index])
        for index, position in enumerate((CELL.output_state, CELL.cell_state))
    )
    output, cell_state = cell.step(input_value(values), *before)
    results = [output, output.copy(), cell_state, np.zeros(shapes[3], np.float32)]
    return [result.reshape(tensor.shape) for result, tensor in zip(results, call.outputs, strict=False)]


# Rules


def _operand_count(call: Call) -> bool:
    """takes 20 or 24 operands and gives 1, 3 or 4 outputs"""
    return len(call.inputs) in (Operand.LAYER_NORM, _MOST_INPUTS) and len(call.outputs) in (1, 3, 4)


def _shapes(call: Call) -> bool:
    """weights, biases, states and outputs have the sizes that input, cells and outputs ask for"""
    batch, inputs = input_type(call).shape
    return sizes_fit(call, CELL, batch, inputs) and _infer(call) == tuple(
        output.shape for output in call.outputs
    )


_RULES = (_operand_count, *operands_of_cell(CELL), two_axes, _shapes)

LSTM = Operator(
    name="lstm",
    parameters=CellParameters,
    types=alike("float32", "float16"),
    rules=_RULES,
    infer=_infer,
    reference=by_type(with_halves({"float32": _reference})),
    workload=work_of_step,
    states=(Operand.OUTPUT_STATE, Operand.CELL_STATE),
    expand=lstm_real_parts.one_step,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            (f"float32, {CELL_TYPES} -> float32",), (*_RULES, scaled_matrices((CELL,))), _dynamic_range
        ),
    ),
)

OPERATORS = (LSTM,)
