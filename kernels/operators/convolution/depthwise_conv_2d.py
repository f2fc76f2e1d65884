"""Convolution of each channel of an image with filters of its own.

ifm [n, h, w, c], weights [1, kernel h, kernel w, c * m], optional bias [c * m] -> ofm [n, rows, columns,
c * m]; output channel k reads input channel k // m. Attributes: those of conv_2d, and depth_multiplier m.
"""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.arithmetic.convolution import depthwise_convolve, depthwise_convolve_float
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.mac import lower_depthwise
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operators.convolution import convolution, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


def _filters(call: Call) -> bool:
    """weights are [1, height, width, input channels * depth_multiplier]"""
    shape, channels = input_type(call, WEIGHTS).shape, input_type(call).shape[3]
    multiplier = call.attributes["depth_multiplier"]
    return len(shape) == 4 and min(shape) > 0 and (shape[0], shape[3]) == (1, channels * multiplier)


def _multiplier_on_npu(call: Call) -> bool:
    """on the NPU depth_multiplier is 1..255"""
    return bool(1 <= call.attributes["depth_multiplier"] <= 255)


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    weights = input_value(values, WEIGHTS)[0]
    return convolution.reference(call, values, weights, depthwise_convolve, depthwise_convolve_float)


def _workload(call: Call) -> Workload:
    _, height, width, _ = input_type(call, WEIGHTS).shape
    return weighted_sum.workload(call, "depthwise", height * width)


OPERATOR = Operator(
    name="depthwise_conv_2d",
    rules=convolution.rules_of(_filters, channel_axis=3),
    infer=lambda call: convolution.infer(call, channel_axis=3),
    npu_rules=(*convolution.NPU_RULES, _multiplier_on_npu),
    reference=_reference,
    workload=_workload,
    border=convolution.border,
    window=convolution.window,
    lower=lower_depthwise,
    unit="mac",
)
