"""float32 or 8-bit codes of one scale to 8-bit codes of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, codes_of_reals, requantise
from npusim.isa.base.tensor import Array, Quantization
from npusim.kernels.lowering.vector import lower_quantize
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import (
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
)
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operator.rescale import Multiplier, moved_in_32_bits, quantize_multiplier_of, sound_scales


def _gives_codes(call: Call) -> bool:
    """the output is int8 or uint8 with one scale and zero point"""
    ofm = call.outputs[0]
    return ofm.quantized8 and rules.per_tensor(call)


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    x: Any = input_value(values)
    ifm, ofm = input_type(call), call.outputs[0]
    if ifm.dtype == "float32":
        return [quantize_reals(x, quantization(ofm), ofm.dtype)]
    return [
        requantise(
            x.astype(np.int32) - quantization(ifm).zero_point,
            *_multiplier(call),
            quantization(ofm).zero_point,
            *code_range(ofm.dtype),
            ofm.numpy_dtype,
        )
    ]


def _multiplier(call: Call) -> Multiplier:
    return quantize_multiplier_of(input_type(call), call.outputs[0])


def quantize_reals(reals: Any, target: Quantization, dtype: str) -> Array:
    """Codes of float32 values: divided in float32, rounded half away from zero; see `codes_of_reals`."""
    low, high = code_range(dtype)
    with np.errstate(over="ignore"):  # an infinite quotient is one that int32 cannot hold
        steps = reals / np.float32(target.scale)
    return clamp(codes_of_reals(steps, target.zero_point), low, high, dtype)


OPERATOR = Operator(
    name="quantize",
    rules=(
        rules.operands(1),
        rules.computes_on("int8", "uint8", "float32"),
        rules.same_shape,
        _gives_codes,
        sound_scales,
        moved_in_32_bits("input scale / output scale", _multiplier),
    ),
    infer=like_input,
    npu_rules=(rules.eight_bit,),
    reference=_reference,
    workload=elementwise,
    lower=lower_quantize,
    unit="vector",
)
