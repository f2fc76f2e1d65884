"""An image read where a grid says, by interpolation or the nearest pixel.

Inputs: image [n, h, w, c], grid [n, rows, columns, 2] of (x, y), -1 at one end of the image and 1 at the other. Output
[n, rows, columns, c].
"""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values

_OPERATIONS_PER_PIXEL = 8  # four products and sums

Floats = NDArray[np.float32]


class Parameters(parameters.Parameters):
    """outside: what lies beyond the image: zeros, the pixels at its edge, or itself reflected there.

    nearest:       the nearest pixel, of two the one further from the first, instead of interpolation.
    align_corners: -1 and 1 are the centres of the pixels in the corners, otherwise their outer edges, and the image is
                   reflected there.
    """

    nearest: bool = False
    outside: Literal["zeros", "edge", "reflection"] = "zeros"
    align_corners: bool = True


def _infer(call: Call) -> Shapes:
    """A pixel, as deep as the image, for each place of the grid."""
    return ((*input_type(call, 1).shape[:3], input_type(call).shape[3]),)


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
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


def _place(at: Floats, size: int, how: Parameters) -> Floats:
    """Positions of -1..1 along an axis in pixels."""
    last, half = np.float32(size - 1), np.float32(0.5)
    unit = (at + 1) * half
    place = unit * last if how.align_corners else unit * np.float32(size) - half
    if how.outside == "reflection":
        place = (
            _reflected(place, last)
            if how.align_corners
            else _reflected(place + half, np.float32(size)) - half
        )
    if how.outside != "zeros":
        place = np.clip(place, 0, last)
    return np.asarray(place, np.float32)


def _reflected(place: Floats, span: np.float32) -> Floats:
    """Positions brought between 0 and the span, as if it were a corridor of mirrors."""
    if span == 0:
        return np.zeros_like(place)
    along = np.abs(place) % (2 * span)
    reflected: Floats = np.minimum(along, 2 * span - along)
    return reflected


def _read(image: Floats, y: Floats, x: Floats) -> Floats:
    """The pixels at whole positions [n, rows, columns]; 0 outside, and where a position is none."""
    _, height, width, _ = image.shape
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    rows, columns = (np.where(inside, at, 0).astype(np.int64) for at in (y, x))
    pixels = image[np.arange(len(image))[:, None, None], rows, columns]
    return np.where(inside[..., None], pixels, np.float32(0))


def _workload(call: Call[Parameters]) -> Workload:
    each = 1 if call.parameters.nearest else _OPERATIONS_PER_PIXEL
    return elementwise(call, call.outputs[0].elements * each)


def _shapes(call: Call) -> bool:
    """image and grid are [n, height, width, channels] and [n, rows, columns, 2], the output as large as the grid"""
    image, grid = input_type(call).shape, input_type(call, 1).shape
    fits = len(image) == len(grid) == 4 and image[0] == grid[0] and grid[3] == 2 and min(image[1:]) > 0
    return fits and _infer(call) == (call.outputs[0].shape,)


REFERENCES = with_halves({"float32": _reals})

OPERATOR = Operator(
    name="grid_sample",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(2), _shapes),
    infer=_infer,
    reference=by_type(REFERENCES),
    workload=_workload,
    on_host="where it reads depends on values",
)
