"""What logical_and and logical_or share: two truths that broadcast."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, lower_truths
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import broadcast, elementwise, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values


def logical_operator(name: str, combine: np.ufunc, function: str) -> Operator:
    """The operator that applies `combine` (np.logical_and or np.logical_or): "min" or "max" of the bytes."""

    def reference(call: Call, values: Values) -> list[Array]:
        return [np.asarray(combine(input_value(values), input_value(values, 1)))]

    return Operator(
        name=name,
        types=alike("bool"),
        rules=(rules.operands(2), rules.broadcast_shapes),
        infer=broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(
            Lowering("vector", (broadcast_on_npu,), lambda call, hardware: lower_truths(call, function)),
        ),
    )
