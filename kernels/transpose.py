"""transpose: axes in another order; output axis i is input axis perm[i]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.tensor import Array
from npusim.kernels import rules
from npusim.kernels.move_lowering import lower_transpose
from npusim.kernels.operands import input_type, input_value, move
from npusim.kernels.operator import Call, Operator


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    return [np.ascontiguousarray(np.transpose(input_value(values), call.attributes["perm"]))]


def _permutation(call: Call) -> bool:
    """perm names each axis of the input once"""
    return sorted(call.attributes.get("perm", ())) == list(range(len(input_type(call).shape)))


def _permuted_shape(call: Call) -> bool:
    """the output has the input's sizes in the order of perm"""
    shape = input_type(call).shape
    return call.outputs[0].shape == tuple(shape[axis] for axis in call.attributes["perm"])


OPERATOR = Operator(
    name="transpose",
    rules=(rules.operands(1), rules.same_type, _permutation, _permuted_shape),
    npu_rules=(rules.eight_bit,),
    reference=_reference,
    workload=move,
    lower=lower_transpose,
    unit="dma",
)
