"""Images sampled at given points, or interpolated along their axes."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Float32Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes
from npusim.kernels.operators.movement.indexing import checked

_OPERATIONS_PER_PIXEL = 8  # four products and sums


class GridSampleParameters(parameters.Parameters):
    """outside: what lies beyond the image: zeros, the pixels at its edge, or itself reflected there.

    nearest:       the nearest pixel, of two the one further from the first, instead of interpolation.
    align_corners: -1 and 1 are the centres of the pixels in the corners, otherwise their outer edges, and the image is
                   reflected there.
    """

    nearest: bool = False
    outside: Literal["zeros", "edge", "reflection"] = "zeros"
    align_corners: bool = True


def _grid_sample_infer(call: Call) -> Shapes:
    """Return the shape of one pixel, as deep as the image, for each place of the grid."""
    return ((*input_type(call, 1).shape[:3], input_type(call).shape[3]),)


def _floats(call: Call[GridSampleParameters], values: Values) -> list[Array]:
    image: Any = input_value(values)
    grid: Any = input_value(values, 1)
    _, height, width, _ = image.shape
    x, y = (_place(grid[..., axis], size, call.parameters) for axis, size in ((0, width), (1, height)))
    if call.parameters.nearest:
        return [_read(image, *(np.trunc(at + np.copysign(np.float32(0.5), at)) for at in (y, x)))]
    top, left = np.floor(y), np.floor(x)
    total: Any = np.zeros(call.outputs[0].shape, np.float32)
    for down, right in product((0, 1), (0, 1)):
        share = (1 - np.abs(y - (top + down))) * (1 - np.abs(x - (left + right)))
        total += _read(image, top + down, left + right) * share[..., None]
    return [total]


def _place(at: Float32Array, size: int, parameters: GridSampleParameters) -> Float32Array:
    """Return the positions of -1..1 along an axis in pixels."""
    last, half = np.float32(size - 1), np.float32(0.5)
    unit = (at + 1) * half
    place = unit * last if parameters.align_corners else unit * np.float32(size) - half
    if parameters.outside == "reflection":
        place = (
            _reflected(place, last)
            if parameters.align_corners
            else _reflected(place + half, np.float32(size)) - half
        )
    if parameters.outside != "zeros":
        place = np.clip(place, 0, last)
    return np.asarray(place, np.float32)


def _reflected(place: Float32Array, span: np.float32) -> Float32Array:
    """Return the positions brought between 0 and the span, as if it were a corridor of mirrors."""
    if span == 0:
        return np.zeros_like(place)
    along = np.abs(place) % (2 * span)
    reflected: Float32Array = np.minimum(along, 2 * span - along)
    return reflected


def _read(image: Float32Array, y: Float32Array, x: Float32Array) -> Float32Array:
    """Return the pixels at whole positions [n, rows, columns]; 0 outside, and where a position is none."""
    _, height, width, _ = image.shape
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    rows, columns = (np.where(inside, at, 0).astype(np.int64) for at in (y, x))
    pixels = image[np.arange(len(image))[:, None, None], rows, columns]
    return np.where(inside[..., None], pixels, np.float32(0))


def _grid_sample_workload(call: Call[GridSampleParameters]) -> Workload:
    operations = 1 if call.parameters.nearest else _OPERATIONS_PER_PIXEL
    return elementwise(call, call.outputs[0].elements * operations)


def _shapes(call: Call) -> bool:
    """image and grid are [n, height, width, channels] and [n, rows, columns, 2], the output as large as the grid"""
    image, grid = input_type(call).shape, input_type(call, 1).shape
    fits = len(image) == len(grid) == 4 and image[0] == grid[0] and grid[3] == 2 and min(image[1:]) > 0
    return fits and _grid_sample_infer(call) == (call.outputs[0].shape,)


REFERENCES = with_halves({"float32": _floats})

GRID_SAMPLE = Operator(
    name="grid_sample",
    parameters=GridSampleParameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(2), _shapes),
    infer=_grid_sample_infer,
    reference=by_type(REFERENCES),
    workload=_grid_sample_workload,
    on_host="where it reads depends on values",
)
"""An image read where a grid says, by interpolation or the nearest pixel.

