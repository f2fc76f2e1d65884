"""Mean over some dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.reduction import float_sum_lowering, real_reduction_lowering, sum_lowering
from npusim.kernels.lowering.vector import adjacent_axes, int16_passes, lower_mean
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import (
    MOST_CODES,
    REDUCTION_RULES,
    Reduction,
    accumulated,
    all_read,
    combined,
    reduced,
    wide_sums,
)
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fused import fused_mean, in_fixed_point, only_codes
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import ROOM, Call, Lowering, Operator, Values, need
from npusim.kernels.operator.rescale import Multiplier, mean_multiplier, moved_in_32_bits, sound_scales

Parameters = Reduction


def _count(call: Call) -> bool:
    """at most 2**23 elements are averaged"""
    return combined(call) <= MOST_CODES


def _few(call: Call) -> bool:
    """on the NPU at most 65535 int16 values are averaged"""
    return combined(call) <= 65535


def _some(call: Call) -> bool:
    """on the NPU at least one element is averaged"""
    return combined(call) > 0


def _some_if_fused(call: Call) -> bool:
    """fused, at least one element is averaged"""
    return call.parameters.rescale != "fused" or combined(call) > 0


@need(ROOM)
def _fits(call: Call, hardware: Hardware) -> bool:
    """room in the scratchpad for the elements of one mean"""
    return combined(call) * input_type(call).element.bits // 8 < hardware.scratchpad_bytes


def _of_nothing(call: Call, values: Values) -> list[Array]:
    """The mean of no elements is 0, as LiteRT has it."""
    ofm = call.outputs[0]
    zero = quantization(ofm).zero_point if ofm.quantized8 else 0
    return [np.full(ofm.shape, zero, ofm.numpy_dtype)]


def _reference(call: Call, values: Values) -> list[Array]:
    if call.parameters.rescale == "fused":
        return fused_mean(call, values)
    return (by_type(REFERENCES) if combined(call) else _of_nothing)(call, values)


def _in_reals(call: Call[Parameters], values: Values) -> list[Array]:
    """Added up and divided in float64, rounded once."""
    with np.errstate(all="ignore"):
        means = wide_sums(call, values) / combined(call)
        return [means.astype(np.float32).reshape(call.outputs[0].shape)]


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    ofm, count = call.outputs[0], combined(call)
    sums = np.asarray(x.sum(axis=call.parameters.axes, dtype=np.int32))
    codes = requantise(
        sums - count * quantization(input_type(call)).zero_point,
        *_multiplier(call),
        quantization(ofm).zero_point,
        *code_range(ofm.dtype),
        ofm.numpy_dtype,
    )
    return [codes.reshape(ofm.shape)]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    sums = accumulated(call, input_value(values).astype(np.float32, copy=False), np.add)
    return [sums / np.float32(combined(call))]


def _integers(call: Call[Parameters], values: Values) -> list[Array]:
    """Sums of 64 bits, divided toward zero."""
    x: Any = input_value(values)
    ofm = call.outputs[0]
    sums = np.asarray(x.sum(axis=call.parameters.axes, dtype=np.int64))
    means = np.sign(sums) * (np.abs(sums) // combined(call))
    return [means.astype(ofm.numpy_dtype).reshape(ofm.shape)]


def _multiplier(call: Call) -> Multiplier:
    return mean_multiplier(input_type(call), call.outputs[0], max(combined(call), 1))


REFERENCES = with_halves(
    {
        "int8": _codes,
        "uint8": _codes,
        "int16": _codes,
        "int32": _integers,
        "int64": _integers,
        "float32": _reals,
    }
)

OPERATOR = Operator(
    name="mean",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(
        *REDUCTION_RULES,
        rules.wide_codes_scaled,
        _count,
        sound_scales,
        in_fixed_point(moved_in_32_bits("input scale / output scale", _multiplier)),
        only_codes,
        _some_if_fused,
    ),
    infer=reduced,
    reference=_reference,
    workload=all_read,
    lowerings=(
        Lowering("vector", (rules.eight_bit, _some, adjacent_axes), lower_mean, (_fits,)),
        Lowering("vector", (rules.all_int16, _few, _some, adjacent_axes), lower_mean, (_fits, int16_passes)),
        sum_lowering(_multiplier),
        real_reduction_lowering("mean"),
        float_sum_lowering("mean"),
        float_sum_lowering("fused_mean"),
    ),
    rescales=("fixed_point", "fused"),
    in_reals=_in_reals,
)
