"""Functions of one operand that LiteRT computes on quantized values in integers: a table of them, and their arithmetic.

The relu family, leaky_relu and abs requantize to the output's scale; sqrt and rsqrt follow fixed-point roots;
hard_swish multiplies in 16 bits; logistic and tanh of int16 interpolate in a table with steps of 1/12288.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from npusim.isa.arithmetic.integer import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    quantize_multipliers,
    quantized_steps,
    rounding_divide_by_power,
)
from npusim.isa.arithmetic.interpolated import HIGH, LOW, logistic_table, logistic_words, tanh_words
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, Float32Array, Float64Array, Int64Array, IntArray
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.vector import INT16_TABLES
from npusim.kernels.lowering.vector_work import int16_passes, lower_int16_table, lower_rescale, lower_table
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.inverse_root import inverse_root
from npusim.kernels.operator.operands import (
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.operator.rescale import MOST_LEFT, Multiplier, moved_in_32_bits
from npusim.kernels.operators.tables.float_functions import gate, gate_in_steps
from npusim.kernels.operators.tables.lookup import (
    beyond_tables,
    float_function,
    floats_of,
    look_up,
    of_whole_numbers,
    round_half_away,
    tabulate,
    tabulate_by_value,
    tabulate_float,
    unary_operator,
)

# Requantized values: abs, leaky_relu and the relu family


def _requantized(values: Int64Array, real: float) -> Int64Array:
    """Return values * real, rounded twice as a convolution's accumulators are.

    A negative factor becomes a negative multiplier, so that bits shifted out keep their sign.
    """
    multiplier, shift = quantize_multiplier(abs(real))
    multiplier = -multiplier if real < 0 else multiplier
    return multiply_by_quantized_multiplier(values.astype(np.int32), multiplier, shift).astype(np.int64)


def _in_output_steps(real: float, call: Call) -> float:
    """Return a float value in steps of the output's scale, divided in float32."""
    with np.errstate(over="ignore"):
        return float(np.float32(real) / np.float32(quantization(call.outputs[0]).scale))


def _scale_ratio(call: Call) -> float:
    """Return input scale / output scale, divided in float32."""
    return _in_output_steps(quantization(input_type(call)).scale, call)


def _ratio_multiplier(call: Call) -> Multiplier:
    return quantize_multiplier(_scale_ratio(call))


_MOVED = moved_in_32_bits("input scale / output scale", _ratio_multiplier)


def _abs(call: Call, codes: Int64Array) -> Int64Array:
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    return _requantized(np.abs(codes - source.zero_point), _scale_ratio(call)) + target.zero_point


class LeakyReluParameters(Parameters):
    """alpha: the slope where x is negative."""

    alpha: float


def _slopes(call: Call[LeakyReluParameters]) -> tuple[float, float]:
    """Return the factors of positive and of negative values, divided in float32."""
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    with np.errstate(over="ignore"):
        scale, output_scale = np.float32(source.scale), np.float32(target.scale)
        return float(scale / output_scale), float(scale * np.float32(call.parameters.alpha) / output_scale)


def _leaky_relu(call: Call[LeakyReluParameters], codes: Int64Array) -> Int64Array:
    centred = codes - quantization(input_type(call)).zero_point
    above, below = (_requantized(centred, slope) for slope in _slopes(call))
    return np.where(centred >= 0, above, below) + quantization(call.outputs[0]).zero_point


def _leaky_lanes(call: Call[LeakyReluParameters]) -> tuple[str, float]:
    return "leaky_relu", call.parameters.alpha


def _relu(name: str, floor: float, ceiling: float | None, *, on_int16: bool = False) -> Operator:
    """Return the operator that limits x to floor..ceiling: requantized values limited to those of the output.

    on_int16: int16 values are computed too, by a pass whose requantization has these limits.
    """

    def bounded(call: Call) -> bool:
        return ceiling is None or input_type(call).real or abs(_in_output_steps(ceiling, call)) < 1 << 31

    bounded.__doc__ = (
        "has no upper limit" if ceiling is None else f"{ceiling:g} / output scale is less than 2**31"
    )

    def limit(real: float, call: Call) -> Int64Array:
        return (
            round_half_away(np.asarray(_in_output_steps(real, call)))
            + quantization(call.outputs[0]).zero_point
        )

    def codes_of(call: Call, codes: Int64Array) -> Int64Array:
        source, target = quantization(input_type(call)), quantization(call.outputs[0])
        values = _requantized(codes - source.zero_point, _scale_ratio(call)) + target.zero_point
        limited: Int64Array = np.maximum(values, limit(floor, call))
        return limited if ceiling is None else np.minimum(limited, limit(ceiling, call))

    def lower(call: Call, hardware: Hardware) -> Parts:
        low, high = (None if bound is None else int(limit(bound, call)) for bound in (floor, ceiling))
        bounds = {"low": max(low or 0, LOW), "high": HIGH if high is None else min(high, HIGH)}
        return lower_rescale(call, _ratio_multiplier(call), **bounds)

    return unary_operator(
        name,
        tabulate(codes_of),
        rules.wide_codes_scaled,
        _MOVED,
        bounded,
        whole={"int16": beyond_tables(codes_of)} if on_int16 else None,
        on_int16=(Lowering("vector", (rules.all_int16,), lower, (int16_passes,)),) if on_int16 else (),
    )


