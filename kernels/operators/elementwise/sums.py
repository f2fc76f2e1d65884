"""What add and sub share: two operands that broadcast, brought to a common scale."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, int16_lowering, lower_sum
from npusim.kernels.lowering.float_codes import FUSED_SUM, literal_binary_lowering, literal_table_lowering
from npusim.kernels.lowering.real import real_binary_lowering
from npusim.kernels.operator import broadcast, operands, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fused import fused_sum, in_32_bits, in_fixed_point, only_codes
from npusim.kernels.operator.operands import by_type, elementwise
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import scaled_only_down


def summing_operator(name: str, combine: np.ufunc) -> Operator:
    """The operator that applies `combine` (np.add or np.subtract)."""

    def codes(call: Call[Activated], values: Values) -> list[Array]:
        return broadcast.add_or_subtract(call, values, combine)

    references = broadcast.references(codes, combine)
    in_integers = by_type(references)

    def reference(call: Call[Activated], values: Values) -> list[Array]:
        return (fused_sum if call.parameters.rescale == "fused" else in_integers)(call, values)

    on_vector_unit = Lowering(
        "vector", (rules.eight_bit, broadcast_on_npu), lambda call, hardware: lower_sum(call, name)
    )
    return Operator(
        name=name,
        parameters=Activated,
        types=alike(*references),
        rules=(*broadcast.RULES, in_fixed_point(scaled_only_down), only_codes, in_32_bits(sum)),
        infer=operands.broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(
            on_vector_unit,
            int16_lowering(on_vector_unit.lower),
            real_binary_lowering(name, activated=True),
            literal_table_lowering(in_integers),
            literal_binary_lowering(name),
            *([FUSED_SUM] if name == "add" else []),
        ),
        rescales=("fixed_point", "fused") if name == "add" else ("fixed_point",),
    )
