"""What logical_and and its relatives share: two truths that broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import broadcast, elementwise, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values


def logical_operator(name: str, combine: np.ufunc, lower: Callable[[Call], Parts]) -> Operator:
    """The operator that applies `combine` (np.logical_and, ...); `lower`: what that is for bytes of 0 or 1."""

    def reference(call: Call, values: Values) -> list[Array]:
        return [np.asarray(combine(input_value(values), input_value(values, 1)))]

    return Operator(
        name=name,
        types=alike("bool"),
        rules=(rules.operands(2), rules.broadcast_shapes),
        infer=broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(Lowering("vector", (broadcast_on_npu,), lambda call, hardware: lower(call)),),
    )
