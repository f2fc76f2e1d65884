"""div: quotient of two tensors, which may broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, divide_codes
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, lower_quotient
from npusim.kernels.lowering.float_codes import literal_binary_lowering, literal_table_lowering
from npusim.kernels.lowering.real import real_binary_lowering
from npusim.kernels.operator import broadcast, operands, rules
from npusim.kernels.operator.activation import act_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import div_multiplier, moved_in_32_bits
from npusim.kernels.operators.elementwise.quotient import truncated


def _codes(call: Call[Activated], values: Values) -> list[Array]:
    """The quotient of the real numbers, by a reciprocal in fixed point."""
    ofm = call.outputs[0]
    first, second = (
        input_value(values, i).astype(np.int64) - quantization(input_type(call, i)).zero_point for i in (0, 1)
    )
    quotients = divide_codes(first, second, *div_multiplier(call)) + quantization(ofm).zero_point
    return [clamp(quotients, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _whole(dtype: str) -> broadcast.Combine:
    limits = np.iinfo(dtype)

    def divide(a: Any, b: Any) -> Any:
        return np.clip(truncated(a, b), limits.min, limits.max)

    return divide


REFERENCES = with_halves(
    {
        "int8": _codes,
        "uint8": _codes,
        "int16": _codes,
        "int32": broadcast.of_numbers(_whole("int32")),
        "int64": broadcast.of_numbers(_whole("int64")),
        "float32": broadcast.of_numbers(np.divide),
    }
)

OPERATOR = Operator(
    name="div",
    parameters=Activated,
    types=alike(*REFERENCES),
    rules=(
        *broadcast.RULES,
        moved_in_32_bits("input scale / (input scale * output scale)", div_multiplier),
    ),
    infer=operands.broadcast,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering(
            "vector",
            (rules.eight_bit, broadcast_on_npu),
            lambda call, hardware: lower_quotient(call, div_multiplier(call)),
        ),
        real_binary_lowering("div", activated=True),
        literal_table_lowering(by_type(REFERENCES)),
        literal_binary_lowering("div"),
    ),
)
