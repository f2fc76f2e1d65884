"""dequantize: integer codes to the real numbers that they stand for, in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value, like_input, quantization
from npusim.kernels.operator.operator import Call, Operator


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    codes = input_value(values)
    if codes.dtype == np.float16:
        return [codes.astype(np.float32)]
    source = quantization(input_type(call))
    shape = [1] * codes.ndim
    if source.axis is not None:
        shape[source.axis] = -1
    scales = np.array(source.scales, np.float32).reshape(shape if source.axis is not None else ())
    zero_points = np.array(source.zero_points, np.int64).reshape(scales.shape)
    return [scales * (codes.astype(np.int64) - zero_points).astype(np.float32)]


def _types(call: Call) -> bool:
    """turns int8, uint8 or int16 with scale and zero point, or float16, into float32"""
    tensor = input_type(call)
    coded = tensor.dtype in ("int8", "uint8", "int16") and tensor.quantization is not None
    return (coded or tensor.dtype == "float16") and call.outputs[0].dtype == "float32"


OPERATOR = Operator(
    name="dequantize",
    rules=(rules.operands(1), _types, rules.same_shape),
    infer=like_input,
    npu_rules=(rules.host_only("the NPU has no floating-point unit"),),
    reference=_reference,
    workload=elementwise,
)
