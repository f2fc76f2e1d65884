"""What logical_and and logical_or share: two truths that broadcast."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import broadcast, elementwise, input_value
from npusim.kernels.operator.operator import Call, Operator, Values


def logical_operator(name: str, combine: np.ufunc) -> Operator:
    """The operator that applies `combine` (np.logical_and or np.logical_or)."""

    def reference(call: Call, values: Values) -> list[Array]:
        return [np.asarray(combine(input_value(values), input_value(values, 1)))]

    return Operator(
        name=name,
        types=alike("bool"),
        rules=(rules.operands(2), rules.broadcast_shapes),
        infer=broadcast,
        reference=reference,
        workload=elementwise,
        on_host="the NPU has no instruction for it",
    )
