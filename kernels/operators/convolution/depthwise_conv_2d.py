"""Convolution of each channel of an image with filters of its own.

ifm [n, h, w, c], weights [1, kernel h, kernel w, c * m], optional bias [c * m] -> ofm [n, rows, columns,
c * m]; output channel k reads input channel k // m.
"""

from __future__ import annotations

from npusim.isa.arithmetic.convolution import depthwise_convolve, depthwise_convolve_float
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.float_lanes import on_float_columns
from npusim.kernels.lowering.mac_work import lower_depthwise
from npusim.kernels.operator.operands import by_type, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Size
from npusim.kernels.operators.convolution import convolution, exact_sum, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


class Parameters(convolution.Convolution):
    """The parameters of conv_2d, and the number m of filters per channel."""

    depth_multiplier: Size = 1


def _filters(call: Call[Parameters]) -> bool:
    """weights are [1, height, width, input channels * depth_multiplier]"""
    shape, channels = input_type(call, WEIGHTS).shape, input_type(call).shape[3]
    multiplier = call.parameters.depth_multiplier
    return len(shape) == 4 and min(shape) > 0 and (shape[0], shape[3]) == (1, channels * multiplier)


def _multiplier_on_npu(call: Call[Parameters]) -> bool:
    """on the NPU depth_multiplier is 1..255"""
    return 1 <= call.parameters.depth_multiplier <= 255


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    return convolution.of_codes(call, values, input_value(values, WEIGHTS)[0], depthwise_convolve)


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    return convolution.of_floats(call, values, input_value(values, WEIGHTS)[0], depthwise_convolve_float)


def _wide_codes(call: Call[Parameters], values: Values) -> list[Array]:
    return convolution.of_wide_codes(call, values, input_value(values, WEIGHTS)[0], depthwise_convolve_float)


def _workload(call: Call) -> Workload:
    _, height, width, _ = input_type(call, WEIGHTS).shape
    return weighted_sum.workload(call, "depthwise", height * width)


_MAC = Lowering("mac", (*convolution.NPU_RULES, _multiplier_on_npu), lower_depthwise)

DEPTHWISE_CONV_2D = Operator(
    name="depthwise_conv_2d",
    parameters=Parameters,
    types=weighted_sum.TYPES,
    rules=convolution.rules_of(_filters, channel_axis=3),
    infer=lambda call: convolution.infer(call, channel_axis=3),
    reference=by_type(
        with_halves({"int8": _codes, "uint8": _codes, "int16": _wide_codes, "float32": _floats})
    ),
    workload=_workload,
    border=convolution.border,
    window=convolution.window,
    lowerings=(
        _MAC,
        weighted_sum.on_int16(_MAC, convolution.wide_sums_fit(3)),
        on_float_columns("lower_float_depthwise", *convolution.NPU_RULES[1:], _multiplier_on_npu),
    ),
    arithmetics=convolution.arithmetics(
        _filters,
        channel_axis=3,
        of_codes=lambda call: depthwise_convolve,
        of_floats=lambda call: depthwise_convolve_float,
        taken=lambda weights: weights[0],
        lowerings=(
            exact_sum.on_npu(_MAC, convolution.fits_on_npu(channel_axis=3), exact_sum.codes_only),
            exact_sum.on_int16(_MAC, convolution.products),
        ),
        depthwise=True,
    ),
)

OPERATORS = (DEPTHWISE_CONV_2D,)
