"""reshape: the same elements in the same order under another shape."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_copy
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import free, input_type, input_value
from npusim.kernels.operator.operator import Alias, Call, Operator


def reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    """The input under the output's shape."""
    return [input_value(values).reshape(call.outputs[0].shape)]


def alias(call: Call) -> tuple[Alias, ...]:
    """The output is the input."""
    return (Alias(part=("out", 0), whole=("in", 0), offset_bytes=0),)


def same_number_of_elements(call: Call) -> bool:
    """input and output have the same number of elements"""
    return input_type(call).elements == call.outputs[0].elements


OPERATOR = Operator(
    name="reshape",
    rules=(rules.operands(1), rules.same_type, same_number_of_elements),
    npu_rules=(),
    reference=reference,
    workload=free,
    lower=lower_copy,
    unit="dma",
    alias=alias,
)
