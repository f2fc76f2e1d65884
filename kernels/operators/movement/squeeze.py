"""squeeze: a reshape that drops axes of one element."""

from __future__ import annotations

from npusim.kernels.lowering.move import lower_copy
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import free, input_type
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operators.movement import reshape


def _drops_only_ones(call: Call) -> bool:
    """input and output shapes differ only in axes of one element"""
    kept = [size for size in input_type(call).shape if size != 1]
    return kept == [size for size in call.outputs[0].shape if size != 1]


OPERATOR = Operator(
    name="squeeze",
    rules=(rules.operands(1), rules.same_type, _drops_only_ones),
    npu_rules=(),
    reference=reshape.reference,
    workload=free,
    lower=lower_copy,
    unit="dma",
    alias=reshape.alias,
)
