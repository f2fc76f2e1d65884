"""hashtable_lookup: for each looked-up key the row of the values beside that key, and whether there is one.

A key that is not there gives zeros.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values


def _reference(call: Call, values: Values) -> list[Array]:
    wanted, keys, rows = (input_value(values, position) for position in range(3))
    found = np.zeros(call.outputs[0].shape, rows.dtype)
    hits = np.isin(wanted, keys)
    order = np.argsort(keys, kind="stable")  # keys that are computed may be in any order
    found[hits] = rows[order[np.searchsorted(keys, wanted[hits], sorter=order)]]
    return [found, hits.astype(np.uint8)]


def _lists(call: Call) -> bool:
    """what is looked up and the keys have one axis, and the values a row for each key"""
    wanted, keys, values = (input_type(call, position).shape for position in range(3))
    return len(wanted) == len(keys) == 1 and values[:1] == keys


def _ascending(call: Call) -> bool:
    """constant keys ascend"""
    keys = call.constants.get(1)
    return not isinstance(keys, np.ndarray) or bool(np.all(np.diff(keys.astype(np.int64)) >= 0))


def _infer(call: Call) -> Shapes:
    wanted = input_type(call).shape
    return (*wanted, *input_type(call, 2).shape[1:]), wanted


def _shapes(call: Call) -> bool:
    """the outputs have a row of the values, and a number, for each key that is looked up"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


def _workload(call: Call) -> Workload:
    """A binary search among the keys for each, then a copy."""
    steps = max(input_type(call, 1).elements.bit_length(), 1) * input_type(call).elements
    written = sum(output.size_bytes for output in call.outputs)
    return replace(elementwise(call, steps), input_bytes=written + input_type(call).size_bytes)


OPERATOR = Operator(
    name="hashtable_lookup",
    types=tuple(f"int32, int32, {name} -> {name}, uint8" for name in names()),
    rules=(rules.operands(3, 2), _lists, _shapes, _ascending),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="a search among keys is control flow, which the NPU has not",
)
