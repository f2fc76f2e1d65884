"""What average and maximum pooling share: rules, and combining the elements of each window.

ifm [n, h, w, c] -> ofm [n, rows, columns, c]. Attributes: filter and strides (height, width), padding
((top, bottom), (left, right)), activation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.workload import Workload
from npusim.kernels import rules
from npusim.kernels.activation import activation_in_32_bits, known_activation
from npusim.kernels.geometry import (
    image_ranks,
    limited,
    maps_on_npu,
    padding_on_npu,
    window_attributes,
    window_shape,
)
from npusim.kernels.operands import elementwise, input_type, quantization
from npusim.kernels.operator import Call, Rule, SlidingWindow
from npusim.kernels.rescale import sound_scales


def _output_shape(call: Call) -> bool:
    """the output has the shape that filter, strides and padding give"""
    ifm, ofm = input_type(call).shape, call.outputs[0].shape
    return ofm == (ifm[0], *window_shape(call.attributes["filter"], call), ifm[3])


def _padding_below_filter(call: Call) -> bool:
    """padding is smaller than the filter, so that every window sees the image"""
    pairs = zip(call.attributes["padding"], call.attributes["filter"], strict=True)
    return all(max(padding) < size for padding, size in pairs)


def _one_scale(call: Call) -> bool:
    """8-bit input and output have one zero point and one scale (to 1e-6): pooling does not rescale"""
    if input_type(call).dtype == "float32":
        return True
    ifm, ofm = quantization(input_type(call)), quantization(call.outputs[0])
    return ifm.zero_point == ofm.zero_point and abs(ifm.scale - ofm.scale) <= 1e-6


RULES: tuple[Rule, ...] = (
    rules.operands(1),
    rules.computes_on("int8", "uint8", "float32"),
    rules.same_type,
    image_ranks,
    window_attributes,
    _output_shape,
    _padding_below_filter,
    sound_scales,
    _one_scale,
    known_activation,
    activation_in_32_bits,
)

NPU_RULES: tuple[Rule, ...] = (
    rules.eight_bit,
    limited(("filter",), 255),
    limited(("strides",), 31),
    padding_on_npu,
    maps_on_npu,
)


def combine_windows(
    values: NDArray[Any], call: Call, combine: np.ufunc, padding_value: int | float
) -> NDArray[Any]:
    """Combine the elements of each window, [n, h, w, c] -> [n, rows, columns, c] of the same dtype.

    First along the height, then along the width: as many passes as the sum of the filter's sizes, not their
    product.
    """
    padding = ((0, 0), *call.attributes["padding"], (0, 0))
    result = np.pad(values, padding, constant_values=padding_value)
    for axis in (1, 2):
        kernel, stride, count = _axis(call, axis)
        combined = _every(result, axis, 0, stride, count).copy()
        for start in range(1, kernel):
            combine(combined, _every(result, axis, start, stride, count), out=combined)
        result = combined
    return result


def elements_seen(call: Call) -> NDArray[np.int32]:
    """How many elements of the image each window sees: [rows, columns, 1]."""
    counts = []
    for axis in (1, 2):
        kernel, stride, count = _axis(call, axis)
        first = np.arange(count) * stride - call.attributes["padding"][axis - 1][0]
        last = np.minimum(first + kernel, input_type(call).shape[axis])
        counts.append((last - np.maximum(first, 0)).astype(np.int32))
    rows, columns = counts
    seen: NDArray[np.int32] = rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]
    return seen


def _axis(call: Call, axis: int) -> tuple[int, int, int]:
    """Filter size, stride and output size along axis 1 (height) or 2 (width)."""
    attributes = call.attributes
    return attributes["filter"][axis - 1], attributes["strides"][axis - 1], call.outputs[0].shape[axis]


def _every(values: NDArray[Any], axis: int, start: int, stride: int, count: int) -> NDArray[Any]:
    """`count` positions along `axis`, from `start` on in steps of `stride`."""
    part = [slice(None)] * values.ndim
    part[axis] = slice(start, start + (count - 1) * stride + 1, stride)
    return values[tuple(part)]


def workload(call: Call) -> Workload:
    """One elementwise step per element read, windows that overlap counted as often as they do."""
    height, width = call.attributes["filter"]
    return elementwise(call, call.outputs[0].elements * int(height * width))


def window(call: Call) -> SlidingWindow:
    """The filter, and its steps."""
    (height, width), (down, right) = call.attributes["filter"], call.attributes["strides"]
    return SlidingWindow((height, width), (down, right))