# Roots


def _sqrt(call: Call, codes: Int64Array) -> IntArray:
    """Compute the root; steps of the output are cut off, not rounded.

    LiteRT has no root of a negative number; here it is zero.
    """
    target = quantization(call.outputs[0])
    with np.errstate(over="ignore"):
        steps = np.sqrt(np.maximum(floats_of(call, codes), 0)) / np.float32(target.scale)
    return quantized_steps(np.floor(steps), target.zero_point)


_FRACTION_BITS = 20
"""Fraction bits of an inverse square root in fixed point."""


def _rsqrt_multiplier(call: Call) -> Multiplier:
    """Return 1 / (root of the input scale * output scale).

    The root and the product are in float32, the quotient in float64.
    """
    root = np.sqrt(np.float32(quantization(input_type(call)).scale))
    with np.errstate(over="ignore", under="ignore"):
        product = float(root * np.float32(quantization(call.outputs[0]).scale))
    multiplier, shift = quantize_multiplier(1 / product if product else math.inf)
    return multiplier, shift - _FRACTION_BITS


def _rsqrt_codes(call: Call, codes: Int64Array) -> Int64Array:
    """Zero and negative values, which have no inverse root, give the largest value of the output."""
    target, output = quantization(call.outputs[0]), call.outputs[0]
    multiplier, shift = _rsqrt_multiplier(call)
    centred = codes - quantization(input_type(call)).zero_point
    results = np.full(codes.shape, code_range(output.dtype)[1], np.int64)
    positions = np.flatnonzero(centred > 0)
    roots, root_shifts = (array.tolist() for array in inverse_root(centred[positions]))
    for position, root, root_shift in zip(positions, roots, root_shifts, strict=True):
        one = np.ones((), np.int64)
        inverse = multiply_by_quantized_multiplier(one, root, _FRACTION_BITS - root_shift)
        scaled = multiply_by_quantized_multiplier(inverse, multiplier, max(shift, -31))
        results[position] = int(scaled) + target.zero_point
    return results


def _rsqrt_or_largest(call: Call, x: Float32Array) -> Float32Array:
    """Return the inverse root of int16 values; where there is none, the largest value of the output."""
    largest = np.float32(quantization(call.outputs[0]).scale) * np.float32(HIGH)
    result: Float32Array = np.where(x > 0, np.float32(1) / np.sqrt(x), largest).astype(np.float32)
    return result


def _rsqrt(call: Call, x: Float64Array) -> Float64Array:
    result: Float64Array = 1.0 / np.sqrt(x)
    return result


# hard_swish in 16 bits


class HardSwishParameters(Parameters):
    """alpha: the slope of the gate between 0 and 1; beta: the gate at 0. By default x * relu6(x + 3) / 6."""

    alpha: float = 1 / 6
    beta: float = 0.5


def _usual(call: Call[HardSwishParameters]) -> bool:
    """alpha is 1/6 and beta 1/2"""
    alpha, beta = call.parameters.alpha, call.parameters.beta
    return np.float32(alpha) == np.float32(1 / 6) and beta == 0.5


def _hard_swish(call: Call[HardSwishParameters], x: Float32Array) -> Float32Array:
    if _usual(call):
        return float_function("hard_swish")(call, x)
    return x * gate(call.parameters.alpha, call.parameters.beta, x)


def _hard_swish_steps(steps: FloatSteps, parameters: HardSwishParameters) -> int:
    return steps.pair("mul", 0, gate_in_steps(steps, parameters.alpha, parameters.beta))


def _hard_swish_codes(call: Call, codes: Int64Array) -> Int64Array:
    """Compute x with 7 more fraction bits in 16 bits, times a gate that goes from 0 to 1 as x goes from -3 to 3."""
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    (output_multiplier, output_shift), (gate_multiplier, gate_shift) = _hard_swish_multipliers(call)
    fine = (codes - source.zero_point << 7).astype(np.int16).astype(np.int64)
    opened = _gate_in_16_bits(fine, gate_multiplier, gate_shift)
    product = opened * _rounding_high(fine, output_multiplier)
    truncated: Int64Array = np.sign(product) * (np.abs(product) >> 15)
    return np.asarray(rounding_divide_by_power(truncated, -output_shift), np.int64) + target.zero_point


