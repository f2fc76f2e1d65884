"""dequantize: integer codes to the real numbers that they stand for."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
)
from npusim.kernels.operator.operator import Call, Operator, Values


def _codes(call: Call, values: Values) -> list[Array]:
    codes, source = input_value(values), quantization(input_type(call))
    shape = [1] * codes.ndim
    if source.axis is not None:
        shape[source.axis] = -1
    scales = np.array(source.scales, np.float32).reshape(shape if source.axis is not None else ())
    zero_points = np.array(source.zero_points, np.int64).reshape(scales.shape)
    with np.errstate(over="ignore"):  # reals beyond the output's type become infinite
        reals = scales * (codes.astype(np.int64) - zero_points).astype(np.float32)
        return [reals.astype(call.outputs[0].numpy_dtype, copy=False)]


def _halves(call: Call, values: Values) -> list[Array]:
    return [input_value(values).astype(call.outputs[0].numpy_dtype)]


def _scaled_codes(call: Call) -> bool:
    """whole numbers have a scale and a zero point"""
    return input_type(call).quantized or input_type(call).real


REFERENCES = {**dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), _codes), "float16": _halves}

OPERATOR = Operator(
    name="dequantize",
    types=tuple(f"{dtype} -> float32|float16" for dtype in REFERENCES),
    rules=(rules.operands(1), _scaled_codes, rules.same_shape),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    on_host="the NPU has no floating-point unit",
)
