"""The largest value of each window of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_max_pool
from npusim.kernels.operator.activation import act_range, limit_reals
from npusim.kernels.operator.operands import code_range, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operators.pooling import pooling


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    image: Any = input_value(values)
    ofm, activation = call.outputs[0], call.attributes["activation"]
    if input_type(call).dtype == "float32":
        return [limit_reals(activation, pooling.combine_windows(image, call, np.maximum))]
    largest = pooling.combine_windows(image, call, np.maximum)
    return [clamp(largest, *act_range(activation, ofm), ofm.numpy_dtype)]


def _border(call: Call) -> int:
    """Outside the image nothing counts, which is what the smallest code gives."""
    return code_range(input_type(call).dtype)[0]


OPERATOR = Operator(
    name="max_pool_2d",
    rules=pooling.RULES,
    infer=pooling.infer,
    npu_rules=pooling.NPU_RULES,
    reference=_reference,
    workload=pooling.workload,
    window=pooling.window,
    border=_border,
    lower=lower_max_pool,
    unit="vector",
)
