"""Convolution of an image with a set of filters.

ifm [n, h, w, i], weights [o, kernel h, kernel w, i], optional bias [o] -> ofm [n, rows, columns, o].
Attributes: strides and dilations (height, width), padding ((top, bottom), (left, right)), activation.
"""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.arithmetic.convolution import convolve, convolve_float
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.mac import lower_convolution
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operators.convolution import convolution, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


def _filters(call: Call) -> bool:
    """weights are [output channels, height, width, input channels of the feature map]"""
    shape = input_type(call, WEIGHTS).shape
    return len(shape) == 4 and min(shape) > 0 and shape[3] == input_type(call).shape[3]


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    return convolution.reference(call, values, input_value(values, WEIGHTS), convolve, convolve_float)


def _workload(call: Call) -> Workload:
    _, height, width, channels = input_type(call, WEIGHTS).shape
    return weighted_sum.workload(call, "gemm", height * width * channels)


OPERATOR = Operator(
    name="conv_2d",
    rules=convolution.rules_of(_filters, channel_axis=0),
    infer=lambda call: convolution.infer(call, channel_axis=0),
    npu_rules=convolution.NPU_RULES,
    reference=_reference,
    workload=_workload,
    border=convolution.border,
    window=convolution.window,
    lower=lower_convolution,
    unit="mac",
)
