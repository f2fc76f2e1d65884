"""What conv_2d and depthwise_conv_2d share: rules, window, reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import numpy as np

from npusim.isa.arithmetic.integer import Int64Array
from npusim.isa.base.tensor import Array
from npusim.kernels.operator.activation import activation_in_32_bits
from npusim.kernels.operator.geometry import (
    Window,
    image_ranks,
    limited,
    maps_on_npu,
    padding_on_npu,
    window_shape,
)
from npusim.kernels.operator.operands import input_type, input_value, quantization, weight_zero
from npusim.kernels.operator.operator import Call, Rule, Shapes, SlidingWindow, Values
from npusim.kernels.operator.parameters import Pair
from npusim.kernels.operator.rescale import convolution_multipliers, moved_in_32_bits, sound_scales
from npusim.kernels.operators.convolution import weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


class Convolution(Window):
    """Parameters of a convolution: steps of the window, and of the kernel inside it, by (height, width)."""

    dilations: Pair = (1, 1)


class Geometry(TypedDict):
    """A window in the words of `npusim.isa.arithmetic.convolution`, (height, width) each."""

    strides: Pair
    dilations: Pair
    pads: Pair
    output_shape: Pair


def geometry(call: Call[Convolution]) -> Geometry:
    """The window of a call; padding below and to the right follows from the shape of the output."""
    _, rows, columns, _ = call.outputs[0].shape
    (top, _), (left, _) = call.parameters.padding
    return Geometry(
        strides=call.parameters.strides,
        dilations=call.parameters.dilations,
        pads=(top, left),
        output_shape=(rows, columns),
    )


def infer(call: Call[Convolution], channel_axis: int) -> Shapes:
    """What kernel, strides, dilations and padding give; `channel_axis` of the weights holds the output channels."""
    weights = input_type(call, WEIGHTS).shape
    rows, columns = window_shape(call, weights[1:3], call.parameters.dilations)
    return ((input_type(call).shape[0], rows, columns, weights[channel_axis]),)


def rules_of(filters: Rule, channel_axis: int) -> tuple[Rule, ...]:
    """The rules of a convolution; `filters` is the one for the shape of its weights [., height, width, .].

    `channel_axis` is the dimension of the weights that holds the output channels.
    """

    def output_shape(call: Call) -> bool:
        """the output has the shape that kernel, strides, dilations and padding give, a channel per filter"""
        return infer(call, channel_axis) == (call.outputs[0].shape,)

    return (
        weighted_sum.three_operands,
        image_ranks,
        filters,
        output_shape,
        weighted_sum.one_scale_per_map,
        weighted_sum.weights_scaled_by_channel(channel_axis),
        sound_scales,
        weighted_sum.bias_per_channel,
        moved_in_32_bits("the scale of a product over that of the output", _multipliers),
        activation_in_32_bits,
    )


def _multipliers(call: Call) -> tuple[Int64Array, Int64Array]:
    return convolution_multipliers(input_type(call), input_type(call, WEIGHTS), call.outputs[0])


def kernel_on_npu(call: Call) -> bool:
    """on the NPU kernels are 1..255 high and wide"""
    return max(input_type(call, WEIGHTS).shape[1:3]) <= 255


NPU_RULES: tuple[Rule, ...] = (
    weighted_sum.quantized_maps,
    kernel_on_npu,
    limited(("strides",), 31),
    limited(("dilations",), 63),
    padding_on_npu,
    maps_on_npu,
)


def of_codes(
    call: Call[Convolution], values: Values, weights: Array, convolve: Callable[..., Array]
) -> list[Array]:
    """A convolution of 8-bit codes; `convolve` is the primitive of `npusim.isa.arithmetic.convolution`."""
    zeros = quantization(input_type(call)).zero_point, weight_zero(call)
    sums = np.empty(call.outputs[0].shape, np.int32)
    for image, target in zip(input_value(values), sums, strict=True):
        target[...] = convolve(image, weights, *zeros, **geometry(call))
    return [
        weighted_sum.finish_codes(call, sums, weighted_sum.bias_value(values), _multipliers(call), "double")
    ]


def of_reals(
    call: Call[Convolution], values: Values, weights: Array, convolve: Callable[..., Array]
) -> list[Array]:
    """A convolution of real numbers; `convolve` is the primitive of `npusim.isa.arithmetic.convolution`."""
    sums = np.empty(call.outputs[0].shape, np.float64)
    for image, target in zip(input_value(values), sums, strict=True):
        target[...] = convolve(image, weights, **geometry(call))
    return [weighted_sum.finish_reals(call, sums, weighted_sum.bias_value(values))]


def border(call: Call) -> int:
    """Outside the image a convolution reads its zero point."""
    return quantization(input_type(call)).zero_point if input_type(call).quantized8 else 0


def window(call: Call[Convolution]) -> SlidingWindow:
    """Height and width of the weights, and the steps of the window."""
    _, height, width, _ = input_type(call, WEIGHTS).shape
    return SlidingWindow((height, width), call.parameters.strides)
