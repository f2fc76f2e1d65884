"""Convolution of an image with a set of filters.

ifm [n, h, w, i], weights [o, kernel h, kernel w, i], optional bias [o] -> ofm [n, rows, columns, o].
"""

from __future__ import annotations

from npusim.isa.arithmetic.convolution import convolve, convolve_float
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.mac import lower_convolution
from npusim.kernels.operator.operands import by_type, input_type, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.convolution import convolution, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS

Parameters = convolution.Convolution


def _filters(call: Call) -> bool:
    """weights are [output channels, height, width, input channels of the feature map]"""
    shape = input_type(call, WEIGHTS).shape
    return len(shape) == 4 and min(shape) > 0 and shape[3] == input_type(call).shape[3]


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    return convolution.of_codes(call, values, input_value(values, WEIGHTS), convolve)


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    return convolution.of_reals(call, values, input_value(values, WEIGHTS), convolve_float)


def _workload(call: Call) -> Workload:
    _, height, width, channels = input_type(call, WEIGHTS).shape
    return weighted_sum.workload(call, "gemm", height * width * channels)


OPERATOR = Operator(
    name="conv_2d",
    parameters=Parameters,
    types=weighted_sum.TYPES,
    rules=convolution.rules_of(_filters, channel_axis=0),
    infer=lambda call: convolution.infer(call, channel_axis=0),
    reference=by_type({"int8": _codes, "uint8": _codes, "float32": _reals}),
    workload=_workload,
    border=convolution.border,
    window=convolution.window,
    lowerings=(Lowering("mac", convolution.NPU_RULES, lower_convolution),),
)
