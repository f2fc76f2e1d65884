"""Convolution whose taps are moved: each looks, with a weight of its own, somewhere between the pixels.

ifm [n, h, w, c], offsets [n, rows, columns, parts * taps * 2], masks [n, rows, columns, parts * taps], weights [o,
kernel h, kernel w, c / groups], optional bias [o] -> ofm [n, rows, columns, o]. The channels of the feature map fall
into as many parts as `parts` says; each has an offset (down, right) in pixels and a mask, its factor, for each tap of
each window. A tap reads its place by interpolation between four pixels, of which those outside are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Float64Array
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.geometry import window_shape
from npusim.kernels.operator.operands import (
    by_type,
    input_type,
    input_value,
    optional_type,
    optional_value,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Shapes, SlidingWindow, Values
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operator.rescale import limited
from npusim.kernels.operators.convolution import convolution

_IFM, _OFFSETS, _MASKS, _WEIGHTS, _BIAS = range(5)
_OPERATIONS_PER_TAP = 9  # four products and three sums of an interpolation, the mask, the place


class Parameters(convolution.Convolution):
    """parts: the number of groups of feature map channels that have offsets and masks of their own."""

    parts: Count = 1


def _groups(call: Call) -> int:
    return input_type(call).shape[3] // input_type(call, _WEIGHTS).shape[3]


def _infer(call: Call[Parameters]) -> Shapes:
    """Return the output shape from kernel, strides, dilations and padding."""
    channels, *kernel, _ = input_type(call, _WEIGHTS).shape
    rows, columns = window_shape(call, kernel, call.parameters.dilations)
    return ((input_type(call).shape[0], rows, columns, channels),)


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    image, offsets, masks, weights = (input_value(values, at).astype(np.float64) for at in range(_BIAS))
    parameters, taps = call.parameters, weights.shape[1] * weights.shape[2]
    images, height, width, depth = image.shape
    _, rows, columns, channels = call.outputs[0].shape
    by_part = image.reshape(images, height, width, parameters.parts, depth // parameters.parts)
    moved = offsets.reshape(images, rows, columns, parameters.parts, taps, 2)
    factors = masks.reshape(images, rows, columns, parameters.parts, taps, 1)
    places = product(range(weights.shape[1]), range(weights.shape[2]))
    sums = np.zeros((images, rows, columns, channels))
    for tap, (down, right) in enumerate(places):
        y = _begin(rows, parameters, 0, down)[:, None, None] + moved[..., tap, 0]
        x = _begin(columns, parameters, 1, right)[:, None] + moved[..., tap, 1]
        read = _interpolated(by_part, y, x) * factors[..., tap, :]
        sums += _times(read.reshape(images, rows, columns, depth), weights[:, down, right], _groups(call))
    if (bias := optional_value(values, _BIAS)) is not None:
        sums += bias.astype(np.float64).reshape(-1)
    return [limited(parameters.activation, sums).astype(np.float32)]


def _begin(count: int, parameters: Parameters, axis: int, tap: int) -> Float64Array:
    """Return where a tap of each window is along an axis before it is moved."""
    offset = tap * parameters.dilations[axis] - parameters.padding[axis][0]
    return np.arange(count, dtype=np.float64) * parameters.strides[axis] + offset


def _interpolated(image: Float64Array, y: Float64Array, x: Float64Array) -> Float64Array:
    """Interpolate [n, h, w, parts, c] at places [n, rows, columns, parts]; 0 outside the image."""
    images, height, width, parts, _ = image.shape
    number = np.arange(images)[:, None, None, None]
    part = np.arange(parts)
    top, left = np.floor(y), np.floor(x)
    total: Float64Array = np.zeros((*y.shape, image.shape[-1]))
    for row, column in product((0, 1), (0, 1)):
        at_y, at_x = top + row, left + column
        share = (1 - np.abs(y - at_y)) * (1 - np.abs(x - at_x))
        inside = (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
        rows, columns = (np.where(inside, at, 0).astype(np.int64) for at in (at_y, at_x))
        pixels = image[number, rows, columns, part]
        total += np.where(inside[..., None], pixels * share[..., None], 0.0)
    return total


def _times(pixels: Float64Array, weights: Float64Array, groups: int) -> Float64Array:
    """Multiply pixels [..., c] with weights [o, c / groups], group by group."""
    parts = zip(np.split(pixels, groups, axis=-1), np.split(weights, groups), strict=True)
    return np.concatenate([part @ of_group.T for part, of_group in parts], axis=-1)


def _workload(call: Call) -> Workload:
    """Return an interpolation for every element of each window, then its products, as elementwise work."""
    channels, height, width, depth = input_type(call, _WEIGHTS).shape
    ofm = call.outputs[0]
    constants = [
        tensor for at, tensor in enumerate(call.inputs) if tensor is not None and at in call.constants
    ]
    sizes = [tensor.size_bytes for tensor in call.inputs if tensor is not None]
    weight_bytes = sum(tensor.size_bytes for tensor in constants)
    read = ofm.elements // channels * height * width * input_type(call).shape[3]
    return Workload(
        kind="elementwise",
        dtype=input_type(call).element.rates,
        elements=read * _OPERATIONS_PER_TAP + ofm.elements * height * width * depth,
        weight_bytes=weight_bytes,
        input_bytes=sum(sizes) - weight_bytes,
        output_bytes=ofm.size_bytes,
    )


# Rules


def _operands(call: Call) -> bool:
    """takes a feature map, offsets, masks, weights and an optional bias, and gives one output"""
    present = len(call.inputs) in (4, 5) and None not in call.inputs[:4] and len(call.outputs) == 1
    return present and all(len(shape) == 4 for shape in _shapes(call))


def _shapes(call: Call) -> Sequence[tuple[int, ...]]:
    return [input_type(call, at).shape for at in range(_BIAS)]


def _filters(call: Call) -> bool:
    """weights are [output channels, height, width, input channels of a group], in groups of equal size"""
    shape, depth = input_type(call, _WEIGHTS).shape, input_type(call).shape[3]
    return min(shape) > 0 and depth > 0 and depth % shape[3] == 0 and shape[0] % _groups(call) == 0


def _output_shape(call: Call) -> bool:
    """the output has the shape that kernel, strides, dilations and padding give, a channel per filter"""
    return _infer(call) == (call.outputs[0].shape,) and min(call.outputs[0].shape[1:]) > 0


def _moved(call: Call[Parameters]) -> bool:
    """offsets and masks have two and one channels for each tap and part of the channels, and the output's pixels"""
    _, height, width, _ = input_type(call, _WEIGHTS).shape
    parts, places = call.parameters.parts, call.outputs[0].shape[:3]
    count = parts * height * width
    fits = _shapes(call)[_OFFSETS:_WEIGHTS] == [(*places, 2 * count), (*places, count)]
    return fits and input_type(call).shape[3] % parts == 0


def _bias(call: Call) -> bool:
    """the bias has one value per output channel"""
    bias = optional_type(call, _BIAS)
    return bias is None or bias.elements == call.outputs[0].shape[3]


def _window(call: Call[Parameters]) -> SlidingWindow:
    _, height, width, _ = input_type(call, _WEIGHTS).shape
    return SlidingWindow((height, width), call.parameters.strides)


REFERENCES = with_halves({"float32": _floats})

DEFORMABLE_CONV_2D = Operator(
    name="deformable_conv_2d",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(_operands, _filters, _output_shape, _moved, _bias),
    infer=_infer,
    reference=by_type(REFERENCES),
    workload=_workload,
    window=_window,
    on_host="where it reads depends on values",
)

OPERATORS = (DEFORMABLE_CONV_2D,)
