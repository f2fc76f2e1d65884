"""Operators that read the elements that a tensor of indices names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload, names
from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.pick import Picking, lowering
from npusim.kernels.operator import dynamic_range, parameters, rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import (
    elementwise,
    input_type,
    input_value,
    move,
    quantization,
)
from npusim.kernels.operator.operator import Arithmetic, Call, Operator, Rule, Shapes, Values
from npusim.kernels.operator.parameters import NONE, Size

VALUES_THEN_INDICES = tuple(f"{name}, int32|int64 -> {name}" for name in names())
"""Element types of operators that choose among the elements of their first input."""

Limits = Callable[[Call], tuple[int, ...]]
"""The sizes to choose from: one for all indices, or one for each entry of the last axis."""


def checked(call: Call, values: Values, position: int, limits: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the indices at an input, counted from 0. Raises OperandFault for one outside the limits, and names it."""
    given: NDArray[np.int64] = input_value(values, position).astype(np.int64)
    if not given.size:
        return given
    from_end, sizes = _from_end(call), np.array(limits)
    places = np.where(given < 0, given + sizes, given) if from_end else given
    wrong = (places < 0) | (places >= sizes)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        limit = limits[place[-1] if len(limits) > 1 else 0]
        least = -limit if from_end else 0
        choice = f"may be {least}..{limit - 1}" if limit else "there is nothing to choose from"
        raise OperandFault(f"index {given[place]} at {list(place)} of input {position}: {choice}")
    return places


def _from_end(call: Call) -> bool:
    """Return whether negative indices count from the end."""
    return getattr(call.parameters, "bounds", "") == "from_end"


def known_indices(position: int, limits: Limits) -> Rule:
    """Return the rule that constant indices are in range."""

    def rule(call: Call) -> bool:
        data = call.constants.get(position)
        if not isinstance(data, np.ndarray) or not data.size:
            return True
        wide, sizes = data.astype(np.int64), np.array(limits(call))
        least = -sizes if _from_end(call) else 0 * sizes
        return bool(np.all((wide >= least) & (wide < sizes)))

    rule.__doc__ = (
        f"constant indices (input {position}) are 0 or more, and less than the size of what they choose from"
    )
    return rule


def chosen(call: Call, position: int) -> Workload:
    """Return the work of a gather. It reads its indices, and of the tables only the rows that they select."""
    indices = 0 if position in call.constants else input_type(call, position).size_bytes
    written = sum(output.size_bytes for output in call.outputs)
    return replace(move(call), input_bytes=indices + written)


class IndexParameters(parameters.Parameters):
    """bounds: "from_end": a negative index counts from the end of its axis; "checked": it ends the run."""

    bounds: Literal["checked", "from_end"] = "checked"


class GatherParameters(IndexParameters):
    """axis: the (first) indexed axis of the values, counted from the front; batch_dims: leading axes that values and
    indices share.
    """

    axis: Size = 0
    batch_dims: Size = 0


def table_counts(call: Call[GatherParameters]) -> tuple[int, int]:
    """Return the number of batches, and the number of tables in a batch: one for each place before the indexed axis."""
    shape, parameters = input_type(call).shape, call.parameters
    return prod(shape[: parameters.batch_dims]), prod(shape[parameters.batch_dims : parameters.axis])


