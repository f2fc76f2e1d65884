"""transpose: axes in another order; output axis i is input axis perm[i]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import lower_transpose
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Operator, Shapes


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    return [np.ascontiguousarray(np.transpose(input_value(values), call.attributes["perm"]))]


def _permutation(call: Call) -> bool:
    """perm names each axis of the input once"""
    return sorted(call.attributes.get("perm", ())) == list(range(len(input_type(call).shape)))


def _infer(call: Call) -> Shapes:
    return (tuple(input_type(call).shape[axis] for axis in call.attributes["perm"]),)


def _permuted_shape(call: Call) -> bool:
    """the output has the input's sizes in the order of perm"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="transpose",
    rules=(rules.operands(1), rules.same_type, _permutation, _permuted_shape),
    infer=_infer,
    npu_rules=(rules.eight_bit,),
    reference=_reference,
    workload=move,
    lower=lower_transpose,
    unit="dma",
)
