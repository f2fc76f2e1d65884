"""gather: for each index the slice of the values there along one axis; the shape of the indices replaces the axis.

With `batch_dims` the first axes are those of values and indices alike, and each batch has indices of its own.
"""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.pick import Gathering, lowering
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size
from npusim.kernels.operators.movement.indices import VALUES_THEN_INDICES, checked, chosen, known_indices


class Parameters(parameters.Parameters):
    """axis: of the values, counted from the front; batch_dims: leading axes that values and indices share."""

    axis: Size = 0
    batch_dims: Size = 0


def _limits(call: Call[Parameters]) -> tuple[int, ...]:
    return (input_type(call).shape[call.parameters.axis],)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    shape, batch_dims, axis = input_type(call).shape, call.parameters.batch_dims, call.parameters.axis
    batches, between = prod(shape[:batch_dims]), prod(shape[batch_dims:axis])
    source = input_value(values).reshape(batches, between, shape[axis], prod(shape[axis + 1 :]))
    indices = checked(call, values, 1, _limits(call)).reshape(batches, 1, -1)
    rows = np.arange(batches)[:, None, None], np.arange(between)[None, :, None], indices
    return [np.ascontiguousarray(source[rows]).reshape(call.outputs[0].shape)]


def _axes(call: Call[Parameters]) -> bool:
    """axis is an axis of the values, and batch_dims are axes before it that the indices have too"""
    values, indices = input_type(call).shape, input_type(call, 1).shape
    axis, batch_dims = call.parameters.axis, call.parameters.batch_dims
    return batch_dims <= axis < len(values) and values[:batch_dims] == indices[:batch_dims]


def _infer(call: Call[Parameters]) -> Shapes:
    values, indices = input_type(call).shape, input_type(call, 1).shape
    axis, batch_dims = call.parameters.axis, call.parameters.batch_dims
    return ((*values[:axis], *indices[batch_dims:], *values[axis + 1 :]),)


def _gathered_shape(call: Call[Parameters]) -> bool:
    """the output has the shape of the values with that of the indices in the place of the axis"""
    return _infer(call) == (call.outputs[0].shape,)


def _gathering(call: Call[Parameters]) -> Gathering:
    shape, indices = input_type(call).shape, input_type(call, 1).shape
    axis, batch_dims = call.parameters.axis, call.parameters.batch_dims
    return Gathering(
        values=("in", 0),
        indices=("in", 1),
        batches=prod(shape[:batch_dims]),
        repeats=prod(shape[batch_dims:axis]),
        rows=prod(indices[batch_dims:]),
        limits=_limits(call),
        row=prod(shape[axis + 1 :]),
    )


def _workload(call: Call) -> Workload:
    return chosen(call, 1)


OPERATOR = Operator(
    name="gather",
    parameters=Parameters,
    types=VALUES_THEN_INDICES,
    rules=(rules.operands(2), _axes, _gathered_shape, known_indices(1, _limits)),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(lowering(_gathering),),
)
