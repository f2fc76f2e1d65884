"""The mean of each window of an image; padding is not counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, rounding_divide
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_average_pool
from npusim.kernels.operator.activation import act_range, limit_reals
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operators.pooling import pooling


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    """Codes are averaged as they are: input and output have one scale and zero point."""
    image: Any = input_value(values)
    ofm, activation = call.outputs[0], call.attributes["activation"]
    counts = pooling.elements_seen(call)
    if input_type(call).dtype == "float32":
        sums = pooling.combine_windows(image, call, np.add)
        sums /= counts
        return [limit_reals(activation, sums)]
    sums = pooling.combine_windows(image.astype(np.int32), call, np.add)
    return [clamp(rounding_divide(sums, counts), *act_range(activation, ofm), ofm.numpy_dtype)]


OPERATOR = Operator(
    name="average_pool_2d",
    rules=pooling.RULES,
    infer=pooling.infer,
    npu_rules=pooling.NPU_RULES,
    reference=_reference,
    workload=pooling.workload,
    window=pooling.window,
    lower=lower_average_pool,
    unit="vector",
)