Inputs: image [n, h, w, c], grid [n, rows, columns, 2] of (x, y), -1 at one end of the image and 1 at the other. Output
[n, rows, columns, c].
"""


class InterpolateParameters(parameters.Parameters):
    """axes: in ascending order.

    together: the weights of an element are multiplied first and the terms added in order; otherwise axis by axis, the
              last one first. The results differ in their last bits.
    """

    axes: Sizes
    together: bool = False


def _reference(call: Call[InterpolateParameters], values: Values) -> list[Array]:
    """Compute in float32; integers are cut off and wrap."""
    x, axes = input_value(values), call.parameters.axes
    wide: Any = x.astype(np.float32)
    taps = [_taps(call, values, number) for number in range(len(axes))]
    with np.errstate(all="ignore"):
        sums = _together(wide, axes, taps) if call.parameters.together else _one_by_one(wide, axes, taps)
        if x.dtype.kind in "iu":
            sums = sums.astype(np.int64)
        return [sums.astype(x.dtype)]


def _taps(call: Call[InterpolateParameters], values: Values, number: int) -> tuple[Any, Any]:
    """Return places and weights of an axis, [taps, out]."""
    limit = input_type(call).shape[call.parameters.axes[number]]
    places = checked(call, values, 1 + 2 * number, (limit,))
    return places.T, input_value(values, 2 + 2 * number).T


def _along(vector: Any, axis: int, rank: int) -> Any:
    return vector.reshape([-1 if at == axis else 1 for at in range(rank)])


def _together(x: Any, axes: Sizes, taps: list[tuple[Any, Any]]) -> Any:
    total: Any = 0
    for chosen in product(*(range(len(places)) for places, _ in taps)):
        weight: Any = None
        part = x
        for axis, tap, (places, weights) in reversed(list(zip(axes, chosen, taps, strict=True))):
            own = _along(weights[tap], axis, x.ndim)
            weight = own if weight is None else weight * own
            part = part.take(places[tap], axis)
        total = weight * part + total
    return total


def _one_by_one(x: Any, axes: Sizes, taps: list[tuple[Any, Any]]) -> Any:
    for axis, (places, weights) in reversed(list(zip(axes, taps, strict=True))):
        total: Any = np.float32(0)
        for place, weight in zip(places, weights, strict=True):
            total = total + _along(weight, axis, x.ndim) * x.take(place, axis)
        x = total
    return x


def _interpolate_infer(call: Call[InterpolateParameters]) -> Shapes:
    shape = list(input_type(call).shape)
    for number, axis in enumerate(call.parameters.axes):
        shape[axis] = input_type(call, 1 + 2 * number).shape[0]
    return (tuple(shape),)


def _axes(call: Call[InterpolateParameters]) -> bool:
    """axes are axes of the first operand, in ascending order"""
    axes = list(call.parameters.axes)
    return bool(axes) and axes == sorted(set(axes)) and axes[-1] < len(input_type(call).shape)


def _pairs(call: Call[InterpolateParameters]) -> bool:
    """each axis has places and weights, matrices of one shape with one column or more"""
    if len(call.inputs) != 1 + 2 * len(call.parameters.axes) or None in call.inputs:
        return False
    shapes = [input_type(call, position).shape for position in range(1, len(call.inputs))]
    return all(
        places == weights and len(places) == 2 and places[1] > 0
        for places, weights in zip(shapes[::2], shapes[1::2], strict=True)
    )


_shape = rules.inferred(
    _interpolate_infer, "the output has as many elements along each axis as it has places"
)


def _interpolate_workload(call: Call[InterpolateParameters]) -> Workload:
    """Return the work of one step for every tap of every element."""
    taps = prod(input_type(call, 1 + 2 * number).shape[1] for number in range(len(call.parameters.axes)))
    return elementwise(call, taps * call.outputs[0].elements)


_PAIRS = ", ".join(["int64, float32"] * 8)

INTERPOLATE = Operator(
    name="interpolate",
    parameters=InterpolateParameters,
    types=tuple(
        f"{dtype}, {_PAIRS} -> {dtype}"
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "float16", "float32")
    ),
    rules=(_pairs, _axes, _shape),
    infer=_interpolate_infer,
    reference=_reference,
    workload=_interpolate_workload,
    on_host="where it reads, and with which weights, are operands",
)
"""Elements along axes as weighted sums of others, at places and with weights that are operands.

Inputs: x, then for each axis places [out, taps] and weights [out, taps] -> x with `out` elements along each of them.
"""


OPERATORS = (
    GRID_SAMPLE,
    INTERPOLATE,
)
