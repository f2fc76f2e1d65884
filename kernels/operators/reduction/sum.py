"""Sum over some dimensions."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.reduction import float_sum_lowering, real_reduction_lowering, sum_lowering
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
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.rescale import (
    Multiplier,
    moved_in_32_bits,
    quantize_multiplier_of,
    sound_scales,
)

Parameters = Reduction


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Of codes less their zero point, rescaled: the rule of LiteRT's kernel for uint8, for int8 too."""
    ofm, x = call.outputs[0], input_value(values)
    sums = accumulated(call, x.astype(np.int32), np.add)
    sums -= combined(call) * quantization(input_type(call)).zero_point
    zero_point = quantization(ofm).zero_point
    return [requantise(sums, *_multiplier(call), zero_point, *code_range(ofm.dtype), ofm.numpy_dtype)]


def _numbers(call: Call[Parameters], values: Values) -> list[Array]:
    """In the type of the operand: whole numbers wrap."""
    return [accumulated(call, input_value(values), np.add)]


def _in_reals(call: Call[Parameters], values: Values) -> list[Array]:
    """Added up in float64, rounded once."""
    with np.errstate(all="ignore"):
        return [wide_sums(call, values).astype(np.float32).reshape(call.outputs[0].shape)]


def _multiplier(call: Call) -> Multiplier:
    return quantize_multiplier_of(input_type(call), call.outputs[0])


def _count(call: Call) -> bool:
    """of 8-bit codes at most 2**23 are added"""
    return not input_type(call).quantized8 or combined(call) <= MOST_CODES


REFERENCES = with_halves(
    {"int8": _codes, "uint8": _codes, "int32": _numbers, "int64": _numbers, "float32": _numbers}
)

OPERATOR = Operator(
    name="sum",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(
        *REDUCTION_RULES,
        _count,
        sound_scales,
        moved_in_32_bits("input scale / output scale", _multiplier),
    ),
    infer=reduced,
    reference=by_type(REFERENCES),
    workload=all_read,
    lowerings=(sum_lowering(_multiplier), real_reduction_lowering("sum"), float_sum_lowering("sum")),
    in_reals=_in_reals,
)
