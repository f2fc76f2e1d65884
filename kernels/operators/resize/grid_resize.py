"""Images resized by a factor per axis: bilinear and nearest neighbour."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, gcd, inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.resize import POSITION_BITS, positions
from npusim.kernels.lowering.reduction_work import codes_or_truths
from npusim.kernels.lowering.resize_work import Line, line_before, line_through, resize_work
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE, alike
from npusim.kernels.operator.geometry import maps_on_npu
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, move, with_halves
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size
from npusim.kernels.operators.tables.lookup import round_half_away

_MOST_STEP = 255
"""Maximum difference of neighbouring quantized values.

The error of an interpolated value is at most this times the error of its position.
"""
_ROUNDING = 1e-3
"""A bound of all roundings of products and sums, of float32 and of the instruction: 255 x 12 x 2**-24."""


class ExactAxis(NamedTuple):
    """Positions along one axis: the nearest line, q, and the largest distance in pixels of line and float32."""

    line: Line
    denominator: int
    off: float


def exact_axis(
    size: int, count: int, corners: bool, centers: bool, in_float32: NDArray[np.float64]
) -> ExactAxis:
    """Return `count` output pixels from `size` input pixels; `in_float32` are the positions as the kernel computes
    them.
    """
    numbers, divisor = np.arange(count, dtype=np.int64), count
    places = numbers * size
    if corners and count > 1:
        places, divisor = numbers * (size - 1), count - 1
    elif centers:
        places, divisor = (2 * numbers + 1) * size - count, 2 * count
    step = int(places[1] - places[0]) if count > 1 else 0
    line = Line(_rounded(step, divisor), _rounded(int(places[0]), divisor))
    inside = np.clip(places, 0, (size - 1) * divisor)
    exact = inside / divisor
    on_line = positions(count, *line, size) / float(1 << POSITION_BITS)
    off = max(np.abs(on_line - exact).max(), np.abs(np.clip(in_float32, 0, size - 1) - exact).max())
    return ExactAxis(line, divisor // gcd(divisor, int(np.gcd.reduce(inside))), float(off))


def _rounded(numerator: int, divisor: int) -> int:
    """Return a quotient rounded to a multiple of 1/2**POSITION_BITS, in these units."""
    return ((numerator << POSITION_BITS) + divisor // 2) // divisor


def tie_free(rows: ExactAxis, columns: ExactAxis) -> bool:
    """Return True if line and float32 certainly give the same quantized values."""
    together = rows.denominator * columns.denominator
    off = _MOST_STEP * (rows.off + columns.off) + _ROUNDING
    return together % 2 == 1 and 2 * together * off < 1


Numbers = NDArray[Any]

_TAPS = 4
_FRACTION_BITS = 10
_REAL_BITS = 24
"""Bits of a float32: sums of quantized values times weights of no more bits are exact."""


class Resizing(parameters.Parameters):
    """Parameters of a resize: height and width of the output, and which pixels lie on each other.

    align_corners: those in the corners; half_pixel_centers: those in the middle, pixels having their centres at halves.
    steps: pixels of the input from one of the output to the next, down and right, where sizes do not say so.
    """

    size: tuple[Size, Size]
    align_corners: bool = False
    half_pixel_centers: bool = False
    steps: tuple[float, float] | None = None


class Axis(NamedTuple):
    """For each output position of one axis, the pixels below and above, and the weight of each."""

    below: NDArray[np.int64]
    above: NDArray[np.int64]
    weight_below: Numbers
    weight_above: Numbers


def _integer_axis(call: Call[Resizing], axis: int) -> Axis:
    """Return the positions with 10 fraction bits; weights are integers that add up to 1024."""
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    one, divisor = 1 << _FRACTION_BITS, count
    if call.parameters.align_corners and count > 1:
        size, divisor = size - 1, count - 1
    scale = (size * one + divisor // 2) // divisor
    if call.parameters.steps is not None:
        scale = floor(call.parameters.steps[axis - 1] * one + 0.5)
    position = np.arange(count, dtype=np.int64) * scale
    if call.parameters.half_pixel_centers:
        position = position + (scale // 2 - one // 2)
    last = input_type(call).shape[axis] - 1
    below = np.clip(position // one, 0, last)
    above = np.clip(-(-position // one), 0, last)
    weight_above = position - below * one
    return Axis(below, above, one - weight_above, weight_above)


def _float_axis(call: Call[Resizing], axis: int) -> Axis:
    """Return the positions and weights in float32."""
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    scale = float_step(call, axis)
    position = np.arange(count, dtype=np.float32)
    if call.parameters.half_pixel_centers:
        position = (position + np.float32(0.5)) * scale - np.float32(0.5)
    else:
        position = position * scale
    below = np.clip(np.floor(position).astype(np.int64), 0, size - 1)
    above = np.clip(np.ceil(position).astype(np.int64), 0, size - 1)
    weight_above = position - below.astype(np.float32)
    return Axis(below, above, np.float32(1) - weight_above, weight_above)


def float_step(call: Call[Resizing], axis: int) -> np.float32:
    """Return the distance in input pixels from one output pixel to the next, in float32."""
    parameters = call.parameters
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    if parameters.steps is not None:
        return np.float32(parameters.steps[axis - 1])
    if parameters.align_corners and count > 1:
        return np.float32(size - 1) / np.float32(count - 1)
    return np.float32(size) / np.float32(count)


def _interpolate(
    call: Call[Resizing], x: Numbers, rows: Axis, columns: Axis, finish: Callable[[Numbers], Numbers]
) -> list[Array]:
    """Return output rows [batch, width, channels] one by one: weighted pixels, added in LiteRT's order."""
    output = call.outputs[0]
    left, right = columns.weight_below[:, None], columns.weight_above[:, None]
    result = np.empty(output.shape, output.numpy_dtype)
    for row in range(output.shape[1]):
        upper, lower = x[:, rows.below[row]], x[:, rows.above[row]]
        total: Numbers = upper[:, columns.below] * rows.weight_below[row] * left
        total += lower[:, columns.below] * rows.weight_above[row] * left
        total += upper[:, columns.above] * rows.weight_below[row] * right
        total += lower[:, columns.above] * rows.weight_above[row] * right
        result[:, row] = finish(total)
    return [result]


