"""embedding_lookup: rows of a table, along its first axis, at indices; the indices come first.

With the rescale "dynamic" an int8 table of symmetric values, with one scale or one per row, gives float32 rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.pick import Gathering, lowering
from npusim.kernels.operator import dynamic_range, rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type, input_value, quantization
from npusim.kernels.operator.operator import Arithmetic, Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import NONE
from npusim.kernels.operators.movement.indices import checked, chosen, known_indices


def _limits(call: Call) -> tuple[int, ...]:
    return (input_type(call, 1).shape[0],)


def _reference(call: Call, values: Values) -> list[Array]:
    indices = checked(call, values, 0, _limits(call))
    return [np.ascontiguousarray(input_value(values, 1)[indices])]


def _dynamic_range(call: Call, values: Values) -> list[Array]:
    """The rows with their scales."""
    table = input_type(call, 1)
    scales = dynamic_range.scales_of(table)
    if len(scales) > 1:
        scales = scales[input_value(values)]
    [rows] = _reference(call, values)
    return [rows.astype(np.float32) * scales.reshape(-1, *(1,) * (rows.ndim - 1))]


def _gathered_first(call: Call) -> Expansion | None:
    """The rows as they are, and their values then."""
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


_RULES = (rules.operands(2), _rows, _shape, known_indices(0, _limits))

OPERATOR = Operator(
    name="embedding_lookup",
    types=tuple(f"int32, {name} -> {name}" for name in names()),
    rules=_RULES,
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(lowering(_gathering),),
    arithmetics=(
        Arithmetic(
            ("int32, int8 -> float32",),
            (*_RULES, dynamic_range.symmetric_weights(0)),
            _dynamic_range,
            ("dynamic",),
            "rows of a table with a scale each become float32 here; with one scale the NPU needs float lanes",
            _gathered_first,
        ),
    ),
)
