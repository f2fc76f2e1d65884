"""Operators that write an update into a tensor, at places that a tensor of indices names."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.isa.instructions.gather import MOST_SPAN
from npusim.kernels.lowering.pick import Picking, lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value, like_input, move
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.movement.indexing import (
    GatherParameters,
    known_indices,
    numpy_index,
    picking,
    table_counts,
)


class ScatterNdParameters(GatherParameters):
    """reduction: how an update combines with the value there; "none": it replaces it, the last of several wins.

    The other parameters are those of a gather of the updates from the result.
    """

    reduction: Literal["none", "add", "mul", "max", "min"] = "none"


_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter_limits(call: Call[ScatterNdParameters]) -> tuple[int, ...]:
    axis = call.parameters.axis
    return input_type(call).shape[axis : axis + input_type(call, 1).shape[-1]]


def _scatter_nd_reference(call: Call[ScatterNdParameters], values: Values) -> list[Array]:
    """Apply one update after the other, in their order."""
    result: Any = input_value(values).copy()
    limits, counts = _scatter_limits(call), table_counts(call)
    inner = input_type(call).shape[call.parameters.axis + len(limits) :]
    updates: Any = input_value(values, 2).reshape(*counts, -1, *inner)
    view = result.reshape(*counts, *limits, *inner)
    rows = numpy_index(call, values, limits)
    combine = _COMBINE.get(call.parameters.reduction)
    with np.errstate(all="ignore"):
        if combine is None:
            view[rows] = updates
        else:
            combine.at(view, rows, updates)
    return [result]


def _scatter_nd_tuples(call: Call[ScatterNdParameters]) -> bool:
    """indices have an axis or more, the last of 1 to as many entries as the data have axes from `axis` on"""
    shape, axis = input_type(call, 1).shape, call.parameters.axis
    return len(shape) > 0 and 1 <= shape[-1] <= len(input_type(call).shape) - axis


def _updates(call: Call[ScatterNdParameters]) -> bool:
    """updates have the axes of the indices but the last in place of the data's axes that indices count along"""
    data, indices = input_type(call).shape, input_type(call, 1).shape
    axis, batch_dims = call.parameters.axis, call.parameters.batch_dims
    shape = (*data[:axis], *indices[batch_dims:-1], *data[axis + indices[-1] :])
    alike = batch_dims <= axis and data[:batch_dims] == indices[:-1][:batch_dims]
    return alike and input_type(call, 2).shape == shape


def _numbers(call: Call[ScatterNdParameters]) -> bool:
    """booleans are not combined"""
    return call.parameters.reduction == "none" or call.outputs[0].dtype != "bool"


def _replaces(call: Call[ScatterNdParameters]) -> bool:
    """on the NPU updates replace the values there (reduction none)"""
    return call.parameters.reduction == "none"


def _scattering(call: Call[ScatterNdParameters]) -> Picking:
    gather = picking(call, _scatter_limits(call), input_type(call, 1).shape[:-1])
    return gather._replace(tables=("out", 0), dense=("in", 2), updated=("in", 0))


SCATTER_ND = Operator(
    name="scatter_nd",
    parameters=ScatterNdParameters,
    types=tuple(f"{name}, int32|int64, {name} -> {name}" for name in names()),
    rules=(
        rules.operands(3),
        rules.same_shape,
        _scatter_nd_tuples,
        _updates,
        _numbers,
        known_indices(1, _scatter_limits),
    ),
    infer=like_input,
    reference=_scatter_nd_reference,
    workload=move,
    lowerings=(lowering(_scattering, _replaces),),
    updates=True,
    index_limits=_scatter_limits,
)
"""A copy of a tensor with updates at the places that indices name.

Inputs: data, indices, and updates. Indices are [..., k]: each tuple of k names a place along k axes of the data, from
`axis` on. Updates have the data's axes before `axis`, those of the indices but the last, and the data's axes behind the
k.
"""


def _slice_reference(call: Call, values: Values) -> list[Array]:
    """Write the update into a copy of the data. Its start is clamped so that all of it fits, as in LiteRT."""
    result, update = input_value(values).copy(), input_value(values, 1)
    limits = np.array(result.shape, np.int64) - update.shape
    first = np.clip(input_value(values, 2).astype(np.int64), 0, limits).tolist()
    result[tuple([slice(at, at + size) for at, size in zip(first, update.shape, strict=True)])] = update
    return [result]


def _within(call: Call) -> bool:
    """the update has as many axes as the data, and no more elements along any; there is a place for each axis"""
    data, update = input_type(call).shape, input_type(call, 1).shape
    fits = len(data) == len(update) and all(new <= old for new, old in zip(update, data, strict=True))
    return fits and input_type(call, 2).shape == (len(data),)


def _partial_axes(call: Call) -> tuple[int, int]:
    """Return the first axis along which an update is shorter than the data, and the axis behind the last such one."""
    data, update = input_type(call).shape, input_type(call, 1).shape
    partial = [axis for axis, (new, old) in enumerate(zip(update, data, strict=True)) if new < old]
    return (partial[0], partial[-1] + 1) if partial else (0, 1)


def _one_run(call: Call) -> bool:
    first, behind = _partial_axes(call)
    sizes = input_type(call, 1).shape[first:behind]
    return len(sizes) > 0 and input_type(call, 1).elements > 0 and prod(sizes) == sizes[-1] <= MOST_SPAN


_one_run.__doc__ = (
    "on the NPU the update has one element along each axis from the first where it is shorter than the data up to the "
    f"last such, and at most {MOST_SPAN} along that one"
)


def _replacing(call: Call) -> Picking:
    data, (first, behind) = input_type(call).shape, _partial_axes(call)
    return Picking(
        tables=("out", 0),
        indices=("in", 2),
        batches=1,
        repeats=prod(data[:first]),
        rows=1,
        limits=data[first:behind],
        row=prod(data[behind:]),
        bounds="clamped",
        dense=("in", 1),
        span=input_type(call, 1).shape[behind - 1],
        first=first,
        updated=("in", 0),
    )


DYNAMIC_UPDATE_SLICE = Operator(
    name="dynamic_update_slice",
    types=tuple(f"{name}, {name}, int32|int64 -> {name}" for name in names()),
    rules=(rules.operands(3), rules.same_shape, _within),
    infer=like_input,
    reference=_slice_reference,
    workload=move,
    lowerings=(lowering(_replacing, _one_run),),
    updates=True,
)
"""A copy of a tensor with an update written over the elements from a given place on.

Inputs: data, update, and the place of the update's first element, a number for each axis of the data.
"""


OPERATORS = (SCATTER_ND, DYNAMIC_UPDATE_SLICE)
