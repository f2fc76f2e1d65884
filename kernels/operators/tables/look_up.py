"""look_up: the entry of a table at each 8-bit code.

What a function of one operand is that has no operator of its own: several that follow one another, worked out for all
256 codes.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_table
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import code_range, elementwise, input_value, like_input
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.tables.lookup import look_up

_CODES = 256


class Parameters(parameters.Parameters):
    """entries: the results, codes, in the order of the operand's raw bytes (of int8: 0..127, then -128..-1)."""

    entries: tuple[Annotated[int, Between(-128, 255)], ...]


def table(call: Call[Parameters]) -> Array:
    """The output code of each of a call's 256 input codes, in raw byte order."""
    return np.array(call.parameters.entries, call.outputs[0].numpy_dtype)


def _an_entry_for_each_code(call: Call[Parameters]) -> bool:
    """there are 256 entries, each a code of the output's type"""
    low, high = code_range(call.outputs[0].dtype)
    entries = call.parameters.entries
    return len(entries) == _CODES and low <= min(entries) and max(entries) <= high


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [look_up(table(call), input_value(values))]


OPERATOR = Operator(
    name="look_up",
    parameters=Parameters,
    types=("int8|uint8 -> int8|uint8",),
    rules=(rules.operands(1), rules.same_shape, rules.per_tensor, _an_entry_for_each_code),
    infer=like_input,
    reference=_reference,
    workload=elementwise,
    lowerings=(
        Lowering("vector", (rules.eight_bit,), lambda call, hardware: lower_table(call, table(call))),
    ),
)
