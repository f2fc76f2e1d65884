"""slice: size[i] elements of each axis i, from begin[i] on."""

from __future__ import annotations

from npusim.kernels.lowering.move import forward, lower_slice
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import move
from npusim.kernels.operator.operator import Operator
from npusim.kernels.operators.movement.strided_slice import chosen_elements, inside, reference

OPERATOR = Operator(
    name="slice",
    rules=(rules.operands(1), rules.same_type, inside, chosen_elements),
    npu_rules=(rules.eight_bit, forward),
    reference=reference,
    workload=move,
    lower=lower_slice,
    unit="dma",
)
