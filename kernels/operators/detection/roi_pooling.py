"""roi_pooling: regions of feature maps at one size, every result the largest, or the mean, of the pixels of its bin.

Inputs: maps [images, height, width, depth], regions [n, 4] as (x1, y1, x2, y2) in the image, the image of each region
[n]. Output [n, height, width, depth]. Corners are rounded to pixels, halves away from zero, and belong to the
region; a bin goes from the pixel in which it begins to that in which it ends, and is 0 where no pixel is in the map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.detection import regions
from npusim.kernels.operators.detection.reals import in_reals


class Parameters(regions.Parameters):
    """mean: of the pixels of a bin, in place of the largest (NNEF)."""

    mean: bool = False


def _compute(call: Call[Parameters], values: Values) -> list[Array]:
    given = regions.regions(call, values)
    result = np.zeros(call.outputs[0].shape, np.float32)
    _, height, width, _ = given.maps.shape
    corners = np.floor(given.corners + np.float32(0.5))  # none is below 0
    for index, ((x1, y1, x2, y2), image) in enumerate(zip(corners, given.images, strict=True)):
        rows = _bins(y1, y2, height, call.parameters.size[0])
        columns = _bins(x1, x2, width, call.parameters.size[1])
        for row, (top, bottom) in enumerate(rows):
            for column, (left, right) in enumerate(columns):
                if top < bottom and left < right:
                    pixels = given.maps[image, top:bottom, left:right]
                    result[index, row, column] = _of_bin(pixels, call.parameters.mean)
    return [result]


def _of_bin(pixels: NDArray[np.float32], mean: bool) -> NDArray[np.floating[Any]]:
    """[depth]: of pixels [rows, columns, depth]."""
    found: NDArray[np.floating[Any]] = pixels.mean((0, 1), np.float64) if mean else pixels.max((0, 1))
    return found


def _bins(begin: np.float32, end: np.float32, pixels: int, bins: int) -> NDArray[np.int64]:
    """[bins, 2]: the first pixel of each and the one behind its last."""
    step = np.maximum(end - begin + np.float32(1), np.float32(1)) / np.float32(bins)
    number = np.arange(bins, dtype=np.float32)
    edges = np.stack([np.floor(begin + number * step), np.ceil(begin + (number + 1) * step)], axis=1)
    inside: NDArray[np.int64] = np.clip(edges, 0, pixels).astype(np.int64)
    return inside


def _workload(call: Call[Parameters]) -> Workload:
    """How many pixels a bin has depends on the data; counted are those of a region of the whole image."""
    _, height, width, _ = input_type(call).shape
    pixels = 1
    for size, bins in zip((height, width), call.parameters.size, strict=True):
        pixels *= max(1, -(-size // bins))
    return elementwise(call, call.outputs[0].elements * pixels)


def _same_codes(call: Call) -> bool:
    """maps and output have one scale and zero point"""
    return input_type(call).quantization == call.outputs[0].quantization


OPERATOR = Operator(
    name="roi_pooling",
    parameters=Parameters,
    types=regions.TYPES,
    rules=(rules.operands(3), regions.shapes, regions.strides, _same_codes),
    infer=regions.infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="where it reads depends on values",
)
