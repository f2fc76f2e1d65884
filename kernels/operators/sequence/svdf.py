"""svdf: a dense layer over the last steps of a sequence, each unit of which is approximated by filters of two stages.

Inputs: the step [batch, inputs]; feature weights [filters, inputs]; time weights [filters, memory]; a bias [units] or
none; the state [batch, memory * filters], filter by filter, where filters = units * rank. The products with the feature
weights become the newest column of the memory; the memory of each filter is multiplied by its time weights and summed,
and so are the filters of a unit. Outputs: the result [batch, units] and, if asked for, the next state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operators.sequence import rnn_cell
from npusim.kernels.operators.sequence.recurrence import Numbers, activated

_INPUT, _FEATURE_WEIGHTS, _TIME_WEIGHTS, _BIAS, _STATE = range(5)


class Parameters(rnn_cell.CellParameters):
    """rank: filters per unit.

    shift: whether the memory moves on one column before the newest is written, as in TFLite, or after the result is
           computed, as in NNAPI, whose states have a column of zeros at the end.
    """

    rank: Count = 1
    shift: Literal["before", "after"] = "before"


def _sizes(call: Call[Parameters]) -> tuple[int, int, int]:
    """Filters, columns of the memory, units."""
    filters, columns = input_type(call, _TIME_WEIGHTS).shape
    return filters, columns, filters // call.parameters.rank


def _infer(call: Call[Parameters]) -> Shapes:
    batch = input_type(call).shape[0]
    return ((batch, _sizes(call)[2]), input_type(call, _STATE).shape)[: len(call.outputs)]


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    filters, columns, units = _sizes(call)
    x, state = input_value(values, _INPUT), input_value(values, _STATE)
    weights: Numbers = input_value(values, _FEATURE_WEIGHTS)
    memory: Numbers = state.reshape(x.shape[0], filters, columns).copy()
    if call.parameters.shift == "before":
        memory = _moved_on(memory)
    memory[:, :, -1] = x @ weights.T
    products = (memory * input_value(values, _TIME_WEIGHTS)).sum(axis=2, dtype=np.float32)
    result = products.reshape(x.shape[0], units, call.parameters.rank).sum(axis=2, dtype=np.float32)
    if call.inputs[_BIAS] is not None:
        bias: Numbers = input_value(values, _BIAS)
        result = result + bias
    if call.parameters.shift == "after":
        memory = _moved_on(memory)
    outputs: list[Array] = [activated(call.parameters.activation, result), memory.reshape(state.shape)]
    return outputs[: len(call.outputs)]


def _moved_on(memory: Numbers) -> Numbers:
    """The oldest column gone, a column of zeros at the end."""
    return np.concatenate([memory[:, :, 1:], np.zeros_like(memory[:, :, :1])], axis=2)


def _workload(call: Call[Parameters]) -> Workload:
    batch, inputs = input_type(call).shape
    filters, columns, units = _sizes(call)
    work = elementwise(call, batch * (filters + units))
    return replace(work, kind="gemm", macs=batch * filters * (inputs + columns), inner_k=inputs)


# Rules


def _operands(call: Call) -> bool:
    """takes 5 inputs, of which the bias may be absent, and gives the output, or the next state beside it"""
    there = all(
        call.inputs[position] is not None for position in range(len(call.inputs)) if position != _BIAS
    )
    return len(call.inputs) == 5 and there and len(call.outputs) in (1, 2)


def _shapes(call: Call[Parameters]) -> bool:
    """weights, bias, state and outputs have the sizes that input, filters and rank ask for"""
    shapes = [input_type(call, position).shape for position in (_INPUT, _FEATURE_WEIGHTS, _TIME_WEIGHTS)]
    if any(len(shape) != 2 for shape in shapes):
        return False
    (batch, inputs), feature, (filters, columns) = shapes
    bias, units = call.inputs[_BIAS], filters // call.parameters.rank
    return (
        columns > 0
        and filters % call.parameters.rank == 0
        and feature == (filters, inputs)
        and (bias is None or bias.shape == (units,))
        and input_type(call, _STATE).elements == batch * filters * columns
        and _infer(call) == tuple(output.shape for output in call.outputs)
    )


OPERATOR = Operator(
    name="svdf",
    parameters=Parameters,
    types=alike("float32", "float16"),
    rules=(_operands, _shapes),
    infer=_infer,
    reference=by_type(with_halves({"float32": _reference})),
    workload=_workload,
    states=(_STATE,),
    on_host="its filters are of reals",
)
