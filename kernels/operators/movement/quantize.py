"""quantize: real numbers, or codes of one scale, to codes of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, codes_of_reals, requantise
from npusim.isa.base.tensor import Array, Quantization
from npusim.kernels.lowering.real import lower_real_convert, on_real_lanes, real_inputs
from npusim.kernels.lowering.vector import lower_quantize
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.rescale import Multiplier, moved_in_32_bits, quantize_multiplier_of, sound_scales


def _codes(call: Call, values: Values) -> list[Array]:
    x: Any = input_value(values)
    ifm, ofm = input_type(call), call.outputs[0]
    return [
        requantise(
            x.astype(np.int32) - quantization(ifm).zero_point,
            *_multiplier(call),
            quantization(ofm).zero_point,
            *code_range(ofm.dtype),
            ofm.numpy_dtype,
        )
    ]


def _reals(call: Call, values: Values) -> list[Array]:
    ofm = call.outputs[0]
    return [quantize_reals(input_value(values), quantization(ofm), ofm.dtype)]


def _multiplier(call: Call) -> Multiplier:
    return quantize_multiplier_of(input_type(call), call.outputs[0])


def quantize_reals(reals: Any, target: Quantization, dtype: str) -> Array:
    """Codes of float32 values: divided in float32, rounded half away from zero; see `codes_of_reals`."""
    low, high = code_range(dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite quotient is one that int32 cannot hold
        steps = reals / np.float32(target.scale)
    return clamp(codes_of_reals(steps, target.zero_point), low, high, dtype)


def _halves(call: Call, values: Values) -> list[Array]:
    return _reals(call, [input_value(values).astype(np.float32)])


def _scaled(call: Call) -> bool:
    """whole numbers have one scale and zero point"""
    tensors = (input_type(call), call.outputs[0])
    return all(tensor.real or (tensor.quantized and quantization(tensor).axis is None) for tensor in tensors)


OPERATOR = Operator(
    name="quantize",
    types=(
        "int8|uint8|int16|float32|float16 -> int8|uint8|int16",
        "int32 -> int8|int16",
        "int16 -> int32",
    ),
    rules=(
        rules.operands(1),
        rules.per_tensor,
        _scaled,
        rules.same_shape,
        sound_scales,
        moved_in_32_bits("input scale / output scale", _multiplier),
    ),
    infer=like_input,
    reference=by_type(
        dict.fromkeys(("int8", "uint8", "int16", "int32"), _codes) | {"float32": _reals, "float16": _halves}
    ),
    workload=elementwise,
    lowerings=(
        Lowering("vector", (rules.eight_bit, rules.eight_bit_output), lower_quantize),
        on_real_lanes(lower_real_convert, rules.eight_bit_output, kind=real_inputs),
    ),
)
