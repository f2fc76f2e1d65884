"""What relu and its relatives share: codes rescaled to the output's scale and limited."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.isa.arithmetic.interpolated import HIGH, LOW
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.vector import int16_passes, lower_rescale
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call, Lowering, Rule
from npusim.kernels.operator.rescale import moved_in_32_bits
from npusim.kernels.operators.tables.lookup import CodeFunction, Int64Array, round_half_away


def rescale(values: Int64Array, real: float) -> Int64Array:
    """values * real, rounded twice like a convolution's accumulators; int64 in and out.

    A negative real is a negative multiplier: what a shift wraps keeps its sign.
    """
    multiplier, shift = quantize_multiplier(abs(real))
    multiplier = -multiplier if real < 0 else multiplier
    return multiply_by_quantized_multiplier(values.astype(np.int32), multiplier, shift).astype(np.int64)


def factor(call: Call) -> float:
    """input scale / output scale, in float32."""
    return _steps(quantization(input_type(call)).scale, call)


def _steps(real: float, call: Call) -> float:
    """A real number in steps of the output, divided in float32."""
    with np.errstate(over="ignore"):
        return float(np.float32(real) / np.float32(quantization(call.outputs[0]).scale))


def rectifier_rules(*limits: float) -> tuple[Rule, ...]:
    """The rules of an operator that limits x to `limits`, beside those of all unary operators."""

    def bounded(call: Call) -> bool:
        return input_type(call).real or all(abs(_steps(limit, call)) < 1 << 31 for limit in limits)

    largest = max((abs(limit) for limit in limits), default=0)
    bounded.__doc__ = f"{largest:g} / output scale is less than 2**31" if largest else "has no upper limit"
    moved = moved_in_32_bits("input scale / output scale", lambda call: quantize_multiplier(factor(call)))
    return rules.wide_codes_scaled, moved, bounded


def rectified(floor: float, ceiling: float | None) -> CodeFunction:
    """The codes of x limited to what is above `floor`, and below `ceiling` if there is one.

    The limits are codes of the output: zero point + round(limit / scale) in float32.
    """

    def codes_of(call: Call, codes: Int64Array) -> Int64Array:
        source, target = quantization(input_type(call)), quantization(call.outputs[0])
        rescaled = rescale(codes - source.zero_point, factor(call)) + target.zero_point
        limited: Int64Array = np.maximum(rescaled, _code(floor, call))
        return limited if ceiling is None else np.minimum(limited, _code(ceiling, call))

    return codes_of


def _code(real: float, call: Call) -> Int64Array:
    return round_half_away(np.asarray(_steps(real, call))) + quantization(call.outputs[0]).zero_point


def on_int16(floor: float, ceiling: float | None) -> Lowering:
    """How the vector unit limits int16 values: as results of a requantization."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        low, high = (None if limit is None else int(_code(limit, call)) for limit in (floor, ceiling))
        limits = {"int16_low": max(low or 0, LOW), "int16_high": HIGH if high is None else min(high, HIGH)}
        return lower_rescale(call, quantize_multiplier(factor(call)), **limits)

    return Lowering("vector", (rules.all_int16,), lower, (int16_passes,))
