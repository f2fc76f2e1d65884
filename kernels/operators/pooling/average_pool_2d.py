"""The mean of each window of an image; padding is not counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, rounding_divide
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_average_pool
from npusim.kernels.operator.activation import act_range, limited
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.pooling import pooling

Parameters = pooling.Pooling


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Codes are averaged as they are: input and output have one scale and zero point."""
    image: Any = input_value(values)
    ofm = call.outputs[0]
    sums = pooling.combine_windows(image.astype(np.int32), call, np.add)
    means = rounding_divide(sums, pooling.elements_seen(call))
    return [clamp(means, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    sums = pooling.combine_windows(input_value(values), call, np.add)
    sums /= pooling.elements_seen(call)
    return [limited(call.parameters.activation, sums)]


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "int16": _codes, "float32": _reals})

OPERATOR = Operator(
    name="average_pool_2d",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=pooling.RULES,
    infer=pooling.infer,
    reference=by_type(REFERENCES),
    workload=pooling.workload,
    window=pooling.window,
    lowerings=(pooling.npu_lowering(lower_average_pool), pooling.on_lanes("average")),
)
