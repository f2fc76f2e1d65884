"""unidirectional_sequence_rnn: a basic recurrent cell over a sequence.

Inputs: the sequence [batch, steps, inputs] or, time-major, [steps, batch, inputs], weights [units, inputs], recurrent
weights [units, units], bias [units], and the state [batch, units]. Outputs: the outputs of all steps, in the layout of
the input, and the state at the end if it is asked for.
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
from npusim.kernels.operators.sequence import rnn_cell, rnn_parts
from npusim.kernels.operators.sequence.recurrence import by_steps, in_layout
from npusim.kernels.operators.sequence.rnn_cell import CELL


class Parameters(rnn_cell.CellParameters):
    """activation: the function of the cell; time_major: the input is [steps, batch, inputs]."""

    time_major: bool = False


def _batch(call: Call[Parameters]) -> int:
    first, second, _ = input_type(call).shape
    return second if call.parameters.time_major else first


def _infer(call: Call[Parameters]) -> Shapes:
    units = rnn_cell.units_at(call, CELL)
    outputs = (*input_type(call).shape[:2], units)
    return (outputs, input_type(call, CELL.state).shape)[: len(call.outputs)]


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    state = rnn_cell.initial_state(call, values, CELL, _batch(call))
    outputs = []
    for x in by_steps(input_value(values), call.parameters.time_major):
        state = rnn_cell.step(call, values, CELL, x, state)
        outputs.append(state)
    stacked = in_layout(outputs, call.outputs[0].shape, call.parameters.time_major)
    return [stacked, state.reshape(input_type(call, CELL.state).shape)][: len(call.outputs)]


def _workload(call: Call) -> Workload:
    first, second, inputs = input_type(call).shape
    units = rnn_cell.units_at(call, CELL)
    work = elementwise(call, first * second * units * rnn_cell.OPERATIONS_PER_UNIT)
    macs = first * second * rnn_cell.macs_per_step(call, CELL, inputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + units)


def _operands(call: Call) -> bool:
    """takes 5 inputs and gives the output, or the state at the end beside it"""
    return len(call.inputs) == 5 and rnn_cell.there(call, CELL) and len(call.outputs) in (1, 2)


def _shapes(call: Call[Parameters]) -> bool:
    """the input has three axes, and weights, bias, state and outputs have the sizes that go with it"""
    shape = input_type(call).shape
    return (
        len(shape) == 3
        and rnn_cell.sizes_fit(call, CELL, _batch(call), shape[2])
        and _infer(call) == tuple(output.shape for output in call.outputs)
    )


def _expand(call: Call[Parameters]) -> Expansion | None:
    shape, time_major = input_type(call).shape, call.parameters.time_major
    return rnn_parts.sequence(call, _batch(call), shape[0 if time_major else 1], time_major)


_RULES = (_operands, _shapes)

UNIDIRECTIONAL_SEQUENCE_RNN = Operator(
    name="unidirectional_sequence_rnn",
    parameters=Parameters,
    types=alike("float32", "float16"),
    rules=_RULES,
    infer=_infer,
    reference=by_type(with_halves({"float32": _reference})),
    workload=_workload,
    states=(CELL.state,),
    expand=_expand,
    on_host="on the NPU its parts need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            ("float32, int8*2, float32*2 -> float32",), (*_RULES, rnn_cell.scaled_matrices(CELL)), _reference
        ),
    ),
)

OPERATORS = (UNIDIRECTIONAL_SEQUENCE_RNN,)
