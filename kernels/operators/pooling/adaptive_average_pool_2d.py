"""The mean of each bin of an image that falls into as many bins as the output is high and wide."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, rounding_divide
from npusim.isa.base.tensor import Array
from npusim.kernels.operator.activation import act_range, limited
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.pooling import adaptive

Parameters = adaptive.Adaptive


def _elements(call: Call[Parameters]) -> Any:
    rows, columns = (adaptive.seen(call, axis)[1].astype(np.int32) for axis in (1, 2))
    return rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Codes are averaged as they are: input and output have one scale and zero point."""
    ofm = call.outputs[0]
    sums = adaptive.combine_bins(input_value(values).astype(np.int32), call, np.add)
    means = rounding_divide(sums, _elements(call))
    return [clamp(means, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    sums = adaptive.combine_bins(input_value(values), call, np.add)
    return [limited(call.parameters.activation, sums / _elements(call).astype(np.float32))]


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "float32": _reals})

OPERATOR = Operator(
    name="adaptive_average_pool_2d",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=adaptive.RULES,
    infer=adaptive.infer,
    reference=by_type(REFERENCES),
    workload=adaptive.workload,
    lowerings=adaptive.lowerings("average"),
)
