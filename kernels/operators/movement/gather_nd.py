"""gather_nd: for each tuple of indices along the last axis the element or slice of the values there."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.pick import Gathering, lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.movement.indices import VALUES_THEN_INDICES, checked, chosen, known_indices


def _limits(call: Call) -> tuple[int, ...]:
    return input_type(call).shape[: input_type(call, 1).shape[-1]]


def _reference(call: Call, values: Values) -> list[Array]:
    indices = checked(call, values, 1, _limits(call))
    found = input_value(values)[tuple(np.moveaxis(indices, -1, 0))]
    return [np.ascontiguousarray(found).reshape(call.outputs[0].shape)]


def _tuples(call: Call) -> bool:
    """the indices have an axis or more, the last of at most as many entries as the values have axes"""
    shape = input_type(call, 1).shape
    return len(shape) > 0 and shape[-1] <= len(input_type(call).shape)


def _infer(call: Call) -> Shapes:
    values, indices = input_type(call).shape, input_type(call, 1).shape
    return ((*indices[:-1], *values[indices[-1] :]),)


def _gathered_shape(call: Call) -> bool:
    """the output has the axes of the indices but the last, then those of the values that no index counts along"""
    return _infer(call) == (call.outputs[0].shape,)


def _gathering(call: Call) -> Gathering:
    limits = _limits(call)
    rows, row = prod(input_type(call, 1).shape[:-1]), prod(input_type(call).shape[len(limits) :])
    return Gathering(("in", 0), ("in", 1), 1, 1, rows, limits, row)


def _workload(call: Call) -> Workload:
    return chosen(call, 1)


OPERATOR = Operator(
    name="gather_nd",
    types=VALUES_THEN_INDICES,
    rules=(rules.operands(2), _tuples, _gathered_shape, known_indices(1, _limits)),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(lowering(_gathering),),
)
