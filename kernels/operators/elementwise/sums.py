"""What add and sub share: two operands that broadcast, brought to a common scale."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, lower_sum
from npusim.kernels.lowering.real import real_binary_lowering
from npusim.kernels.operator import broadcast, operands, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import scaled_only_down


def summing_operator(name: str, combine: np.ufunc) -> Operator:
    """The operator that applies `combine` (np.add or np.subtract)."""

    def codes(call: Call[Activated], values: Values) -> list[Array]:
        return broadcast.add_or_subtract(call, values, combine)

    references = broadcast.references(codes, combine)
    on_vector_unit = Lowering(
        "vector", (rules.eight_bit, broadcast_on_npu), lambda call, hardware: lower_sum(call, name)
    )
    return Operator(
        name=name,
        parameters=Activated,
        types=alike(*references),
        rules=(*broadcast.RULES, scaled_only_down),
        infer=operands.broadcast,
        reference=by_type(references),
        workload=elementwise,
        lowerings=(on_vector_unit, real_binary_lowering(name, activated=True)),
    )
