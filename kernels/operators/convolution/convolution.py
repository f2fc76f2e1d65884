"""Rules, window and references that conv_2d and depthwise_conv_2d share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import numpy as np

from npusim.isa.base.tensor import Array, Float64Array, Int32Array
from npusim.kernels.operator import dynamic_range, rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.geometry import (
    Window,
    image_ranks,
    limited,
    maps_on_npu,
    padding_on_npu,
    window_shape,
)
from npusim.kernels.operator.operands import input_type, input_value, quantization, weight_zero
from npusim.kernels.operator.operator import Arithmetic, Call, Lowering, Rule, Shapes, SlidingWindow, Values
from npusim.kernels.operator.parameters import Pair
from npusim.kernels.operator.rescale import (
    activation_in_32_bits,
    moved_in_32_bits,
    sound_scales,
)
from npusim.kernels.operators.convolution import exact_sum, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS, channel_multipliers


class Convolution(Window):
    """Parameters of a convolution: strides of the window and dilations inside it, by (height, width)."""

    dilations: Pair = (1, 1)


class Geometry(TypedDict):
    """A window as the arguments of `npusim.isa.arithmetic.convolution`, (height, width) each."""

    strides: Pair
    dilations: Pair
    pads: Pair
    output_shape: Pair


def geometry(call: Call[Convolution]) -> Geometry:
    """Return the window of a call; padding below and to the right follows from the shape of the output."""
    _, rows, columns, _ = call.outputs[0].shape
    (top, _), (left, _) = call.parameters.padding
    return Geometry(
        strides=call.parameters.strides,
        dilations=call.parameters.dilations,
        pads=(top, left),
        output_shape=(rows, columns),
    )


def infer(call: Call[Convolution], channel_axis: int) -> Shapes:
    """Return the output shape from kernel, strides, dilations and padding.

    `channel_axis` of the weights holds the output channels.
    """
    weights = input_type(call, WEIGHTS).shape
    rows, columns = window_shape(call, weights[1:3], call.parameters.dilations)
    return ((input_type(call).shape[0], rows, columns, weights[channel_axis]),)


def rules_of(filters: Rule, channel_axis: int) -> tuple[Rule, ...]:
    """Return the rules of a convolution; `filters` is the one for the shape of its weights [., height, width, .].

    `channel_axis` is the dimension of the weights that holds the output channels.
    """

    return (
        *_shapes(filters, channel_axis),
        weighted_sum.one_scale_per_map,
        rules.symmetric,
        weighted_sum.weights_scaled_by_channel(channel_axis),
        sound_scales,
        weighted_sum.bias_per_channel,
        moved_in_32_bits("input scale * weight scale / output scale", channel_multipliers),
        weighted_sum.shifted_in_64_bits(channel_multipliers),
        activation_in_32_bits,
    )


def _shapes(filters: Rule, channel_axis: int) -> tuple[Rule, ...]:
    output_shape = rules.inferred(
        lambda call: infer(call, channel_axis),
        "the output has the shape that kernel, strides, dilations and padding give, a channel per filter",
    )
    return weighted_sum.three_operands, image_ranks, filters, output_shape


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
    """Return a convolution of 8-bit values; `convolve` is the primitive of `npusim.isa.arithmetic.convolution`."""
    sums = _sums_of_codes(call, input_value(values), weights, convolve)
    return [
        weighted_sum.finish_codes(
            call, sums, weighted_sum.bias_value(values), channel_multipliers(call), "double"
        )
    ]


def of_wide_codes(
    call: Call[Convolution], values: Values, weights: Array, convolve: Callable[..., Array]
) -> list[Array]:
    """Return a convolution of int16 values with int8 weights; `convolve` is the primitive in float64."""
    images, filters = input_value(values).astype(np.float64), weights.astype(np.float64)
    sums = _sums_of_floats(call, images, filters - weight_zero(call), convolve)
    return [weighted_sum.finish_sums(call, sums, weighted_sum.bias_value(values), channel_multipliers(call))]


def _sums_of_codes(call: Call, images: Array, weights: Array, convolve: Callable[..., Array]) -> Int32Array:
    zeros = quantization(input_type(call)).zero_point, weight_zero(call)
    sums = np.empty(call.outputs[0].shape, np.int32)
    for image, target in zip(images, sums, strict=True):
        target[...] = convolve(image, weights, *zeros, **geometry(call))
    return sums


def of_floats(
    call: Call[Convolution], values: Values, weights: Array, convolve: Callable[..., Array]
) -> list[Array]:
    """Return a convolution of float values; `convolve` is the primitive of `npusim.isa.arithmetic.convolution`."""
    sums = _sums_of_floats(call, input_value(values), weights, convolve)
    return [weighted_sum.finish_floats(call, sums, weighted_sum.bias_value(values))]


def _sums_of_floats(
    call: Call, images: Array, weights: Array, convolve: Callable[..., Array]
) -> Float64Array:
    sums = np.empty(call.outputs[0].shape, np.float64)
    for image, target in zip(images, sums, strict=True):
        target[...] = convolve(image, weights, **geometry(call))
    return sums


Primitive = Callable[[Call], Callable[..., Array]]
"""Gives the primitive of `npusim.isa.arithmetic.convolution` that computes a call."""


def arithmetics(
    filters: Rule,
    channel_axis: int,
    of_codes: Primitive,
    of_floats: Primitive,
    taken: Callable[[Array], Array],
    lowerings: tuple[Lowering, ...],
    depthwise: bool = False,
) -> tuple[Arithmetic, ...]:
    """Return the arithmetics beside the fixed-point one: exact sums, and dynamic range.

    taken:     gives the weights as the primitives have them.
    lowerings: how the NPU computes exact sums.
    """
    fits = exact_sum.sums_in_32_bits(products, channel_axis)

    def reference(call: Call, values: Values) -> list[Array]:
        sums = exact_sum.exact_sums(
            call,
            values,
            lambda x, w: _sums_of_floats(call, x, taken(w), of_floats(call)),
            (lambda x, w: _sums_of_codes(call, x, taken(w), of_codes(call))) if fits(call) else None,
        )
        return [exact_sum.finish(call, sums, weighted_sum.bias_value(values))]

    exact = Arithmetic(("float32",), exact_sum.TYPES, own_rules(filters, channel_axis), reference, lowerings)
    return exact, _dynamic_range(filters, channel_axis, of_codes, taken, depthwise)


def _dynamic_range(
    filters: Rule,
    channel_axis: int,
    of_codes: Primitive,
    taken: Callable[[Array], Array],
    depthwise: bool,
) -> Arithmetic:
    """Return a convolution of float32 maps, each an image that is quantized as one row at run time, with int8 weights.

    LiteRT has two kernels, which round the product of the scales differently. Convolutions whose scales are all equal
    take the one with symmetric rows, unless they have groups or are depthwise.
    """

    def by_channel(call: Call) -> bool:
        weights = input_type(call, WEIGHTS)
        one_scale = (
            len(set(quantization(weights).scales)) == 1 and weights.shape[3] == input_type(call).shape[3]
        )
        return depthwise or not one_scale

    def reference(call: Call, values: Values) -> list[Array]:
        maps, scales = input_value(values), dynamic_range.scales_of(input_type(call, WEIGHTS))
        asymmetric, convolve, filters = by_channel(call), of_codes(call), taken(input_value(values, WEIGHTS))
        rows = dynamic_range.quantized_rows(maps.reshape(len(maps), -1), asymmetric)
        sums = np.empty(call.outputs[0].shape, np.float32)
        for number, target in enumerate(sums):
            image = rows.values[number].reshape(maps.shape[1:])
            target[...] = convolve(image, filters, int(rows.zero_points[number]), 0, **geometry(call))
        factors = rows.scales[:, None, None, None]
        in_turn = asymmetric and not depthwise
        products = sums * scales * factors if in_turn else sums * (scales * factors)
        return dynamic_range.finish(call, products, weighted_sum.bias_value(values))

    def expand(call: Call[Convolution]) -> Expansion | None:
        weights = dynamic_range.known_weights(call)
        if weights is None:
            return None
        parameters = call.parameters.changed(activation="none", rescale="fixed_point")
        product = "depthwise_conv_2d" if depthwise else "conv_2d", call.outputs[0].shape, parameters
        asymmetric = by_channel(call)
        in_turn = asymmetric and not depthwise
        return dynamic_range.in_steps(call, (1, 2, 3), weights, product, asymmetric, in_turn)

    def scales_of_groups(call: Call) -> bool:
        """int8 filters of groups or of single channels have a scale per channel beside a float32 feature map"""
        weights = input_type(call, WEIGHTS)
        whole = not depthwise and weights.shape[3] == input_type(call).shape[3]
        return whole or len(quantization(weights).scales) == weights.shape[channel_axis]

    rules = (
        *_shapes(filters, channel_axis),
        dynamic_range.symmetric_weights(channel_axis),
        scales_of_groups,
        weighted_sum.bias_per_channel,
    )
    return dynamic_range.arithmetic(weighted_sum.DYNAMIC_RANGE_TYPES, rules, reference, expand)


def products(call: Call) -> int:
    """Return the maximum number of products in a sum of a convolution; weights are [., height, width, .]."""
    weights = input_type(call, WEIGHTS)
    return weights.elements // max(call.outputs[0].shape[3], 1)


def own_rules(filters: Rule, channel_axis: int) -> tuple[Rule, ...]:
    """Return the rules of a convolution of exact sums (rescale "float32")."""
    return (*_shapes(filters, channel_axis), *exact_sum.rules(products, channel_axis))


def wide_sums_fit(channel_axis: int) -> Rule:
    """Return the rule that the output stage holds sums of int16 values."""
    return weighted_sum.wide_sums_fit(channel_axis, channel_multipliers)


def fits_on_npu(channel_axis: int) -> Rule:
    """Return the rule that exact sums do not wrap in the MAC array."""
    return exact_sum.sums_in_32_bits(products, channel_axis)


def border(call: Call) -> int:
    """Return the value outside the image: the zero point."""
    return quantization(input_type(call)).zero_point if input_type(call).quantized8 else 0


def window(call: Call[Convolution]) -> SlidingWindow:
    """Return height and width of the weights, and the strides."""
    _, height, width, _ = input_type(call, WEIGHTS).shape
    return SlidingWindow((height, width), call.parameters.strides)
