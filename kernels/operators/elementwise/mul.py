"""Product of two tensors, which may broadcast."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, int16_lowering, lower_mul
from npusim.kernels.lowering.float_codes import (
    FUSED_PRODUCT,
    literal_binary_lowering,
    literal_table_lowering,
)
from npusim.kernels.lowering.real import real_binary_lowering
from npusim.kernels.operator import broadcast, operands, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fused import fused_product, in_32_bits, in_fixed_point, only_codes
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import Multiplier, moved_in_32_bits, mul_multiplier


def _codes(call: Call[Activated], values: Values) -> list[Array]:
    types = input_type(call), input_type(call, 1)
    first, second = (_centred(input_value(values, i), quantization(types[i]).zero_point) for i in (0, 1))
    return [broadcast.finish_codes(call, first * second, _multiplier(call))]


def _multiplier(call: Call) -> Multiplier:
    return mul_multiplier(input_type(call), input_type(call, 1), call.outputs[0])


def _centred(codes: Any, zero_point: int) -> Any:
    centred = codes.astype(np.int32)
    centred -= zero_point
    return centred


REFERENCES = broadcast.references(_codes, np.multiply)
_IN_INTEGERS = by_type(REFERENCES)


def _reference(call: Call[Activated], values: Values) -> list[Array]:
    return (fused_product if call.parameters.rescale == "fused" else _IN_INTEGERS)(call, values)


OPERATOR = Operator(
    name="mul",
    parameters=Activated,
    types=alike(*REFERENCES),
    rules=(
        *broadcast.RULES,
        in_fixed_point(moved_in_32_bits("input scale * input scale / output scale", _multiplier)),
        only_codes,
        in_32_bits(prod),
    ),
    infer=operands.broadcast,
    reference=_reference,
    workload=elementwise,
    lowerings=(
        Lowering("vector", (rules.eight_bit, broadcast_on_npu), lower_mul),
        int16_lowering(lower_mul),
        real_binary_lowering("mul", activated=True),
        literal_table_lowering(_IN_INTEGERS),
        literal_binary_lowering("mul"),
        FUSED_PRODUCT,
    ),
    rescales=("fixed_point", "fused"),
)
