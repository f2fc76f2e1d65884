"""What maximum and minimum share: two operands that broadcast, one of two elements kept."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_selection, regular_broadcast
from npusim.kernels.operator import rules
from npusim.kernels.operator.broadcast import NUMBERS
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import broadcast, elementwise, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values


def selecting_operator(name: str, select: np.ufunc) -> Operator:
    """The operator that applies `select` (np.maximum or np.minimum) to codes or numbers as they are."""

    def reference(call: Call, values: Values) -> list[Array]:
        return [select(input_value(values), input_value(values, 1))]

    on_vector_unit = Lowering(
        "vector", (rules.eight_bit, regular_broadcast), lambda call, hardware: lower_selection(call, name)
    )
    return Operator(
        name=name,
        types=alike("int8", "uint8", *NUMBERS),
        rules=(rules.operands(2), rules.per_tensor, rules.same_quantization, rules.broadcast_shapes),
        infer=broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(on_vector_unit,),
    )