def _integers(call: Call[Resizing], values: Values) -> list[Array]:
    x: Numbers = input_value(values).astype(np.int32)
    return _interpolate(call, x, _integer_axis(call, 1), _integer_axis(call, 2), _without_fraction)


def _on_lines(call: Call[Resizing]) -> tuple[Line, Line] | None:
    """Return the lines on which rows and columns lie, such that the NPU gives the kernel's quantized values.

    None if there are none.
    """
    if input_type(call).dtype == "int8":
        rows, columns = (_integer_line(call, axis) for axis in (1, 2))
        return None if rows is None or columns is None else (rows, columns)
    rows, columns = (_short_line(call, axis) for axis in (1, 2))
    if rows is not None and columns is not None and _digits(rows) + _digits(columns) <= _REAL_BITS - 8:
        return rows, columns
    if call.parameters.steps is not None:
        return None
    first, second = (_exact_axis(call, axis) for axis in (1, 2))
    return (first.line, second.line) if tie_free(first, second) else None


def _integer_line(call: Call[Resizing], axis: int) -> Line | None:
    taps = _integer_axis(call, axis)
    return line_through(_fixed(taps.below, taps.weight_above))


def _short_line(call: Call[Resizing], axis: int) -> Line | None:
    """Return the line of float32 positions that are multiples of 1/1024; None for others."""
    taps = _float_axis(call, axis)
    fractions = taps.weight_above.astype(np.float64) * (1 << _FRACTION_BITS)
    if not np.array_equal(fractions, np.rint(fractions)):
        return None
    return line_through(_fixed(taps.below, fractions.astype(np.int64)))


def _fixed(pixels: NDArray[np.int64], fractions: Numbers) -> NDArray[np.int64]:
    """Return the positions as instructions have them, from pixels and fractions in 1/1024."""
    return (pixels * (1 << _FRACTION_BITS) + fractions) << (POSITION_BITS - _FRACTION_BITS)


def _exact_axis(call: Call[Resizing], axis: int) -> ExactAxis:
    taps, parameters = _float_axis(call, axis), call.parameters
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    in_float32 = taps.below.astype(np.float64) + taps.weight_above.astype(np.float64)
    return exact_axis(size, count, parameters.align_corners, parameters.half_pixel_centers, in_float32)


def _exact(call: Call[Resizing]) -> bool:
    """on the NPU uint8 results, which LiteRT rounds from float32, are never near a tie, or all exact in few bits"""
    return _on_lines(call) is not None


def _digits(line: Line) -> int:
    """Return the fraction bits that positions on a line need."""
    together = line.scale | line.offset | 1 << POSITION_BITS
    return POSITION_BITS + 1 - (together & -together).bit_length()


def _bilinear_lower(call: Call[Resizing], hardware: Hardware) -> Parts:
    lines = _on_lines(call)
    if lines is None:
        raise ValueError("positions are rounded differently in float32; the operator's rules should refuse")
    return resize_work(call, True, *lines)


def _without_fraction(totals: Numbers) -> Numbers:
    """Round half away from zero, from twice the fraction bits of an axis."""
    half = 1 << (2 * _FRACTION_BITS - 1)
    rounded: Numbers = np.sign(totals) * ((np.abs(totals) + half) >> (2 * _FRACTION_BITS))
    return rounded


