"""reshape: the same elements in the same order under another shape."""

from __future__ import annotations

from math import prod
from typing import Annotated

from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_copy
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import free, input_type, input_value
from npusim.kernels.operator.operator import Alias, Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import MOST

REST = -1
"""The size that makes the number of elements the input's."""


class Parameters(parameters.Parameters):
    """shape: that of the output; one of its sizes may be REST."""

    shape: tuple[Annotated[int, Between(REST, MOST)], ...]


def reference(call: Call, values: Values) -> list[Array]:
    """The input under the output's shape."""
    return [input_value(values).reshape(call.outputs[0].shape)]


def alias(call: Call) -> tuple[Alias, ...]:
    """The output is the input."""
    return (Alias(part=("out", 0), whole=("in", 0), offset_bytes=0),)


def _one_rest(call: Call[Parameters]) -> bool:
    """at most one size is -1, what is left over, and the others divide the number of elements"""
    shape = call.parameters.shape
    if REST not in shape:
        return True
    others = prod(size for size in shape if size != REST)
    return shape.count(REST) == 1 and others > 0 and input_type(call).elements % others == 0


def _same_number_of_elements(call: Call) -> bool:
    """input and output have the same number of elements"""
    return input_type(call).elements == call.outputs[0].elements


def _infer(call: Call[Parameters]) -> Shapes:
    shape = call.parameters.shape
    if REST not in shape:
        return (shape,)
    rest = input_type(call).elements // prod(size for size in shape if size != REST)
    return (tuple(rest if size == REST else size for size in shape),)


def _said_shape(call: Call[Parameters]) -> bool:
    """the output has the shape that the parameters say"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="reshape",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _same_number_of_elements, _one_rest, _said_shape),
    infer=_infer,
    reference=reference,
    workload=free,
    lowerings=(Lowering("dma", (), lower_copy),),
    alias=alias,
)
