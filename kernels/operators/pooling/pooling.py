"""What average and maximum pooling share: rules, and combining the elements of each window.

ifm [n, h, w, c] -> ofm [n, rows, columns, c].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import IntArray
from npusim.isa.base.workload import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.real import lower_real_pool, on_real_lanes
from npusim.kernels.lowering.vector import int16_passes
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.activation import activation_in_32_bits
from npusim.kernels.operator.fused import in_fixed_point
from npusim.kernels.operator.geometry import (
    Window,
    image_ranks,
    limited,
    maps_on_npu,
    padding_on_npu,
    window_shape,
)
from npusim.kernels.operator.operands import elementwise, input_type, quantization
from npusim.kernels.operator.operator import (
    FIXED_POINT,
    ROOM,
    Call,
    Lowering,
    Need,
    Rule,
    Shapes,
    SlidingWindow,
    need,
)
from npusim.kernels.operator.parameters import NO_BORDERS, Border, Borders, Pair, Rescale
from npusim.kernels.operator.rescale import sound_scales


class Pooling(Window):
    """Parameters of a pool: its window, (height, width), and how it moves."""

    filter: Pair


def infer(call: Call[Pooling]) -> Shapes:
    """What filter, strides and padding give."""
    images, _, _, channels = input_type(call).shape
    return ((images, *window_shape(call, call.parameters.filter), channels),)


def _output_shape(call: Call) -> bool:
    """the output has the shape that filter, strides and padding give"""
    return infer(call) == (call.outputs[0].shape,)


def _padding_below_filter(call: Call[Pooling]) -> bool:
    """padding is smaller than the filter, so that every window sees the image"""
    pairs = zip(call.parameters.padding, call.parameters.filter, strict=True)
    return all(max(padding) < size for padding, size in pairs)


def one_scale(call: Call) -> bool:
    """8-bit input and output have one zero point and one scale (to 1e-6): pooling does not rescale"""
    if input_type(call).real:
        return True
    ifm, ofm = quantization(input_type(call)), quantization(call.outputs[0])
    return ifm.zero_point == ofm.zero_point and abs(ifm.scale - ofm.scale) <= 1e-6


RULES: tuple[Rule, ...] = (
    rules.operands(1),
    rules.per_tensor,
    image_ranks,
    _output_shape,
    _padding_below_filter,
    sound_scales,
    in_fixed_point(one_scale),
    activation_in_32_bits,
)

NPU_RULES: tuple[Rule, ...] = (
    rules.eight_bit,
    limited(("filter",), 255),
    limited(("strides",), 31),
    padding_on_npu,
    maps_on_npu,
)


@need(ROOM)
def rows_fit(call: Call[Pooling], hardware: Hardware) -> bool:
    """room in the scratchpad for the rows that one row of windows sees"""
    ifm = input_type(call)
    rows = int(seen(call, 1)[1].max(initial=0))
    return rows * ifm.shape[2] * ifm.shape[3] * ifm.numpy_dtype.itemsize <= hardware.scratchpad_bytes


def npu_lowering(
    lower: Callable[[Call, Hardware], Parts],
    *more: Rule,
    needs: tuple[Need, ...] = (),
    rescales: tuple[Rescale, ...] = FIXED_POINT,
) -> Lowering:
    """A pool of codes on the vector unit."""
    return Lowering("vector", (*NPU_RULES, *more), lower, (rows_fit, *needs), rescales)


def on_int16(lower: Callable[[Call, Hardware], Parts], *more: Rule) -> Lowering:
    """A pool of int16 values on the vector unit."""
    row = npu_lowering(lower, *more, needs=(int16_passes,))
    return row._replace(rules=(rules.all_int16, *row.rules[1:]))


def combine_windows(values: NDArray[Any], call: Call[Pooling], combine: np.ufunc) -> NDArray[Any]:
    """Combine the elements of each window that lie in the image, [n, h, w, c] -> [n, rows, columns, c], same dtype.

    First along the height, then along the width. Windows are cut to the image, which may be much smaller than they
    are; every one sees some of it.
    """
    result = values
    for axis in (1, 2):
        result = combine_runs(result, axis, *seen(call, axis), combine)
    return result


def combine_runs(
    values: NDArray[Any], axis: int, first: IntArray, lengths: IntArray, combine: np.ufunc
) -> NDArray[Any]:
    """`lengths` elements from `first` on along an axis, combined, for each window.

    By doubling: what 1, 2, 4, ... elements from each position on combine to. The binary digits of a window's length
    say which of these make it up, so the passes are as many as digits and not as elements.
    """
    values = np.moveaxis(values, axis, 0)
    result, begun = np.empty((len(first), *values.shape[1:]), values.dtype), np.zeros(len(first), bool)
    position, doubled = first.copy(), values
    for digit in range(int(lengths.max()).bit_length()):
        if digit:
            half = 1 << (digit - 1)
            doubled = combine(doubled[:-half], doubled[half:])
        chosen = (lengths >> digit & 1).astype(bool)
        fresh, more = chosen & ~begun, chosen & begun
        result[fresh] = doubled[position[fresh]]
        result[more] = combine(result[more], doubled[position[more]])
        begun |= chosen
        position[chosen] += 1 << digit
    return np.moveaxis(result, 0, axis)


def sums_in_order(values: NDArray[np.float32], call: Call[Pooling], by_columns: bool) -> NDArray[np.float32]:
    """The elements of each window that lie in the image, added up in float32 one after the other: row by row, or each
    column from the top and then the columns from the left.
    """
    images, rows, columns, channels = call.outputs[0].shape
    result = np.zeros((images, rows, columns, channels), np.float32)
    down, across = (_taps(call, axis) for axis in (1, 2))
    if not by_columns:
        for windows, lines in down:
            for places, pixels in across:
                result[np.ix_(np.arange(images), windows, places)] += values[:, lines][:, :, pixels]
        return result
    for places, pixels in across:
        column = np.zeros((images, rows, len(places), channels), np.float32)
        for windows, lines in down:
            column[:, windows] += values[:, lines][:, :, pixels]
        result[:, :, places] += column
    return result


def _taps(call: Call[Pooling], axis: int) -> list[tuple[IntArray, IntArray]]:
    """For each element of a window along an axis the windows that see it in the image, and where it lies."""
    window, size = call.parameters, input_type(call).shape[axis]
    begin = np.arange(call.outputs[0].shape[axis]) * window.strides[axis - 1] - window.padding[axis - 1][0]
    least, most = max(0, -int(begin.max())), min(window.filter[axis - 1], size - int(begin.min()))
    found: list[tuple[IntArray, IntArray]] = []
    for element in range(least, most):
        places = begin + element
        seen_by = np.flatnonzero((places >= 0) & (places < size))
        found.append((seen_by, places[seen_by]))
    return found


def elements_seen(call: Call[Pooling], counted: Borders = NO_BORDERS) -> NDArray[np.int32]:
    """How many elements of the image and of the borders around it each window sees: [rows, columns, 1]."""
    rows, columns = (seen(call, axis, counted[axis - 1])[1].astype(np.int32) for axis in (1, 2))
    elements: NDArray[np.int32] = rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]
    return elements


def seen(call: Call[Pooling], axis: int, border: Border = (0, 0)) -> tuple[IntArray, IntArray]:
    """The first element that each window sees along axis 1 (height) or 2 (width), and how many it sees, of the image
    with a border before and behind.
    """
    window = call.parameters
    first = np.arange(call.outputs[0].shape[axis]) * window.strides[axis - 1]
    first -= window.padding[axis - 1][0]
    last = np.minimum(first + window.filter[axis - 1], input_type(call).shape[axis] + border[1])
    first = np.maximum(first, -border[0])
    return first, last - first


def workload(call: Call[Pooling]) -> Workload:
    """One elementwise step per element of the image read, windows that overlap counted as often as they do."""
    images, _, _, channels = input_type(call).shape
    height, width = (int(seen(call, axis)[1].sum()) for axis in (1, 2))
    return elementwise(call, images * channels * height * width)


def window(call: Call[Pooling]) -> SlidingWindow:
    """The filter, and its steps."""
    return SlidingWindow(call.parameters.filter, call.parameters.strides)


def on_lanes(name: str, *more: Rule) -> Lowering:
    """A pool of real numbers on the real lanes: "average", "maximum" or "l2"."""
    return on_real_lanes(lambda call: lower_real_pool(call, name), *NPU_RULES[1:], *more, needs=(rows_fit,))
