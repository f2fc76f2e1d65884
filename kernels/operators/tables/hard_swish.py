"""hard_swish: x times alpha * x + beta limited to 0..1, element by element; usually x * relu6(x + 3) / 6."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import quantize_multiplier, rounding_divide_by_power
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import parameters
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operator.rescale import MOST_LEFT, Multiplier
from npusim.kernels.operators.tables.hard_sigmoid import gate, gate_in_steps
from npusim.kernels.operators.tables.lookup import (
    Float32Array,
    Int64Array,
    real_function,
    tabulate,
    tabulate_by_value,
    unary_operator,
)


class Parameters(parameters.Parameters):
    """alpha: the slope of the gate between 0 and 1; beta: the gate at 0."""

    alpha: float = 1 / 6
    beta: float = 0.5


def _usual(call: Call[Parameters]) -> bool:
    """alpha is 1/6 and beta 1/2"""
    alpha, beta = call.parameters.alpha, call.parameters.beta
    return np.float32(alpha) == np.float32(1 / 6) and beta == 0.5


def _reals(call: Call[Parameters], x: Float32Array) -> Float32Array:
    if _usual(call):
        return real_function("hard_swish")(call, x)
    return x * gate(call.parameters.alpha, call.parameters.beta, x)


def _expand(call: Call[Parameters]) -> Expansion:
    steps = RealSteps(call)
    opened = gate_in_steps(steps, call.parameters.alpha, call.parameters.beta)
    return steps.result(steps.pair("mul", 0, opened))


def _codes(call: Call, codes: Int64Array) -> Int64Array:
    """x in 16 bits with 7 more fraction bits, times a gate that goes from 0 to 1 as x goes from -3 to 3."""
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    (output_multiplier, output_shift), (gate_multiplier, gate_shift) = _multipliers(call)
    fine = _wrap(codes - source.zero_point << 7)
    gate = _gate(fine, gate_multiplier, gate_shift)
    product = _truncating_high(gate, _rounding_high(fine, output_multiplier))
    return np.asarray(rounding_divide_by_power(product, -output_shift), np.int64) + target.zero_point


def _multipliers(call: Call) -> tuple[Multiplier, Multiplier]:
    """Those of the output and of the gate, in float32."""
    fine_scale = np.float32(1 / 128) * np.float32(quantization(input_type(call)).scale)
    with np.errstate(over="ignore"):
        quotient = fine_scale / np.float32(quantization(call.outputs[0]).scale)
    return _short_multiplier(quotient), _short_multiplier(fine_scale / np.float32(3 / 32768))


def _moved_in_16_bits(call: Call) -> bool:
    """input scale / output scale is from 2**-9 to less than 2**7, and the input scale about 2**-22 to 2**24"""
    if input_type(call).real or not _usual(call):
        return True
    # LiteRT refuses a left shift of the output, and C leaves undefined what 16 bits moved right by 16 are.
    (_, output_shift), (_, gate_shift) = _multipliers(call)
    return -15 <= output_shift <= 0 and -15 <= gate_shift <= MOST_LEFT


def _gate(fine: Int64Array, multiplier: int, shift: int) -> Int64Array:
    """(x / 3 saturated to -1..1, plus 1) / 2 with 15 fraction bits."""
    gate = fine
    if shift > 0:  # shift all but one place, multiply, shift the last: a full shift would saturate too early
        gate = _saturate(gate << (shift - 1))
    gate = _rounding_high(gate, multiplier)
    if shift > 0:
        gate = _saturate(gate << 1)
    elif shift < 0:
        gate = np.asarray(rounding_divide_by_power(gate, -shift), np.int64)
    return (gate + (1 << 15)) >> 1


def _short_multiplier(real: np.float32) -> tuple[int, int]:
    """A 16-bit multiplier and its power of two."""
    multiplier, shift = quantize_multiplier(float(real))
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift


def _wrap(values: Int64Array) -> Int64Array:
    return values.astype(np.int16).astype(np.int64)


def _saturate(values: Int64Array) -> Int64Array:
    return np.clip(values, -(1 << 15), (1 << 15) - 1)


def _rounding_high(values: Int64Array, multiplier: int) -> Int64Array:
    """values * multiplier / 2**15 to the nearest integer, halves up."""
    return (values * multiplier + (1 << 14)) >> 15


def _truncating_high(a: Int64Array, b: Int64Array) -> Int64Array:
    """a * b / 2**15, toward zero."""
    product = a * b
    quotient: Int64Array = np.sign(product) * (np.abs(product) >> 15)
    return quotient


_usual_table, _other_table = tabulate(_codes), tabulate_by_value(_reals)


def table(call: Call[Parameters]) -> Array:
    """The output code of each of a call's 256 input codes, in raw byte order."""
    return (_usual_table if _usual(call) else _other_table)(call)


OPERATOR = unary_operator(
    "hard_swish",
    table,
    _moved_in_16_bits,
    parameters=Parameters,
    on_host=_reals,
    lane_rules=(_usual,),
    expand=_expand,
)