def _floats(call: Call[Resizing], values: Values) -> list[Array]:
    return _of_floats(call, values, lambda totals: totals)


def _rounded_floats(call: Call[Resizing], values: Values) -> list[Array]:
    return _of_floats(call, values, lambda totals: np.trunc(totals + np.float32(0.5)))


def _of_floats(call: Call[Resizing], values: Values, finish: Callable[[Numbers], Numbers]) -> list[Array]:
    x: Numbers = input_value(values).astype(np.float32)
    return _interpolate(call, x, _float_axis(call, 1), _float_axis(call, 2), finish)


def _workload(call: Call) -> Workload:
    return elementwise(call, _TAPS * call.outputs[0].elements)


def infer(call: Call[Resizing]) -> Shapes:
    """Return the new size, for as many images and channels."""
    images, _, _, channels = input_type(call).shape
    return ((images, *call.parameters.size, channels),)


def images(call: Call[Resizing]) -> bool:
    """input and output are [batch, height, width, channels] and differ in height and width only, which size says"""
    return len(input_type(call).shape) == 4 and infer(call) == (call.outputs[0].shape,)


def some_pixels(call: Call) -> bool:
    """height and width of input and output are 1 or more"""
    return min(*input_type(call).shape[1:3], *call.outputs[0].shape[1:3]) > 0


def corners_or_centers(call: Call[Resizing]) -> bool:
    """align_corners and half_pixel_centers are not both true"""
    return not (call.parameters.align_corners and call.parameters.half_pixel_centers)


def steps_forward(call: Call[Resizing]) -> bool:
    """steps are above 0, and absent with align_corners, which determines them"""
    steps = call.parameters.steps
    return steps is None or (all(0 < step < inf for step in steps) and not call.parameters.align_corners)


REFERENCES = with_halves(
    {"int8": _integers, "uint8": _rounded_floats, "int16": _integers, "float32": _floats}
)

RESIZE_BILINEAR = Operator(
    name="resize_bilinear",
    parameters=Resizing,
    types=alike(*REFERENCES),
    rules=(
        rules.operands(1),
        rules.per_tensor,
        images,
        some_pixels,
        corners_or_centers,
        steps_forward,
    ),
    infer=infer,
    reference=by_type(REFERENCES),
    workload=_workload,
    lowerings=(Lowering("vector", (rules.eight_bit, maps_on_npu, _exact), _bilinear_lower),),
)
"""Height and width changed by linear interpolation between the four nearest pixels.

LiteRT computes int8 in integers with 10 fraction bits per axis, uint8 and float32 in float32.
"""


ResizeNearestNeighborParameters = Resizing


def _nearest(call: Call[ResizeNearestNeighborParameters], axis: int) -> NDArray[np.int64]:
    """Return the input position of each output position along one axis, in float32 steps."""
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    corners, scale = call.parameters.align_corners, float_step(call, axis)
    offset = np.float32(0.5 if call.parameters.half_pixel_centers else 0)
    position = (np.arange(count, dtype=np.float32) + offset) * scale
    nearest = round_half_away(position) if corners else np.floor(position).astype(np.int64)
    return np.clip(nearest, 0, size - 1)


def _reference(call: Call[ResizeNearestNeighborParameters], values: Values) -> list[Array]:
    rows, columns = _nearest(call, 1), _nearest(call, 2)
    return [np.ascontiguousarray(input_value(values)[:, rows[:, None], columns])]


def _line(call: Call[ResizeNearestNeighborParameters], axis: int) -> Line | None:
    return line_before(_nearest(call, axis), input_type(call).shape[axis])


def regular(call: Call[ResizeNearestNeighborParameters]) -> bool:
    """on the NPU the nearest pixels are evenly spaced to 20 fraction bits"""
    return _line(call, 1) is not None and _line(call, 2) is not None


def _nearest_lower(call: Call[ResizeNearestNeighborParameters], hardware: Hardware) -> Parts:
    rows, columns = _line(call, 1), _line(call, 2)
    if rows is None or columns is None:
        raise ValueError("the nearest pixels are not evenly spaced; the operator's rules should refuse")
    return resize_work(call, False, rows, columns)


RESIZE_NEAREST_NEIGHBOR = Operator(
    name="resize_nearest_neighbor",
    parameters=ResizeNearestNeighborParameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), images, some_pixels, corners_or_centers, steps_forward),
    infer=infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("vector", (codes_or_truths, maps_on_npu, regular), _nearest_lower),),
)
"""Height and width changed by repeating or dropping pixels."""


OPERATORS = (
    RESIZE_BILINEAR,
    RESIZE_NEAREST_NEIGHBOR,
)
