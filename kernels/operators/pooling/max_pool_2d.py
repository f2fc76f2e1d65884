"""The largest value of each window of an image."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import clamp
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.float_codes import lower_largest_code
from npusim.kernels.lowering.vector import lower_max_pool
from npusim.kernels.operator import rules
from npusim.kernels.operator.activation import act_range, limited
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, code_range, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.pooling import pooling

Parameters = pooling.Pooling


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    ofm = call.outputs[0]
    largest = pooling.combine_windows(input_value(values), call, np.maximum)
    return [clamp(largest, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    return [
        limited(call.parameters.activation, pooling.combine_windows(input_value(values), call, np.maximum))
    ]


def _border(call: Call) -> int:
    """Outside the image nothing counts, which is what the smallest code gives."""
    return code_range(input_type(call).dtype)[0]


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "int16": _codes, "float32": _reals})

OPERATOR = Operator(
    name="max_pool_2d",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=pooling.RULES,
    infer=pooling.infer,
    reference=by_type(REFERENCES),
    workload=pooling.workload,
    window=pooling.window,
    border=_border,
    lowerings=(
        pooling.npu_lowering(lower_max_pool),
        pooling.on_int16(lower_max_pool),
        pooling.on_lanes("maximum"),
        pooling.npu_lowering(lower_largest_code, rules.same_codes, rescales=("float32",)),
    ),
)
