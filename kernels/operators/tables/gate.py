"""What logistic and tanh of int16 share: the scales of their operands, and their arguments in steps of their table."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp

import numpy as np

from npusim.isa.arithmetic.interpolated import logistic_table
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.vector import INT16_TABLES
from npusim.kernels.lowering.vector import int16_passes, lower_int16_table
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call, Lowering, Reference
from npusim.kernels.operators.tables.lookup import Int64Array, beyond_tables


def wide_scales(call: Call) -> bool:
    """an int16 input has one scale and zero point 0, its output zero point 0 and scale 1/32768"""
    if input_type(call).dtype != "int16":
        return True
    if not rules.wide_codes_scaled(call):
        return False
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    return (source.zero_point, target.zero_point, target.scale) == (0, 0, 2.0**-15)


def in_steps(function: Callable[[Int64Array, Int64Array], Int64Array]) -> Reference:
    """The reference of int16 by a function of steps of 1/12288 and its table."""

    def codes_of(call: Call, codes: Int64Array) -> Int64Array:
        multiplier, right = steps(call)
        wrapped = (codes * multiplier + ((1 << right) >> 1)).astype(np.int32)  # as 32 bits hold it
        return function(wrapped.astype(np.int64) >> right, logistic_table())

    return beyond_tables(codes_of)


def on_int16(function: str) -> Lowering:
    """How the vector unit computes it, by the name of the function."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        multiplier, right = steps(call)
        how = INT16_TABLES.index(function)
        return lower_int16_table(call, logistic_table(), int16=how, multiplier=multiplier, right=right)

    return Lowering("vector", (rules.all_int16, _small_scale), lower, (int16_passes,))


def _small_scale(call: Call) -> bool:
    """on the NPU the scale of an int16 input is less than 8/3"""
    return steps(call)[0] < 1 << 15


def steps(call: Call) -> tuple[int, int]:
    """(multiplier, right shift) that turn a quantized value into steps of 1/12288: 15 bits of 12288 x scale, cut off.

    A scale of 2**-12 or 2**-11 has the multipliers 3 and 6, without a shift.
    """
    scale = quantization(input_type(call)).scale
    mantissa, exponent = frexp(scale)
    if mantissa == 0.5 and exponent in (-11, -10):
        return 3 << (exponent + 11), 0
    right, factor = 0, scale * 12288.0
    while factor <= 32767 / 2 and right <= 30:
        factor, right = factor * 2, right + 1
    return int(factor), right