def _hard_swish_multipliers(call: Call) -> tuple[Multiplier, Multiplier]:
    """Return the multipliers of the output and of the gate, in float32."""
    fine_scale = np.float32(1 / 128) * np.float32(quantization(input_type(call)).scale)
    with np.errstate(over="ignore"):
        quotient = fine_scale / np.float32(quantization(call.outputs[0]).scale)
    return _short_multiplier(quotient), _short_multiplier(fine_scale / np.float32(3 / 32768))


def _moved_in_16_bits(call: Call) -> bool:
    """input scale / output scale is from 2**-9 to less than 2**7, and the input scale about 2**-22 to 2**24"""
    if input_type(call).real or not _usual(call):
        return True
    # LiteRT refuses a left shift of the output, and C leaves undefined what 16 bits moved right by 16 are.
    (_, output_shift), (_, gate_shift) = _hard_swish_multipliers(call)
    return -15 <= output_shift <= 0 and -15 <= gate_shift <= MOST_LEFT


def _gate_in_16_bits(fine: Int64Array, multiplier: int, shift: int) -> Int64Array:
    """Return (x / 3 saturated to -1..1, plus 1) / 2 with 15 fraction bits."""
    opened = fine
    if shift > 0:  # shift all but one place, multiply, shift the last: a full shift would saturate too early
        opened = _saturated(opened << (shift - 1))
    opened = _rounding_high(opened, multiplier)
    if shift > 0:
        opened = _saturated(opened << 1)
    elif shift < 0:
        opened = np.asarray(rounding_divide_by_power(opened, -shift), np.int64)
    return (opened + (1 << 15)) >> 1


def _short_multiplier(real: np.float32) -> Multiplier:
    """Return a 16-bit multiplier and its power of two."""
    multiplier, shift = quantize_multiplier(float(real))
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift


def _saturated(values: Int64Array) -> Int64Array:
    return np.clip(values, LOW, HIGH)


def _rounding_high(values: Int64Array, multiplier: int) -> Int64Array:
    """Return values * multiplier / 2**15, rounded to the nearest integer, halves up."""
    return (values * multiplier + (1 << 14)) >> 15


_usual_table, _other_table = tabulate(_hard_swish_codes), tabulate_by_value(_hard_swish)


def _hard_swish_table(call: Call[HardSwishParameters]) -> Array:
    return (_usual_table if _usual(call) else _other_table)(call)


# logistic and tanh of int16


def _gate_scales(call: Call) -> bool:
    """an int16 input has one scale and zero point 0, its output zero point 0 and scale 1/32768"""
    if input_type(call).dtype != "int16":
        return True
    if not rules.wide_codes_scaled(call):
        return False
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    return (source.zero_point, target.zero_point, target.scale) == (0, 0, 2.0**-15)


def _small_scale(call: Call) -> bool:
    """on the NPU the scale of an int16 input is less than 8/3"""
    return _table_steps(call)[0] < 1 << 15


def _table_steps(call: Call) -> tuple[int, int]:
    """Return (multiplier, right shift) that turn a value into steps of 1/12288: 15 bits of 12288 x scale, cut off.

    LiteRT has multipliers 3 and 6 without a shift for scales of 2**-12 and 2**-11.
    """
    scale = quantization(input_type(call)).scale
    mantissa, exponent = math.frexp(scale)
    if mantissa == 0.5 and exponent in (-11, -10):
        return 3 << (exponent + 11), 0
    right, factor = 0, scale * 12288.0
    while factor <= 32767 / 2 and right <= 30:
        factor, right = factor * 2, right + 1
    return int(factor), right


def _gate(name: str, words: Callable[[Int64Array, Int64Array], Int64Array], **more: Any) -> Operator:
    """Return logistic or tanh: `words` gives int16 results from steps of 1/12288 and the table of logistic."""

    def codes_of(call: Call, codes: Int64Array) -> Int64Array:
        multiplier, right = _table_steps(call)
        wrapped = (codes * multiplier + ((1 << right) >> 1)).astype(np.int32)  # as 32 bits hold it
        return words(wrapped.astype(np.int64) >> right, logistic_table())

    def lower(call: Call, hardware: Hardware) -> Parts:
        multiplier, right = _table_steps(call)
        function = INT16_TABLES.index(name)
        return lower_int16_table(call, logistic_table(), int16=function, multiplier=multiplier, right=right)

    return unary_operator(
        name,
        tabulate_float(float_function(name)),
        _gate_scales,
        whole={"int16": beyond_tables(codes_of)},
        on_int16=(Lowering("vector", (rules.all_int16, _small_scale), lower, (int16_passes,)),),
        **more,
    )


