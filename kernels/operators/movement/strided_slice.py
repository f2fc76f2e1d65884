"""strided_slice: every strides[i]-th element of axis i, from begin[i] on, size[i] of them.

Strides may be negative. The output may drop or add axes of one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import forward, lower_slice
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Operator


def reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    """The chosen elements under the output's shape; without the attribute strides all strides are 1."""
    begin, size = call.attributes["begin"], call.attributes["size"]
    strides = call.attributes.get("strides", [1] * len(begin))
    axes = zip(begin, size, strides, strict=True)
    chosen = np.ix_(*(first + np.arange(count) * stride for first, count, stride in axes))
    return [np.ascontiguousarray(input_value(values)[chosen]).reshape(call.outputs[0].shape)]


def inside(call: Call) -> bool:
    """begin, size and strides have an entry per axis of the input and choose elements that it has"""
    shape = input_type(call).shape
    begin, size = call.attributes.get("begin", ()), call.attributes.get("size", ())
    strides = call.attributes.get("strides", [1] * len(shape))
    if not len(begin) == len(size) == len(strides) == len(shape):
        return False
    return all(map(_inside_axis, shape, begin, size, strides))


def _inside_axis(length: int, first: int, count: int, stride: int) -> bool:
    last = first + (count - 1) * stride
    return count == 0 or (count > 0 and 0 <= first < length and 0 <= last < length)


def chosen_elements(call: Call) -> bool:
    """the output has as many elements as size says"""
    size: list[int] = call.attributes["size"]
    return call.outputs[0].elements == prod(size)


OPERATOR = Operator(
    name="strided_slice",
    rules=(rules.operands(1), rules.same_type, inside, chosen_elements),
    npu_rules=(rules.eight_bit, forward),
    reference=reference,
    workload=move,
    lower=lower_slice,
    unit="dma",
)
