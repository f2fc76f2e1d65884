"""Reductions that add or multiply elements over axes: mean, sum and product."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier, requantise
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.reduction_work import float_reduction_lowering, float_sum_lowering, sum_lowering
from npusim.kernels.lowering.vector_work import adjacent_axes, int16_passes, lower_mean
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import (
    MOST_CODES,
    REDUCTION_RULES,
    Reduction,
    accumulated,
    all_read,
    combined,
    in_order,
    reduced,
    wide_sums,
)
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fused import fused_mean, only_codes
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import ROOM, Arithmetic, Call, Lowering, Operator, Values, literal, need
from npusim.kernels.operator.rescale import (
    Multiplier,
    mean_multiplier,
    moved_in_32_bits,
    quantize_multiplier_of,
    sound_scales,
)

MeanParameters = Reduction


def _mean_count(call: Call) -> bool:
    """at most 2**23 elements are averaged"""
    return combined(call) <= MOST_CODES


def _int16_count_on_npu(call: Call) -> bool:
    """on the NPU at most 65535 int16 values are averaged"""
    return combined(call) <= 65535


def _not_empty_on_npu(call: Call) -> bool:
    """on the NPU at least one element is averaged"""
    return combined(call) > 0


def _not_empty_if_fused(call: Call) -> bool:
    """fused, at least one element is averaged"""
    return combined(call) > 0


@need(ROOM)
def _fits(call: Call, hardware: Hardware) -> bool:
    """room in the scratchpad for the elements of one mean"""
    return combined(call) * input_type(call).element.bits // 8 < hardware.scratchpad_bytes


def _mean_of_none(call: Call, values: Values) -> list[Array]:
    """Return 0 as the mean of no elements, as LiteRT does."""
    ofm = call.outputs[0]
    zero = quantization(ofm).zero_point if ofm.quantized8 else 0
    return [np.full(ofm.shape, zero, ofm.numpy_dtype)]


def _reference(call: Call, values: Values) -> list[Array]:
    return (by_type(MEAN_REFERENCES) if combined(call) else _mean_of_none)(call, values)


def _mean_in_floats(call: Call[MeanParameters], values: Values) -> list[Array]:
    """Add up and divide in float64, and round once."""
    with np.errstate(all="ignore"):
        means = wide_sums(call, values) / combined(call)
        return [means.astype(np.float32).reshape(call.outputs[0].shape)]


def _mean_codes(call: Call[MeanParameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    ofm, count = call.outputs[0], combined(call)
    sums = np.asarray(x.sum(axis=call.parameters.axes, dtype=np.int32))
    codes = requantise(
        sums - count * quantization(input_type(call)).zero_point,
        *_mean_multiplier(call),
        quantization(ofm).zero_point,
        *code_range(ofm.dtype),
        ofm.numpy_dtype,
    )
    return [codes.reshape(ofm.shape)]


def _floats(call: Call[MeanParameters], values: Values) -> list[Array]:
    sums = accumulated(call, input_value(values).astype(np.float32, copy=False), np.add)
    return [sums / np.float32(combined(call))]


def _integers(call: Call[MeanParameters], values: Values) -> list[Array]:
    """Divide 64-bit sums toward zero."""
    x: Any = input_value(values)
    ofm = call.outputs[0]
    sums = np.asarray(x.sum(axis=call.parameters.axes, dtype=np.int64))
    means = np.sign(sums) * (np.abs(sums) // combined(call))
    return [means.astype(ofm.numpy_dtype).reshape(ofm.shape)]


def _mean_multiplier(call: Call) -> Multiplier:
    return mean_multiplier(input_type(call), call.outputs[0], max(combined(call), 1))


MEAN_REFERENCES = with_halves(
    {
        "int8": _mean_codes,
        "uint8": _mean_codes,
        "int16": _mean_codes,
        "int32": _integers,
        "int64": _integers,
        "float32": _floats,
    }
)

_MEAN_RULES = (*REDUCTION_RULES, rules.wide_codes_scaled, _mean_count, sound_scales)

MEAN = Operator(
    name="mean",
    parameters=MeanParameters,
    types=alike(*MEAN_REFERENCES),
    rules=(*_MEAN_RULES, moved_in_32_bits("input scale / output scale", _mean_multiplier)),
    infer=reduced,
    reference=_reference,
    workload=all_read,
    lowerings=(
        Lowering("vector", (rules.eight_bit, _not_empty_on_npu, adjacent_axes), lower_mean, (_fits,)),
        Lowering(
            "vector",
            (rules.all_int16, _int16_count_on_npu, _not_empty_on_npu, adjacent_axes),
            lower_mean,
            (_fits, int16_passes),
        ),
        sum_lowering(_mean_multiplier),
        float_reduction_lowering("mean"),
    ),
    arithmetics=(
        literal(float_sum_lowering("mean"), reference=_mean_in_floats),
        Arithmetic(
            ("fused",),
            None,
            (*_MEAN_RULES, only_codes, _not_empty_if_fused),
            fused_mean,
            (float_sum_lowering("fused_mean"),),
        ),
    ),
)
"""Mean over some dimensions."""


SumParameters = Reduction


def _sum_codes(call: Call[SumParameters], values: Values) -> list[Array]:
    """Add values less their zero point and requantize: the rule of LiteRT's kernel for uint8, for int8 too."""
    ofm, x = call.outputs[0], input_value(values)
    sums = accumulated(call, x.astype(np.int32), np.add)
    sums -= combined(call) * quantization(input_type(call)).zero_point
    zero_point = quantization(ofm).zero_point
    return [requantise(sums, *_sum_multiplier(call), zero_point, *code_range(ofm.dtype), ofm.numpy_dtype)]


