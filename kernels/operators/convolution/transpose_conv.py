"""The convolution that leads from the output back to the input, the other way round.

ifm [n, h, w, i], weights [o, kernel h, kernel w, i], optional bias [o] -> ofm [n, rows, columns, o]. Each input pixel
adds its value, times the weights, to a window of output pixels; windows lie `strides` apart, and what falls into the
padding is dropped.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.transposed import lower_transposed
from npusim.kernels.operator.activation import activation_in_32_bits
from npusim.kernels.operator.geometry import Window, image_ranks, maps_on_npu
from npusim.kernels.operator.operands import (
    by_type,
    input_type,
    input_value,
    quantization,
    weight_zero,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operator.rescale import convolution_multipliers, moved_in_32_bits, sound_scales
from npusim.kernels.operators.convolution import convolution, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


class Parameters(Window):
    """size: height and width of the output where they are not what windows less padding give; then padding below and
    to the right says nothing, and pixels that no window reaches hold the bias.
    """

    size: tuple[Count, Count] | None = None


def _filters(call: Call) -> bool:
    """weights are [output channels, height, width, input channels of the feature map]"""
    shape = input_type(call, WEIGHTS).shape
    return len(shape) == 4 and min(shape) > 0 and shape[3] == input_type(call).shape[3]


def _infer(call: Call[Parameters]) -> Shapes:
    """As many pixels as the windows cover, less the padding, unless the size is given."""
    batch, *size, _ = input_type(call).shape
    channels, *kernel, _ = input_type(call, WEIGHTS).shape
    strides, padding = call.parameters.strides, call.parameters.padding
    axes = zip(size, kernel, strides, padding, strict=True)
    rows, columns = call.parameters.size or [(s - 1) * step + k - sum(pads) for s, k, step, pads in axes]
    return ((batch, rows, columns, channels),)


def _output_shape(call: Call) -> bool:
    """the output has the shape that size, or kernel, strides and padding give, a channel per filter"""
    return _infer(call) == (call.outputs[0].shape,)


def _multipliers(call: Call) -> Any:
    return convolution_multipliers(input_type(call), input_type(call, WEIGHTS), call.outputs[0])


def _sums(call: Call[Parameters], pixels: NDArray[np.float64], weights: NDArray[np.float64]) -> Any:
    """The sums [n, rows, columns, o] in float64, which holds those of codes exactly."""
    (_, rows, columns, _), (height, width) = call.outputs[0].shape, pixels.shape[1:3]
    (top, _), (left, _) = call.parameters.padding
    down, right = call.parameters.strides
    sums = np.zeros(call.outputs[0].shape)
    for tap in product(range(weights.shape[1]), range(weights.shape[2])):
        ys, targets_y = _reached(height, rows, down, tap[0] - top)
        xs, targets_x = _reached(width, columns, right, tap[1] - left)
        sums[:, targets_y, targets_x] += pixels[:, ys, xs] @ weights[:, tap[0], tap[1]].T
    return sums


def _reached(size: int, count: int, stride: int, offset: int) -> tuple[slice, slice]:
    """Of `size` numbers those whose multiples of `stride`, plus `offset`, fall on 0..count-1, and these places."""
    first = max(0, -(offset // stride))
    last = max(min(size, (count - 1 - offset) // stride + 1), first)
    begin = first * stride + offset
    return slice(first, last), slice(
        begin, begin + (last - first) * stride, stride
    ) if last > first else slice(0, 0)


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    zeros = quantization(input_type(call)).zero_point, weight_zero(call)
    pixels, weights = (input_value(values, at).astype(np.float64) - zeros[at] for at in (0, WEIGHTS))
    sums = _sums(call, pixels, weights).astype(np.int64).astype(np.int32)  # 32 bits wrap
    bias = weighted_sum.bias_value(values)
    return [weighted_sum.finish_codes(call, sums, bias, _multipliers(call), "double")]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    pixels, weights = (input_value(values, at).astype(np.float64) for at in (0, WEIGHTS))
    return [weighted_sum.finish_reals(call, _sums(call, pixels, weights), weighted_sum.bias_value(values))]


def _workload(call: Call) -> Workload:
    """Every input pixel times every weight."""
    channels, height, width, _ = input_type(call, WEIGHTS).shape
    work = weighted_sum.workload(call, "gemm", height * width * input_type(call).shape[3])
    return replace(work, macs=input_type(call).elements * channels * height * width)


def _steps_on_npu(call: Call[Parameters]) -> bool:
    """on the NPU pixels a stride apart lie less than 2**20 bytes apart, rows less than 2**24"""
    (_, _, columns, channels), (down, right) = call.outputs[0].shape, call.parameters.strides
    return right * channels < 1 << 20 and down * columns * channels < 1 << 24


OPERATOR = Operator(
    name="transpose_conv",
    parameters=Parameters,
    types=weighted_sum.TYPES,
    rules=(
        weighted_sum.three_operands,
        image_ranks,
        _filters,
        _output_shape,
        weighted_sum.one_scale_per_map,
        weighted_sum.weights_scaled_by_channel(0),
        sound_scales,
        weighted_sum.bias_per_channel,
        moved_in_32_bits("the scale of a product over that of the output", _multipliers),
        activation_in_32_bits,
    ),
    infer=_infer,
    reference=by_type(with_halves({"int8": _codes, "uint8": _codes, "float32": _reals})),
    workload=_workload,
    lowerings=(
        Lowering(
            "mac",
            (
                weighted_sum.quantized_maps,
                convolution.kernel_on_npu,
                maps_on_npu,
                _steps_on_npu,
            ),
            lower_transposed,
        ),
    ),
)
