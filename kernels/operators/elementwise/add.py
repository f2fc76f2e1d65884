"""Sum of two tensors, which may broadcast. Attributes: activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_add, regular_broadcast
from npusim.kernels.operator import broadcast, operands, rules
from npusim.kernels.operator.operands import elementwise
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operator.rescale import scaled_only_down


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    return broadcast.add_or_subtract(call, values, np.add)


OPERATOR = Operator(
    name="add",
    rules=(*broadcast.RULES, scaled_only_down),
    infer=operands.broadcast,
    npu_rules=(rules.eight_bit, regular_broadcast),
    reference=_reference,
    workload=elementwise,
    lower=lower_add,
    unit="vector",
)
