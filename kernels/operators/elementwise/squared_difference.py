"""squared_difference: the square of the difference of two tensors, which may broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, multiply_by_quantized_multiplier
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, lower_on_common_scale
from npusim.kernels.lowering.real import real_binary_lowering
from npusim.kernels.operator import operands, rules
from npusim.kernels.operator.broadcast import of_numbers
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.rescale import (
    SQUARE_LEFT_SHIFT,
    moved_in_32_bits,
    sound_scales,
    square_multipliers,
)


def _codes(call: Call, values: Values) -> list[Array]:
    """Both operands on twice the larger scale, as add has it, their difference squared and brought to the output."""
    ofm, multipliers = call.outputs[0], square_multipliers(call)
    first, second = (
        multiply_by_quantized_multiplier(
            (input_value(values, i).astype(np.int32) - np.int32(quantization(input_type(call, i)).zero_point))
            << SQUARE_LEFT_SHIFT,
            *multiplier,
        )
        for i, multiplier in enumerate((multipliers.first, multipliers.second))
    )
    squares = multiply_by_quantized_multiplier(np.square(first - second), *multipliers.output)
    return [clamp(squares + np.int64(quantization(ofm).zero_point), *code_range(ofm.dtype), ofm.numpy_dtype)]


def _numbers(a: Any, b: Any) -> Any:
    return np.square(a - b)


REFERENCES = with_halves(
    {
        "int8": _codes,
        "uint8": _codes,
        **dict.fromkeys(("int32", "int64", "float32"), of_numbers(_numbers)),
    }
)

OPERATOR = Operator(
    name="squared_difference",
    types=alike(*REFERENCES),
    rules=(
        rules.operands(2),
        rules.per_tensor,
        rules.broadcast_shapes,
        sound_scales,
        moved_in_32_bits(
            "the square of twice the larger input scale / 2**14 output scales",
            lambda call: square_multipliers(call).output,
        ),
    ),
    infer=operands.broadcast,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering(
            "vector",
            (rules.eight_bit, broadcast_on_npu),
            lambda call, hardware: lower_on_common_scale(
                call, "squared_difference", square_multipliers(call), SQUARE_LEFT_SHIFT
            ),
        ),
        real_binary_lowering("squared_difference"),
    ),
)
