"""What add, sub and mul share: two operands that broadcast, with a fused activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.arithmetic.integer import (
    Int32Array,
    IntArray,
    multiply_by_quantized_multiplier,
    requantise,
)
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator import rules
from npusim.kernels.operator.activation import act_range, activation_in_32_bits, known_activation, limit_reals
from npusim.kernels.operator.operands import input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Rule
from npusim.kernels.operator.rescale import ADD_LEFT_SHIFT, Multiplier, add_multipliers, sound_scales

RULES: tuple[Rule, ...] = (
    rules.operands(2),
    rules.computes_on("int8", "uint8", "float32"),
    rules.same_type,
    rules.broadcast_shapes,
    sound_scales,
    known_activation,
    activation_in_32_bits,
)


def add_or_subtract(call: Call, values: Sequence[Array | None], combine: np.ufunc) -> list[Array]:
    """The sum or difference (`combine`: np.add or np.subtract) of the operands, on a common scale."""
    if input_type(call).dtype == "float32":
        return combine_reals(call, values, combine)
    multipliers = add_multipliers(input_type(call), input_type(call, 1), call.outputs[0])
    first = _addend(input_value(values), input_type(call), multipliers.first)
    second = _addend(input_value(values, 1), input_type(call, 1), multipliers.second)
    return [finish_codes(call, combine(first, second), multipliers.output)]


def _addend(codes: Array, operand: TensorType, multiplier: Multiplier) -> Int32Array:
    """Codes on the common scale. There are 256 of them, so each is rescaled once and then looked up."""
    every = np.arange(256, dtype=np.uint8).view(operand.numpy_dtype).astype(np.int32)
    shifted = (every - quantization(operand).zero_point) << ADD_LEFT_SHIFT
    table = multiply_by_quantized_multiplier(shifted, *multiplier)
    return table[np.ascontiguousarray(codes).view(np.uint8)]


def combine_reals(call: Call, values: Sequence[Array | None], combine: np.ufunc) -> list[Array]:
    """A float32 operator: combine the operands, apply the activation."""
    result = np.asarray(combine(input_value(values), input_value(values, 1)), np.float32)
    return [limit_reals(call.attributes["activation"], result)]


def finish_codes(call: Call, results: IntArray, multiplier: Multiplier) -> Array:
    """Rescale, zero point and activation of an 8-bit output."""
    ofm = call.outputs[0]
    low, high = act_range(call.attributes["activation"], ofm)
    return requantise(results, *multiplier, quantization(ofm).zero_point, low, high, ofm.numpy_dtype)