def numpy_index(call: Call[GatherParameters], values: Values, limits: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the checked indices as numpy's index of the selected rows of an array [batches, tables, *limits, ...]."""
    batches, tables = table_counts(call)
    places = checked(call, values, 1, limits).reshape(batches, 1, -1, len(limits))
    return np.arange(batches)[:, None, None], np.arange(tables)[None, :, None], *np.moveaxis(places, -1, 0)


def picking(call: Call[GatherParameters], limits: tuple[int, ...], indices: tuple[int, ...]) -> Picking:
    """Return the pick of rows of the first input; `indices` is the shape of the indices without their numbers."""
    rows = prod(indices[call.parameters.batch_dims :])
    row = prod(input_type(call).shape[call.parameters.axis + len(limits) :])
    return Picking(("in", 0), ("in", 1), *table_counts(call), rows, limits, row, call.parameters.bounds)


def _gather_limits(call: Call[GatherParameters]) -> tuple[int, ...]:
    return (input_type(call).shape[call.parameters.axis],)


def _gather_reference(call: Call[GatherParameters], values: Values) -> list[Array]:
    limits, inner = _gather_limits(call), prod(input_type(call).shape[call.parameters.axis + 1 :])
    tables = input_value(values).reshape(*table_counts(call), *limits, inner)
    rows = tables[numpy_index(call, values, limits)]
    return [np.ascontiguousarray(rows).reshape(call.outputs[0].shape)]


def _axes(call: Call[GatherParameters]) -> bool:
    """axis is an axis of the values, and batch_dims are axes before it that the indices have too"""
    values, indices = input_type(call).shape, input_type(call, 1).shape
    axis, batch_dims = call.parameters.axis, call.parameters.batch_dims
    return batch_dims <= axis < len(values) and values[:batch_dims] == indices[:batch_dims]


def _gather_infer(call: Call[GatherParameters]) -> Shapes:
    values, indices = input_type(call).shape, input_type(call, 1).shape
    axis, batch_dims = call.parameters.axis, call.parameters.batch_dims
    return ((*values[:axis], *indices[batch_dims:], *values[axis + 1 :]),)


_gather_gathered_shape = rules.inferred(
    _gather_infer, "the output has the shape of the values with that of the indices in the place of the axis"
)


def _gather_gathering(call: Call[GatherParameters]) -> Picking:
    return picking(call, _gather_limits(call), input_type(call, 1).shape)


def _gather_workload(call: Call) -> Workload:
    return chosen(call, 1)


GATHER = Operator(
    name="gather",
    parameters=GatherParameters,
    types=VALUES_THEN_INDICES,
    rules=(rules.operands(2), _axes, _gather_gathered_shape, known_indices(1, _gather_limits)),
    infer=_gather_infer,
    reference=_gather_reference,
    workload=_gather_workload,
    lowerings=(lowering(_gather_gathering),),
    index_limits=_gather_limits,
)
"""For each index the slice of the values there along one axis; the shape of the indices replaces the axis.

With `batch_dims` the first axes are those of values and indices alike, and each batch has indices of its own.
"""


def _gather_nd_limits(call: Call) -> tuple[int, ...]:
    return input_type(call).shape[: input_type(call, 1).shape[-1]]


def _gather_nd_reference(call: Call, values: Values) -> list[Array]:
    indices = checked(call, values, 1, _gather_nd_limits(call))
    gathered = input_value(values)[tuple(np.moveaxis(indices, -1, 0))]
    return [np.ascontiguousarray(gathered).reshape(call.outputs[0].shape)]


def _gather_nd_tuples(call: Call) -> bool:
    """the indices have an axis or more, the last of at most as many entries as the values have axes"""
    shape = input_type(call, 1).shape
    return len(shape) > 0 and shape[-1] <= len(input_type(call).shape)


def _gather_nd_infer(call: Call) -> Shapes:
    values, indices = input_type(call).shape, input_type(call, 1).shape
    return ((*indices[:-1], *values[indices[-1] :]),)


_gather_nd_gathered_shape = rules.inferred(
    _gather_nd_infer,
    "the output has the axes of the indices but the last, then those of the values that no index counts along",
)


def _gather_nd_gathering(call: Call[IndexParameters]) -> Picking:
    limits = _gather_nd_limits(call)
    rows, row = prod(input_type(call, 1).shape[:-1]), prod(input_type(call).shape[len(limits) :])
    return Picking(("in", 0), ("in", 1), 1, 1, rows, limits, row, call.parameters.bounds)


GATHER_ND = Operator(
    name="gather_nd",
    parameters=IndexParameters,
    types=VALUES_THEN_INDICES,
    rules=(
        rules.operands(2),
        _gather_nd_tuples,
        _gather_nd_gathered_shape,
        known_indices(1, _gather_nd_limits),
    ),
    infer=_gather_nd_infer,
    reference=_gather_nd_reference,
    workload=_gather_workload,
    lowerings=(lowering(_gather_nd_gathering),),
    index_limits=_gather_nd_limits,
)
"""For each tuple of indices along the last axis, the element or slice of the values there."""


def _embedding_limits(call: Call) -> tuple[int, ...]:
    return (input_type(call, 1).shape[0],)


def _embedding_reference(call: Call, values: Values) -> list[Array]:
    indices = checked(call, values, 0, _embedding_limits(call))
    return [np.ascontiguousarray(input_value(values, 1)[indices])]


def _dynamic_range(call: Call, values: Values) -> list[Array]:
    """Return the rows, dequantized with their scales."""
    table = input_type(call, 1)
    scales = dynamic_range.scales_of(table)
    if len(scales) > 1:
        scales = scales[input_value(values)]
    [rows] = _embedding_reference(call, values)
    return [rows.astype(np.float32) * scales.reshape(-1, *(1,) * (rows.ndim - 1))]


def _gathered_first(call: Call) -> Expansion | None:
    """Expand to a gather of quantized rows, then their dequantization."""
    table, output = input_type(call, 1), call.outputs[0]
    if quantization(table).axis is not None:
        return None
    parts = Expansion(len(call.inputs))
    [rows] = parts.call("rows", "embedding_lookup", (0, 1), [replace(table, shape=output.shape)], NONE)
    parts.results = list(parts.call("values", "dequantize", [rows], [output], NONE))
    return parts


def _rows(call: Call) -> bool:
    """the indices have one axis, and the table at least one"""
    return len(input_type(call).shape) == 1 and len(input_type(call, 1).shape) > 0


def _embedding_infer(call: Call) -> Shapes:
    return ((*input_type(call).shape, *input_type(call, 1).shape[1:]),)


_shape = rules.inferred(_embedding_infer, "the output has a row of the table for each index")


def _embedding_gathering(call: Call) -> Picking:
    rows, row = input_type(call).elements, prod(input_type(call, 1).shape[1:])
    return Picking(("in", 1), ("in", 0), 1, 1, rows, _embedding_limits(call), row)


def _embedding_workload(call: Call) -> Workload:
    return chosen(call, 0)


_RULES = (rules.operands(2), _rows, _shape, known_indices(0, _embedding_limits))

EMBEDDING_LOOKUP = Operator(
    name="embedding_lookup",
    types=tuple(f"int32, {name} -> {name}" for name in names()),
    rules=_RULES,
    infer=_embedding_infer,
    reference=_embedding_reference,
    workload=_embedding_workload,
    lowerings=(lowering(_embedding_gathering),),
    arithmetics=(
        Arithmetic(
            ("dynamic",),
            ("int32, int8 -> float32",),
            (*_RULES, dynamic_range.symmetric_weights(0)),
            _dynamic_range,
            on_host="a table with a scale per row is dequantized here; with one scale the NPU needs float lanes",
            expand=_gathered_first,
        ),
    ),
)
"""Rows of a table, along its first axis, at indices; the indices come first.

With the rescale "dynamic" an int8 table of symmetric values, with one scale or one per row, gives float32 rows.
"""


def _hashtable_reference(call: Call, values: Values) -> list[Array]:
    wanted, keys, rows = (input_value(values, position) for position in range(3))
    looked_up = np.zeros(call.outputs[0].shape, rows.dtype)
    hits = np.isin(wanted, keys)
    order = np.argsort(keys, kind="stable")  # keys that are computed may be in any order
    looked_up[hits] = rows[order[np.searchsorted(keys, wanted[hits], sorter=order)]]
    return [looked_up, hits.astype(np.uint8)]


def _lists(call: Call) -> bool:
    """lookups and keys have one axis, and the values have a row for each key"""
    wanted, keys, values = (input_type(call, position).shape for position in range(3))
    return len(wanted) == len(keys) == 1 and values[:1] == keys


def _ascending(call: Call) -> bool:
    """constant keys ascend"""
    keys = call.constants.get(1)
    return not isinstance(keys, np.ndarray) or bool(np.all(np.diff(keys.astype(np.int64)) >= 0))


def _hashtable_infer(call: Call) -> Shapes:
    wanted = input_type(call).shape
    return (*wanted, *input_type(call, 2).shape[1:]), wanted


_shapes = rules.inferred(
    _hashtable_infer, "for each lookup one output has a row of the values, the other one number"
)


def _hashtable_workload(call: Call) -> Workload:
    """Return the work of a binary search among the keys for each, then a copy."""
    steps = max(input_type(call, 1).elements.bit_length(), 1) * input_type(call).elements
    written = sum(output.size_bytes for output in call.outputs)
    return replace(elementwise(call, steps), input_bytes=written + input_type(call).size_bytes)


HASHTABLE_LOOKUP = Operator(
    name="hashtable_lookup",
    types=tuple(f"int32, int32, {name} -> {name}, uint8" for name in names()),
    rules=(rules.operands(3, 2), _lists, _shapes, _ascending),
    infer=_hashtable_infer,
    reference=_hashtable_reference,
    workload=_hashtable_workload,
    on_host="a search among keys is control flow, which the NPU does not have",
)
"""For each looked-up key the row of the values beside that key, and whether there is one.

A key that is not there gives zeros.
"""


OPERATORS = (
    GATHER,
    GATHER_ND,
    EMBEDDING_LOOKUP,
    HASHTABLE_LOOKUP,
)