def _logistic(call: Call, x: Float64Array) -> Float64Array:
    result: Float64Array = 1.0 / (1.0 + np.exp(-x))
    return result


# Tables that a model gives, and booleans


class LookUpParameters(Parameters):
    """entries: the quantized results in the order of the operand's raw bytes (int8: 0..127, then -128..-1)."""

    entries: tuple[Annotated[int, Between(-128, 255)], ...]


def _entries(call: Call[LookUpParameters]) -> Array:
    return np.array(call.parameters.entries, call.outputs[0].numpy_dtype)


def _an_entry_for_each_code(call: Call[LookUpParameters]) -> bool:
    """there are 256 entries, each a value of the output's type"""
    low, high = code_range(call.outputs[0].dtype)
    entries = call.parameters.entries
    return len(entries) == 256 and low <= min(entries) and max(entries) <= high


def _look_up(call: Call[LookUpParameters], values: Values) -> list[Array]:
    return [look_up(_entries(call), input_value(values))]


_NOT = np.arange(256) == 0
"""The table of logical_not: a boolean is a byte, and every byte but 0 is true."""


def _logical_not(call: Call, values: Values) -> list[Array]:
    return [np.logical_not(input_value(values))]


def _neg(call: Call, codes: Int64Array) -> Int64Array:
    """Negate quantized values as LiteRT does: as plain integers, whatever their zero points; the smallest wraps."""
    return (-codes).astype(call.outputs[0].numpy_dtype).astype(np.int64)


OPERATORS = (
    Operator(  # several functions of one operand in a row, worked out for all 256 values
        name="look_up",
        parameters=LookUpParameters,
        types=("int8|uint8 -> int8|uint8",),
        rules=(rules.operands(1), rules.same_shape, rules.per_tensor, _an_entry_for_each_code),
        infer=like_input,
        reference=_look_up,
        workload=elementwise,
        lowerings=(
            Lowering("vector", (rules.eight_bit,), lambda call, hardware: lower_table(call, _entries(call))),
        ),
    ),
    _gate("logistic", logistic_words, once=_logistic),
    _gate("tanh", tanh_words),
    _relu("relu", 0.0, None, on_int16=True),
    _relu("relu6", 0.0, 6.0, on_int16=True),
    unary_operator(
        "leaky_relu",
        tabulate(_leaky_relu),
        rules.wide_codes_scaled,
        moved_in_32_bits(
            "input scale / output scale, also times alpha,",
            lambda call: quantize_multipliers(np.abs(_slopes(call))),
        ),
        parameters=LeakyReluParameters,
        whole={"int16": beyond_tables(_leaky_relu)},
        lanes=_leaky_lanes,
    ),
    unary_operator(
        "hard_swish",
        _hard_swish_table,
        _moved_in_16_bits,
        parameters=HardSwishParameters,
        on_host=_hard_swish,
        lane_rules=(_usual,),
        steps=_hard_swish_steps,
    ),
    _relu("relu_n1_to_1", -1.0, 1.0),
    _relu("relu_0_to_1", 0.0, 1.0),
    unary_operator(
        "abs",
        tabulate(_abs),
        rules.wide_codes_scaled,
        _MOVED,
        whole={"int16": beyond_tables(_abs), **dict.fromkeys(("int32", "int64"), of_whole_numbers(np.abs))},
    ),
    unary_operator(
        "neg",
        tabulate(_neg),
        whole=dict.fromkeys(("int16", "int32", "int64"), of_whole_numbers(np.negative)),
    ),
    unary_operator(
        "sqrt",
        tabulate(_sqrt),
        rules.wide_codes_scaled,
        rules.symmetric,
        whole={"int16": beyond_tables(_sqrt)},
    ),
    unary_operator(
        "rsqrt",
        tabulate(_rsqrt_codes),
        moved_in_32_bits("2**-20 / (root of input scale * output scale)", _rsqrt_multiplier),
        once=_rsqrt,
        interpolates=_rsqrt_or_largest,
    ),
    Operator(
        name="logical_not",
        types=alike("bool"),
        rules=(rules.operands(1), rules.same_shape),
        infer=like_input,
        reference=_logical_not,
        workload=elementwise,
        lowerings=(Lowering("vector", (), lambda call, hardware: lower_table(call, _NOT)),),
    ),
)