def _sum_numbers(call: Call[SumParameters], values: Values) -> list[Array]:
    """Add in the type of the operand: integers wrap."""
    return [accumulated(call, input_value(values), np.add)]


def _sum_in_floats(call: Call[SumParameters], values: Values) -> list[Array]:
    """Add up in float64 and round once."""
    with np.errstate(all="ignore"):
        return [wide_sums(call, values).astype(np.float32).reshape(call.outputs[0].shape)]


def _sum_multiplier(call: Call) -> Multiplier:
    return quantize_multiplier_of(input_type(call), call.outputs[0])


def _sum_count(call: Call) -> bool:
    """at most 2**23 8-bit values are added"""
    return not input_type(call).quantized8 or combined(call) <= MOST_CODES


SUM_REFERENCES = with_halves(
    {
        "int8": _sum_codes,
        "uint8": _sum_codes,
        "int32": _sum_numbers,
        "int64": _sum_numbers,
        "float32": _sum_numbers,
    }
)

SUM = Operator(
    name="sum",
    parameters=SumParameters,
    types=alike(*SUM_REFERENCES),
    rules=(
        *REDUCTION_RULES,
        _sum_count,
        sound_scales,
        moved_in_32_bits("input scale / output scale", _sum_multiplier),
    ),
    infer=reduced,
    reference=by_type(SUM_REFERENCES),
    workload=all_read,
    lowerings=(sum_lowering(_sum_multiplier), float_reduction_lowering("sum")),
    arithmetics=(literal(float_sum_lowering("sum"), reference=_sum_in_floats),),
)
"""Sum over some dimensions."""


ReduceProdParameters = Reduction


def _product_numbers(call: Call[ReduceProdParameters], values: Values) -> list[Array]:
    """Multiply in the type of the operand: integers wrap, floats beyond float32 become infinite."""
    return [accumulated(call, input_value(values), np.multiply)]


def _product_codes(call: Call[ReduceProdParameters], values: Values) -> list[Array]:
    """Multiply factor by factor in C order, each scaled by its part of the whole factor, as LiteRT's kernel does."""
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
    """Return the multiplier of input scale / output scale ** (1 / count); `count` such factors make the whole one."""
    root = float(quantization(call.outputs[0]).scale ** (1 / combined(call)))
    return quantize_multiplier(quantization(input_type(call)).scale / root)


def _few_bits_left(call: Call) -> bool:
    """there is one quantized factor or more, and input scale / output scale ** (1 / count) is less than 256"""
    if input_type(call).dtype not in ("int8", "int16"):
        return True
    return combined(call) > 0 and _part(call)[1] <= 8


PRODUCT_REFERENCES = with_halves(
    {
        "int8": _product_codes,
        "int16": _product_codes,
        "int32": _product_numbers,
        "int64": _product_numbers,
        "float32": _product_numbers,
    }
)

REDUCE_PROD = Operator(
    name="reduce_prod",
    parameters=ReduceProdParameters,
    types=alike(*PRODUCT_REFERENCES),
    rules=(
        *REDUCTION_RULES,
        rules.wide_codes_scaled,
        sound_scales,
        _few_bits_left,
    ),
    infer=reduced,
    reference=by_type(PRODUCT_REFERENCES),
    workload=all_read,
    lowerings=(float_reduction_lowering("prod"),),
)
"""Product over some dimensions."""


OPERATORS = (
    MEAN,
    SUM,
    REDUCE_PROD,
)
