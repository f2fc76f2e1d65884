"""rnn: one step of a basic recurrent cell with its state as a plain operand; NNAPI's RNN, and TFLite's.

Inputs: the input [batch, inputs], weights [units, inputs], recurrent weights [units, units], bias [units], and the
state [batch, units]. Outputs: the output [batch, units] and, if asked for, the next state, which equals it.
"""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.sequence import rnn_cell, rnn_parts
from npusim.kernels.operators.sequence.rnn_cell import CELL


def _infer(call: Call) -> Shapes:
    shape = input_type(call).shape[0], rnn_cell.units_at(call, CELL)
    return (shape, shape)[: len(call.outputs)]


def _reference(call: Call[rnn_cell.CellParameters], values: Values) -> list[Array]:
    x = input_value(values)
    state = rnn_cell.initial_state(call, values, CELL, x.shape[0])
    after = rnn_cell.step(call, values, CELL, x, state)
    return [after, after.copy()][: len(call.outputs)]


def _workload(call: Call) -> Workload:
    batch, inputs = input_type(call).shape
    units = rnn_cell.units_at(call, CELL)
    work = elementwise(call, batch * units * rnn_cell.OPERATIONS_PER_UNIT)
    macs = batch * rnn_cell.macs_per_step(call, CELL, inputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + units)


def _operands(call: Call) -> bool:
    """takes 5 inputs and gives the output, or the next state beside it"""
    return len(call.inputs) == 5 and rnn_cell.there(call, CELL) and len(call.outputs) in (1, 2)


def _shapes(call: Call) -> bool:
    """the input is [batch, inputs], and weights, bias, state and outputs have the sizes that go with it"""
    shape = input_type(call).shape
    return (
        len(shape) == 2
        and rnn_cell.sizes_fit(call, CELL, *shape)
        and _infer(call) == tuple(output.shape for output in call.outputs)
    )


_RULES = (_operands, _shapes)

RNN = Operator(
    name="rnn",
    parameters=rnn_cell.CellParameters,
    types=alike("float32", "float16"),
    rules=_RULES,
    infer=_infer,
    reference=by_type(with_halves({"float32": _reference})),
    workload=_workload,
    states=(CELL.state,),
    expand=rnn_parts.one_step,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            ("float32, int8*2, float32*2 -> float32",), (*_RULES, rnn_cell.scaled_matrices(CELL)), _reference
        ),
    ),
)

OPERATORS = (RNN,)
