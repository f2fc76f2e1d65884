"""The convolution that leads from the output back to the input, the other way round.

ifm [n, h, w, i], weights [o, kernel h, kernel w, i / groups], optional bias [o] -> ofm [n, rows, columns, o]. Each
input pixel adds its value, times the weights, to a window of output pixels; windows lie `strides` apart, and what falls
into the padding is dropped. Input and output channels fall into as many groups, in order.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.transposed import lower_transposed
from npusim.kernels.operator import rules
from npusim.kernels.operator.geometry import Window, covered, image_ranks, maps_on_npu
from npusim.kernels.operator.operands import (
    by_type,
    input_type,
    input_value,
    quantization,
    weight_zero,
    with_halves,
)
from npusim.kernels.operator.operator import Arithmetic, Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count, Pair
from npusim.kernels.operator.rescale import (
    activation_in_32_bits,
    moved_in_32_bits,
    sound_scales,
)
from npusim.kernels.operators.convolution import exact_sum, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import (
    WEIGHTS,
    channel_multipliers,
    filters_in_groups,
    groups,
)


class Parameters(Window):
    """size: height and width of the output if they are not those of the windows less padding.

    Padding below and to the right is then ignored, and pixels that no window reaches hold the bias. dilations: steps
    inside a window.
    """

    size: tuple[Count, Count] | None = None
    dilations: Pair = (1, 1)


def _infer(call: Call[Parameters]) -> Shapes:
    """Return as many pixels as the windows cover, less the padding, unless the size is given."""
    batch, *size, _ = input_type(call).shape
    channels, *kernel, _ = input_type(call, WEIGHTS).shape
    parameters = call.parameters
    axes = zip(size, kernel, parameters.strides, parameters.dilations, parameters.padding, strict=True)
    rows, columns = parameters.size or [covered(*axis) - sum(pads) for *axis, pads in axes]
    return ((batch, rows, columns, channels),)


_output_shape = rules.inferred(
    _infer, "the output has the shape that size, or kernel, strides and padding give, a channel per filter"
)


def _sums(call: Call[Parameters], pixels: NDArray[np.float64], weights: NDArray[np.float64]) -> Any:
    """Return the sums [n, rows, columns, o] in float64, which holds those of quantized values exactly."""
    (_, rows, columns, _), (height, width) = call.outputs[0].shape, pixels.shape[1:3]
    (top, _), (left, _) = call.parameters.padding
    down, right = call.parameters.strides
    apart_y, apart_x = call.parameters.dilations
    sums = np.zeros(call.outputs[0].shape)
    for tap in product(range(weights.shape[1]), range(weights.shape[2])):
        ys, targets_y = _reached(height, rows, down, tap[0] * apart_y - top)
        xs, targets_x = _reached(width, columns, right, tap[1] * apart_x - left)
        sums[:, targets_y, targets_x] += _times(pixels[:, ys, xs], weights[:, tap[0], tap[1]], groups(call))
    return sums


def _times(pixels: NDArray[np.float64], weights: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Multiply pixels [..., i] with weights [o, i / groups], group by group."""
    if count == 1:
        return pixels @ weights.T
    parts = zip(np.split(pixels, count, axis=-1), np.split(weights, count), strict=True)
    return np.concatenate([part @ of_group.T for part, of_group in parts], axis=-1)


def _reached(size: int, count: int, stride: int, offset: int) -> tuple[slice, slice]:
    """Return which of `size` indices i have i * stride + offset within 0..count-1, and these places."""
    first = max(0, -(offset // stride))
    last = max(min(size, (count - 1 - offset) // stride + 1), first)
    begin = first * stride + offset
    return slice(first, last), slice(
        begin, begin + (last - first) * stride, stride
    ) if last > first else slice(0, 0)


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    zeros = quantization(input_type(call)).zero_point, weight_zero(call)
    pixels, weights = (input_value(values, at).astype(np.float64) - zeros[at] for at in (0, WEIGHTS))
    bias = weighted_sum.bias_value(values)
    return [weighted_sum.finish_sums(call, _sums(call, pixels, weights), bias, channel_multipliers(call))]


def _exactly(call: Call[Parameters], values: Values) -> list[Array]:
    """Compute exact sums for the rescale "float32", of 8-bit and of wider values."""
    sums = exact_sum.exact_sums(call, values, lambda x, w: _sums(call, x, w))
    return [exact_sum.finish(call, sums, weighted_sum.bias_value(values))]


def _products(call: Call) -> int:
    """Return the maximum number of products in a sum: those of all taps."""
    _, height, width, depth = input_type(call, WEIGHTS).shape
    return height * width * depth


_FITS = exact_sum.sums_in_32_bits(_products, 0)


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    pixels, weights = (input_value(values, at).astype(np.float64) for at in (0, WEIGHTS))
    return [weighted_sum.finish_floats(call, _sums(call, pixels, weights), weighted_sum.bias_value(values))]


def _workload(call: Call) -> Workload:
    """Return the work of every input pixel times every weight of its group."""
    channels, height, width, depth = input_type(call, WEIGHTS).shape
    work = weighted_sum.workload(call, "gemm", height * width * depth)
    return replace(work, macs=input_type(call).elements * channels * height * width // groups(call))


def _steps_on_npu(call: Call[Parameters]) -> bool:
    """on the NPU a stride of columns spans less than 2**20 bytes, a stride of rows less than 2**24"""
    (_, _, columns, channels), (down, right) = call.outputs[0].shape, call.parameters.strides
    return right * channels < 1 << 20 and down * columns * channels < 1 << 24


def _dilated_on_npu(call: Call[Parameters]) -> bool:
    """on the NPU dilated filters are constants"""
    return call.parameters.dilations == (1, 1) or WEIGHTS in call.constants


def _extent_on_npu(call: Call[Parameters]) -> bool:
    """on the NPU windows, dilated, are 1..255 high and wide"""
    _, *kernel, _ = input_type(call, WEIGHTS).shape
    return all((k - 1) * d + 1 <= 255 for k, d in zip(kernel, call.parameters.dilations, strict=True))


_SHAPES = (weighted_sum.three_operands, image_ranks, filters_in_groups, _output_shape)
_MAC = Lowering(
    "mac",
    (weighted_sum.quantized_maps, _extent_on_npu, maps_on_npu, _steps_on_npu, _dilated_on_npu),
    lower_transposed,
)

TRANSPOSE_CONV = Operator(
    name="transpose_conv",
    parameters=Parameters,
    types=weighted_sum.TYPES,
    rules=(
        *_SHAPES,
        weighted_sum.one_scale_per_map,
        rules.symmetric,
        weighted_sum.weights_scaled_by_channel(0),
        sound_scales,
        weighted_sum.bias_per_channel,
        moved_in_32_bits("input scale * weight scale / output scale", channel_multipliers),
        weighted_sum.shifted_in_64_bits(channel_multipliers),
        activation_in_32_bits,
    ),
    infer=_infer,
    reference=by_type(with_halves({"int8": _codes, "uint8": _codes, "int16": _codes, "float32": _floats})),
    workload=_workload,
    lowerings=(
        _MAC,
        weighted_sum.on_int16(_MAC, weighted_sum.wide_sums_fit(0, channel_multipliers)),
    ),
    arithmetics=(
        Arithmetic(
            ("float32",),
            exact_sum.TYPES,
            (*_SHAPES, *exact_sum.rules(_products, 0)),
            _exactly,
            (exact_sum.on_npu(_MAC, _FITS), exact_sum.on_int16(_MAC, _products)),
        ),
    ),
)

OPERATORS = (TRANSPOSE_CONV,)
