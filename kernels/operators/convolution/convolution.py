"""What conv_2d and depthwise_conv_2d share: rules, window, reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import numpy as np

from npusim.isa.arithmetic.integer import Int64Array
from npusim.isa.base.tensor import Array
from npusim.kernels.operator.activation import activation_in_32_bits, known_activation
from npusim.kernels.operator.geometry import (
    Pair,
    image_ranks,
    limited,
    maps_on_npu,
    padding_on_npu,
    window_attributes,
    window_shape,
)
from npusim.kernels.operator.operands import input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Rule, Shapes, SlidingWindow
from npusim.kernels.operator.rescale import convolution_multipliers, moved_in_32_bits, sound_scales
from npusim.kernels.operators.convolution import weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


class Window(TypedDict):
    """A window in the words of `npusim.isa.arithmetic.convolution`, (height, width) each."""

    strides: Pair
    dilations: Pair
    pads: Pair
    output_shape: Pair


def window_of(call: Call) -> Window:
    """The window of a call; padding below and to the right follows from the shape of the output."""
    attributes = call.attributes
    _, rows, columns, _ = call.outputs[0].shape
    (top, _), (left, _) = attributes["padding"]
    return Window(
        strides=(attributes["strides"][0], attributes["strides"][1]),
        dilations=(attributes["dilations"][0], attributes["dilations"][1]),
        pads=(top, left),
        output_shape=(rows, columns),
    )


def infer(call: Call, channel_axis: int) -> Shapes:
    """What kernel, strides, dilations and padding give; `channel_axis` of the weights holds the output channels."""
    weights = input_type(call, WEIGHTS).shape
    return ((input_type(call).shape[0], *window_shape(weights[1:3], call), weights[channel_axis]),)


def rules_of(filters: Rule, channel_axis: int) -> tuple[Rule, ...]:
    """The rules of a convolution; `filters` is the one for the shape of its weights [., height, width, .].

    `channel_axis` is the dimension of the weights that holds the output channels.
    """

    def output_shape(call: Call) -> bool:
        """the output has the shape that kernel, strides, dilations and padding give, a channel per filter"""
        return infer(call, channel_axis) == (call.outputs[0].shape,)

    return (
        weighted_sum.three_operands,
        weighted_sum.one_kind_of_number,
        image_ranks,
        filters,
        window_attributes,
        output_shape,
        weighted_sum.one_scale_per_map,
        weighted_sum.weights_scaled_by_channel(channel_axis),
        sound_scales,
        weighted_sum.bias_per_channel,
        moved_in_32_bits("the scale of a product over that of the output", _multipliers),
        known_activation,
        activation_in_32_bits,
    )


def _multipliers(call: Call) -> tuple[Int64Array, Int64Array]:
    return convolution_multipliers(input_type(call), input_type(call, WEIGHTS), call.outputs[0])


def _kernel_on_npu(call: Call) -> bool:
    """on the NPU kernels are 1..255 high and wide"""
    return max(input_type(call, WEIGHTS).shape[1:3]) <= 255


def _rows_on_npu(call: Call) -> bool:
    """on the NPU padding above and below is less than the height of the dilated kernel"""
    extent = (input_type(call, WEIGHTS).shape[1] - 1) * call.attributes["dilations"][0] + 1
    # A tile of rows that see the padding below only would have to start beyond the feature map.
    return bool(max(call.attributes["padding"][0]) < extent)


NPU_RULES: tuple[Rule, ...] = (
    weighted_sum.quantized_maps,
    weighted_sum.constant_weights,
    _kernel_on_npu,
    limited(("strides",), 31),
    limited(("dilations",), 63),
    padding_on_npu,
    maps_on_npu,
    _rows_on_npu,
)


def reference(
    call: Call,
    values: Sequence[Array | None],
    weights: Array,
    of_codes: Callable[..., Array],
    of_reals: Callable[..., Array],
) -> list[Array]:
    """A convolution in numpy; `of_codes` and `of_reals` are the primitives of `npusim.isa.arithmetic.convolution`."""
    images, bias = input_value(values), weighted_sum.bias_value(values)
    ifm, window = input_type(call), window_of(call)
    if ifm.dtype == "float32":
        sums: Any = np.stack([of_reals(image, weights, **window) for image in images])
        return [weighted_sum.finish_reals(call, sums, bias)]
    zeros = quantization(ifm).zero_point, weighted_sum.weight_zero(call)
    accumulators: Any = np.stack([of_codes(image, weights, *zeros, **window) for image in images])
    return [weighted_sum.finish_codes(call, accumulators, bias, _multipliers(call), "double")]


def border(call: Call) -> int:
    """Outside the image a convolution reads its zero point."""
    return quantization(input_type(call)).zero_point if input_type(call).quantized8 else 0


def window(call: Call) -> SlidingWindow:
    """Height and width of the weights, and the steps of the window."""
    _, height, width, _ = input_type(call, WEIGHTS).shape
    down, right = call.attributes["strides"]
    return SlidingWindow((height, width), (down, right))
