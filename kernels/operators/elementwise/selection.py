"""What maximum and minimum share: two operands that broadcast, one of two elements kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_selection, regular_broadcast
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import broadcast, elementwise, input_value
from npusim.kernels.operator.operator import Call, Operator


def selecting_operator(name: str, select: np.ufunc) -> Operator:
    """The operator that applies `select` (np.maximum or np.minimum) to codes or numbers as they are."""

    def reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
        return [select(input_value(values), input_value(values, 1))]

    return Operator(
        name=name,
        rules=(
            rules.operands(2),
            rules.computes_on("int8", "uint8", "int32", "float32"),
            rules.same_type,
            rules.same_quantization,
            rules.broadcast_shapes,
        ),
        infer=broadcast,
        npu_rules=(rules.eight_bit, regular_broadcast),
        reference=reference,
        workload=elementwise,
        lower=lambda call, hardware: lower_selection(call, name),
        unit="vector",
    )
