"""lstm: one step of a long short-term memory cell, with its states as plain operands; NNAPI's LSTM.

Inputs by position as `lstm_cell.Operand` says, the first [batch, inputs]. Outputs: the output [batch, outputs], which
is also the next output state, the next cell state [batch, cells], and, where a fourth is asked for, NNAPI's scratch
buffer [batch, cells of all gates that have weights], which holds nothing that anybody reads: zeros.
`unidirectional_sequence_lstm` has the arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence.lstm_cell import CELL, CellParameters, Operand
from npusim.kernels.operators.sequence.lstm_float import Cell
from npusim.kernels.operators.sequence.lstm_rules import (
    OPERATIONS_PER_CELL,
    gates_at,
    macs_per_step,
    operands_of_cell,
    sizes_at,
    sizes_fit,
)

_MOST_INPUTS = Operand.LAYER_NORM + 4


def _infer(call: Call) -> Shapes:
    batch = input_type(call).shape[0]
    cells, outputs = sizes_at(call, CELL)
    scratch = batch, cells * len(gates_at(call, CELL))
    return ((batch, outputs), (batch, outputs), (batch, cells), scratch)[: len(call.outputs)]


def _reference(call: Call[CellParameters], values: Values) -> list[Array]:
    shapes = _infer(call)
    cell = Cell(values, CELL, call.parameters)
    before = (
        input_value(values, position).reshape(shapes[1 + index])
        for index, position in enumerate((CELL.output_state, CELL.cell_state))
    )
    output, cell_state = cell.step(input_value(values), *before)
    return [output, output.copy(), cell_state, *(np.zeros(shape, np.float32) for shape in shapes[3:])]


def _workload(call: Call) -> Workload:
    batch, inputs = input_type(call).shape
    cells, outputs = sizes_at(call, CELL)
    work = elementwise(call, batch * cells * OPERATIONS_PER_CELL)
    macs = batch * macs_per_step(call, CELL, inputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + outputs)


# Rules


def _operand_count(call: Call) -> bool:
    """takes 20 or 24 operands and gives 3 or 4 outputs"""
    return len(call.inputs) in (Operand.LAYER_NORM, _MOST_INPUTS) and len(call.outputs) in (3, 4)


def _rank(call: Call) -> bool:
    """the input has two axes"""
    return len(input_type(call).shape) == 2


def _shapes(call: Call) -> bool:
    """weights, biases, states and outputs have the sizes that input, cells and outputs ask for"""
    batch, inputs = input_type(call).shape
    return sizes_fit(call, CELL, batch, inputs) and _infer(call) == tuple(
        output.shape for output in call.outputs
    )


OPERATOR = Operator(
    name="lstm",
    parameters=CellParameters,
    types=alike("float32", "float16"),
    rules=(_operand_count, *operands_of_cell(CELL), _rank, _shapes),
    infer=_infer,
    reference=by_type(with_halves({"float32": _reference})),
    workload=_workload,
    on_host="its gates are functions of reals",
)
