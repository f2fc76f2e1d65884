"""The largest value of each bin of an image that falls into as many bins as the output is high and wide."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import clamp
from npusim.isa.base.tensor import Array
from npusim.kernels.operator.activation import act_range, limited
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.pooling import adaptive

Parameters = adaptive.Adaptive


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    ofm = call.outputs[0]
    largest = adaptive.combine_bins(input_value(values), call, np.maximum)
    return [clamp(largest, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    return [limited(call.parameters.activation, adaptive.combine_bins(input_value(values), call, np.maximum))]


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "float32": _reals})

OPERATOR = Operator(
    name="adaptive_max_pool_2d",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=adaptive.RULES,
    infer=adaptive.infer,
    reference=by_type(REFERENCES),
    workload=adaptive.workload,
    lowerings=adaptive.lowerings("maximum"),
)
