"""Rules, references and arithmetic that add, sub and mul share: two operands that broadcast, a fused activation."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import (
    multiply_by_quantized_multiplier,
    requantise,
    rounding_divide_by_power,
)
from npusim.isa.base.tensor import Array, Int32Array, IntArray, TensorType
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value, quantization
from npusim.kernels.operator.operator import Arithmetic, Call, Reference, Rule, Values
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import (
    ADD_LEFT_SHIFT,
    WIDE_LEFT_SHIFT,
    Multiplier,
    act_range,
    activation_in_32_bits,
    activation_of,
    limited,
    sound_scales,
    sum_multipliers,
)

Combine = Callable[[Any, Any], Any]
"""A function of two arrays that broadcast."""

CODES = ("int8", "uint8", "int16")
"""Element types of quantized values."""

NUMBERS = ("int32", "int64", "float16", "float32")
"""Element types without scale."""

RULES: tuple[Rule, ...] = (
    rules.operands(2),
    rules.per_tensor,
    rules.wide_codes_scaled,
    rules.broadcast_shapes,
    sound_scales,
    activation_in_32_bits,
)


def references(of_codes: Reference, combine: Combine) -> dict[str, Reference]:
    """Return references by element type: `of_codes` for 8 and 16 bits, `combine` for values without scale."""
    return {**dict.fromkeys(CODES, of_codes), **dict.fromkeys(NUMBERS, of_numbers(combine))}


def of_numbers(combine: Combine) -> Reference:
    """Return the reference of values without scale, with the operator's activation if it has one."""

    def reference(call: Call, values: Values) -> list[Array]:
        with np.errstate(all="ignore"):  # 32 bits wrap, and floats become infinite or no number
            result = np.asarray(combine(input_value(values), input_value(values, 1)))
        return [limited(activation_of(call), result.astype(call.outputs[0].numpy_dtype, copy=False))]

    return reference


def add_or_subtract(call: Call[Activated], values: Values, combine: np.ufunc) -> list[Array]:
    """Return the sum or difference (`combine`: np.add or np.subtract) of quantized values, on a common scale."""
    multipliers = sum_multipliers(call)
    first = _addend(input_value(values), input_type(call), multipliers.first)
    second = _addend(input_value(values, 1), input_type(call, 1), multipliers.second)
    return [finish_codes(call, combine(first, second), multipliers.output)]


def _addend(codes: Array, operand: TensorType, multiplier: Multiplier) -> Int32Array:
    """Return quantized values on the common scale.

    There are only 256 values of 8 bits, so each is requantized once and then looked up.
    """
    zero_point = np.int32(quantization(operand).zero_point)
    if operand.element.bits > 8:
        wide = (codes.astype(np.int32) - zero_point) << WIDE_LEFT_SHIFT
        return multiply_by_quantized_multiplier(wide, *multiplier)
    every = np.arange(256, dtype=np.uint8).view(operand.numpy_dtype).astype(np.int32)
    table = multiply_by_quantized_multiplier((every - zero_point) << ADD_LEFT_SHIFT, *multiplier)
    return np.asarray(table[np.asarray(codes, order="C").view(np.uint8)])


def finish_codes(call: Call[Activated], results: IntArray, multiplier: Multiplier) -> Array:
    """Requantize sums to the output and apply zero point and activation."""
    ofm = call.outputs[0]
    low, high = act_range(call.parameters.activation, ofm)
    return requantise(results, *multiplier, quantization(ofm).zero_point, low, high, ofm.numpy_dtype)


def _places(call: Call) -> list[int]:
    """Return by how many places each operand is shifted right to reach the scale of the result."""
    last = frexp(quantization(call.outputs[0]).scale)[1]
    return [last - frexp(quantization(input_type(call, position)).scale)[1] for position in (0, 1)]


def _one_is_shifted(call: Call) -> bool:
    """power-of-two scales of int16 values: one operand has the scale of the result, the other at most that scale"""
    return min(_places(call)) == 0


def shifted_sum(combine: np.ufunc) -> Arithmetic:
    """Return the arithmetic that shifts one int16 operand, rounds it half away from zero, and saturates the sum."""

    def reference(call: Call[Activated], values: Values) -> list[Array]:
        first, second = (
            rounding_divide_by_power(input_value(values, position).astype(np.int64), min(places, 31))
            for position, places in enumerate(_places(call))
        )
        low, high = act_range(call.parameters.activation, call.outputs[0])
        return [np.clip(combine(first, second), low, high).astype(np.int16)]

    shape = (rules.operands(2), rules.per_tensor, rules.wide_codes_scaled, rules.broadcast_shapes)
    why = "one operand is shifted and rounded before the sum (PotScaleInt16)"
    types = ("int16, int16 -> int16",)
    return Arithmetic(("power_of_two",), types, (*shape, _one_is_shifted), reference, (), why)
