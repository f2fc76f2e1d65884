"""Product over some dimensions."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.reduction import real_reduction_lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import (
    REDUCTION_RULES,
    Reduction,
    accumulated,
    all_read,
    combined,
    in_order,
    reduced,
)
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.rescale import sound_scales

Parameters = Reduction


def _numbers(call: Call[Parameters], values: Values) -> list[Array]:
    """In the type of the operand: whole numbers wrap, reals beyond float32 become infinite."""
    return [accumulated(call, input_value(values), np.multiply)]


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Factor by factor in C order, each scaled by its part of the whole factor: LiteRT's kernel."""
    ofm, x = call.outputs[0], input_value(values)
    factors = in_order(call, x).astype(np.int64) - quantization(input_type(call)).zero_point
    multiplier, shift = _part(call)
    product = factors[0]
    for factor in factors[1:]:
        product = multiply_by_quantized_multiplier(product * factor, multiplier, shift, "reduced").astype(
            np.int64
        )
    last = multiply_by_quantized_multiplier(product, multiplier, shift, "reduced").astype(np.int64)
    codes = last + quantization(ofm).zero_point
    return [np.clip(codes, *code_range(ofm.dtype)).astype(ofm.numpy_dtype).reshape(ofm.shape)]


def _part(call: Call) -> tuple[int, int]:
    """input scale / output scale ** (1 / count): as often as there are factors, that is the whole scale."""
    root = float(quantization(call.outputs[0]).scale ** (1 / combined(call)))
    return quantize_multiplier(quantization(input_type(call)).scale / root)


def _few_bits_left(call: Call) -> bool:
    """there is one quantized factor or more, and input scale / output scale ** (1 / count) is less than 256"""
    if input_type(call).dtype not in ("int8", "int16"):
        return True
    return combined(call) > 0 and _part(call)[1] <= 8


REFERENCES = with_halves(
    {"int8": _codes, "int16": _codes, "int32": _numbers, "int64": _numbers, "float32": _numbers}
)

OPERATOR = Operator(
    name="reduce_prod",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(
        *REDUCTION_RULES,
        rules.wide_codes_scaled,
        sound_scales,
        _few_bits_left,
    ),
    infer=reduced,
    reference=by_type(REFERENCES),
    workload=all_read,
    lowerings=(real_reduction_lowering("prod"),),
)
