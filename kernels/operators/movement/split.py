"""split: one tensor cut along one axis into pieces, whose sizes the output types say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_split
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Alias, Call, Operator


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    axis = call.attributes["axis"]
    cuts = list(accumulate(output.shape[axis] for output in call.outputs))[:-1]
    return [np.ascontiguousarray(piece) for piece in np.split(input_value(values), cuts, axis=axis)]


def _alias(call: Call) -> tuple[Alias, ...] | None:
    """Each output is a contiguous part of the input when all axes before the cut one have one element."""
    if prod(input_type(call).shape[: call.attributes["axis"]]) != 1:
        return None
    offsets = accumulate((output.size_bytes for output in call.outputs), initial=0)
    numbered = zip(range(len(call.outputs)), offsets, strict=False)
    return tuple(Alias(("out", number), ("in", 0), offset) for number, offset in numbered)


def _present(call: Call) -> bool:
    """takes 1 input and gives 1 output or more"""
    return len(call.inputs) == 1 and call.inputs[0] is not None and len(call.outputs) > 0


def _axis(call: Call) -> bool:
    """axis counts from the front and is an axis of the input"""
    axis = call.attributes.get("axis")
    return isinstance(axis, int) and 0 <= axis < len(input_type(call).shape)


def _pieces(call: Call) -> bool:
    """the sizes of the outputs along the axis add up to the input's; all other sizes are equal"""
    axis, shape = call.attributes["axis"], input_type(call).shape
    shapes = [output.shape for output in call.outputs]
    if any(len(other) != len(shape) for other in shapes):
        return False
    others = all(other[:axis] + other[axis + 1 :] == shape[:axis] + shape[axis + 1 :] for other in shapes)
    return others and sum(other[axis] for other in shapes) == shape[axis]


OPERATOR = Operator(
    name="split",
    rules=(_present, rules.same_type, _axis, _pieces),
    npu_rules=(rules.eight_bit,),
    reference=_reference,
    workload=move,
    lower=lower_split,
    unit="dma",
    alias=_alias,
)
