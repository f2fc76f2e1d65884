"""embedding_lookup: rows of a table, along its first axis, at indices; the indices come first."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.pick import Gathering, lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.movement.indices import checked, chosen, known_indices


def _limits(call: Call) -> tuple[int, ...]:
    return (input_type(call, 1).shape[0],)


def _reference(call: Call, values: Values) -> list[Array]:
    indices = checked(call, values, 0, _limits(call))
    return [np.ascontiguousarray(input_value(values, 1)[indices])]


def _rows(call: Call) -> bool:
    """the indices have one axis, and the table at least one"""
    return len(input_type(call).shape) == 1 and len(input_type(call, 1).shape) > 0


def _infer(call: Call) -> Shapes:
    return ((*input_type(call).shape, *input_type(call, 1).shape[1:]),)


def _shape(call: Call) -> bool:
    """the output has a row of the table for each index"""
    return _infer(call) == (call.outputs[0].shape,)


def _gathering(call: Call) -> Gathering:
    rows, row = input_type(call).elements, prod(input_type(call, 1).shape[1:])
    return Gathering(("in", 1), ("in", 0), 1, 1, rows, _limits(call), row)


def _workload(call: Call) -> Workload:
    return chosen(call, 0)


OPERATOR = Operator(
    name="embedding_lookup",
    types=tuple(f"int32, {name} -> {name}" for name in names()),
    rules=(rules.operands(2), _rows, _shape, known_indices(0, _limits)),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(lowering(_gathering),),
)
