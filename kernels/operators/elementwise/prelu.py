"""prelu: x, or alpha * x where x is negative; alpha is a tensor that broadcasts."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, multiply_by_quantized_multiplier
from npusim.isa.arithmetic.real import BINARY_BY_NAME
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, lower_prelu
from npusim.kernels.lowering.float_codes import literal_binary_lowering, literal_table_lowering
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
from npusim.kernels.operator.rescale import moved_in_32_bits, prelu_multipliers, sound_scales


def _codes(call: Call, values: Values) -> list[Array]:
    """Each sign has its own multiplier: of x, and of the product of the codes."""
    ofm = call.outputs[0]
    x, alpha = (
        input_value(values, i).astype(np.int32) - np.int32(quantization(input_type(call, i)).zero_point)
        for i in (0, 1)
    )
    x, alpha = np.broadcast_arrays(x, alpha)
    above, below = prelu_multipliers(call)
    results = np.where(
        x >= 0,
        multiply_by_quantized_multiplier(x, *above),
        multiply_by_quantized_multiplier(x * alpha, *below),
    )
    return [clamp(results + np.int64(quantization(ofm).zero_point), *code_range(ofm.dtype), ofm.numpy_dtype)]


def _shifts(call: Call) -> tuple[Any, Any]:
    above, below = prelu_multipliers(call)
    return (above[0], below[0]), (above[1], below[1])


REFERENCES = with_halves(
    {"int8": _codes, "uint8": _codes, "int16": _codes, "float32": of_numbers(BINARY_BY_NAME["prelu"].compute)}
)

OPERATOR = Operator(
    name="prelu",
    types=(*alike("int8", "uint8", "float16", "float32"), "int16, int8 -> int16"),
    rules=(
        rules.operands(2),
        rules.per_tensor,
        rules.wide_codes_scaled,
        rules.broadcast_shapes,
        sound_scales,
        moved_in_32_bits("input scale / output scale, also times the scale of alpha,", _shifts),
    ),
    infer=operands.broadcast,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering(
            "vector",
            (rules.eight_bit, broadcast_on_npu),
            lambda call, hardware: lower_prelu(call, *prelu_multipliers(call)),
        ),
        real_binary_lowering("prelu"),
        literal_table_lowering(by_type(REFERENCES)),
        literal_binary_lowering("prelu"),
    ),
)
