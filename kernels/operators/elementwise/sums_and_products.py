"""Arithmetic of two operands that broadcast, with quantized values."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, divide_codes, multiply_by_quantized_multiplier
from npusim.isa.arithmetic.real import BINARY_BY_NAME
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise_work import (
    broadcast_on_npu,
    int16_lowering,
    lower_mul,
    lower_on_common_scale,
    lower_prelu,
    lower_quotient,
    lower_sum,
)
from npusim.kernels.lowering.float_lanes import float_binary_lowering, whole_binary_lowering
from npusim.kernels.lowering.quantized_in_float32 import (
    FUSED_PRODUCT,
    FUSED_SUM,
    literal_binary_lowering,
    literal_table_lowering,
)
from npusim.kernels.operator import broadcast, operands, rules
from npusim.kernels.operator.broadcast import Combine, of_numbers
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fused import fused_product, fused_sum, in_32_bits, only_codes
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Arithmetic, Call, Lowering, Operator, Values, literal
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import (
    SQUARE_LEFT_SHIFT,
    Multiplier,
    act_range,
    div_multiplier,
    moved_in_32_bits,
    mul_multiplier,
    prelu_multipliers,
    scaled_only_down,
    sound_scales,
    square_multipliers,
)


def summing_operator(name: str, combine: np.ufunc) -> Operator:
    """Return the operator that applies `combine` (np.add or np.subtract)."""

    def codes(call: Call[Activated], values: Values) -> list[Array]:
        return broadcast.add_or_subtract(call, values, combine)

    references = broadcast.references(codes, combine)
    reference = by_type(references)
    fused = Arithmetic(
        ("fused",), None, (*broadcast.RULES, only_codes, in_32_bits(sum)), fused_sum, (FUSED_SUM,)
    )

    on_vector_unit = Lowering(
        "vector", (rules.eight_bit, broadcast_on_npu), lambda call, hardware: lower_sum(call, name)
    )
    return Operator(
        name=name,
        parameters=Activated,
        types=alike(*references),
        rules=(*broadcast.RULES, scaled_only_down),
        infer=operands.broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(
            on_vector_unit,
            int16_lowering(on_vector_unit.lower),
            float_binary_lowering(name, activated=True),
            whole_binary_lowering(name),
        ),
        arithmetics=(
            broadcast.shifted_sum(combine),
            literal(literal_table_lowering(reference), literal_binary_lowering(name)),
            *([fused] if name == "add" else []),
        ),
    )


ADD = summing_operator("add", np.add)
"""Sum of two tensors, which may broadcast."""


SUB = summing_operator("sub", np.subtract)
"""Difference of two tensors, which may broadcast."""


def _mul_codes(call: Call[Activated], values: Values) -> list[Array]:
    types = input_type(call), input_type(call, 1)
    first, second = (_centred(input_value(values, i), quantization(types[i]).zero_point) for i in (0, 1))
    return [broadcast.finish_codes(call, first * second, _multiplier(call))]


def _multiplier(call: Call) -> Multiplier:
    return mul_multiplier(input_type(call), input_type(call, 1), call.outputs[0])


def _centred(codes: Any, zero_point: int) -> Any:
    centred = codes.astype(np.int32)
    centred -= zero_point
    return centred


MUL_REFERENCES = broadcast.references(_mul_codes, np.multiply)


MUL = Operator(
    name="mul",
    parameters=Activated,
    types=alike(*MUL_REFERENCES),
    rules=(
        *broadcast.RULES,
        moved_in_32_bits("input scale * input scale / output scale", _multiplier),
    ),
    infer=operands.broadcast,
    reference=by_type(MUL_REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering("vector", (rules.eight_bit, broadcast_on_npu), lower_mul),
        int16_lowering(lower_mul),
        float_binary_lowering("mul", activated=True),
        whole_binary_lowering("mul"),
    ),
    arithmetics=(
        literal(literal_table_lowering(by_type(MUL_REFERENCES)), literal_binary_lowering("mul")),
        Arithmetic(
            ("fused",),
            None,
            (*broadcast.RULES, only_codes, in_32_bits(prod)),
            fused_product,
            (FUSED_PRODUCT,),
        ),
    ),
)
"""Product of two tensors, which may broadcast."""


def _safely(function: Combine) -> Combine:
    def divide(a: Any, b: Any) -> Any:
        a, b = np.broadcast_arrays(a, b)
        wide = np.where(b == 0, 1, b).astype(np.int64)
        return np.where(b == 0, 0, function(a.astype(np.int64), wide))

    return divide


def _truncate(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


floored = _safely(np.floor_divide)
"""a / b downwards; what the type does not hold wraps."""
truncated = _safely(_truncate)
"""a / b toward zero, before it is limited to the type."""


def _div_codes(call: Call[Activated], values: Values) -> list[Array]:
    """Return the quotient of the float values, by a reciprocal in fixed point."""
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


DIV_REFERENCES = with_halves(
    {
        "int8": _div_codes,
        "uint8": _div_codes,
        "int16": _div_codes,
        "int32": broadcast.of_numbers(_whole("int32")),
        "int64": broadcast.of_numbers(_whole("int64")),
        "float32": broadcast.of_numbers(np.divide),
    }
)

DIV = Operator(
    name="div",
    parameters=Activated,
    types=alike(*DIV_REFERENCES),
    rules=(
        *broadcast.RULES,
        moved_in_32_bits("input scale / (input scale * output scale)", div_multiplier),
    ),
    infer=operands.broadcast,
    reference=by_type(DIV_REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering(
            "vector",
            (rules.eight_bit, broadcast_on_npu),
            lambda call, hardware: lower_quotient(call, div_multiplier(call)),
        ),
        float_binary_lowering("div", activated=True),
    ),
    arithmetics=(literal(literal_table_lowering(by_type(DIV_REFERENCES)), literal_binary_lowering("div")),),
)
"""Quotient of two tensors, which may broadcast."""


def _prelu_codes(call: Call, values: Values) -> list[Array]:
    """Requantize with a multiplier per sign: of x, and of the product of x and alpha."""
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


PRELU_REFERENCES = with_halves(
    {
        "int8": _prelu_codes,
        "uint8": _prelu_codes,
        "int16": _prelu_codes,
        "float32": of_numbers(BINARY_BY_NAME["prelu"].compute),
    }
)

PRELU = Operator(
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
    reference=by_type(PRELU_REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering(
            "vector",
            (rules.eight_bit, broadcast_on_npu),
            lambda call, hardware: lower_prelu(call, *prelu_multipliers(call)),
        ),
        float_binary_lowering("prelu"),
    ),
    arithmetics=(
        literal(literal_table_lowering(by_type(PRELU_REFERENCES)), literal_binary_lowering("prelu")),
    ),
)
"""x, or alpha * x where x is negative; alpha is a tensor that broadcasts."""


def _square_codes(call: Call, values: Values) -> list[Array]:
    """Requantize both operands to twice the larger scale, as add does, then square and requantize their difference."""
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


SQUARE_REFERENCES = with_halves(
    {
        "int8": _square_codes,
        "uint8": _square_codes,
        **dict.fromkeys(("int32", "int64", "float32"), of_numbers(_numbers)),
    }
)

SQUARED_DIFFERENCE = Operator(
    name="squared_difference",
    types=alike(*SQUARE_REFERENCES),
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
    reference=by_type(SQUARE_REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering(
            "vector",
            (rules.eight_bit, broadcast_on_npu),
            lambda call, hardware: lower_on_common_scale(
                call, "squared_difference", square_multipliers(call), SQUARE_LEFT_SHIFT
            ),
        ),
        float_binary_lowering("squared_difference"),
    ),
)
"""The square of the difference of two tensors, which may broadcast."""


OPERATORS = (
    ADD,
    SUB,
    MUL,
    DIV,
    PRELU,
    SQUARED_DIFFERENCE,
)
