"""roi_align: regions of feature maps at one size, every result the mean of points between the pixels.

Inputs: maps [images, height, width, depth], regions [n, 4] as (x1, y1, x2, y2) in the image, the image of each region
[n]. Output [n, height, width, depth]. A region has sides of 1 pixel or more; each bin has `samples` points down and
right, evenly spread, 0 for as many as the bin has pixels, rounded up. Points are interpolated between four pixels; one
at or beyond the last pixel takes that. With `anywhere` a region may lie outside its image, as Paddle has it.
Points that lie more than a pixel outside are 0 then, those nearer take the pixel at the edge.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.parameters import Size
from npusim.kernels.operators.detection import regions
from npusim.kernels.operators.detection.reals import in_reals

_MOST_SAMPLES = 4096
_OPERATIONS_PER_POINT = 8  # four products and sums per channel

Floats = NDArray[np.float32]


class Parameters(regions.Parameters):
    """samples: points of a bin down and right; 0 for as many as it has pixels, rounded up.

    anywhere: regions may lie outside their image.
    centers:  regions begin half a pixel further up and left, pixels having their centres at halves, and may be smaller
              than one.
    """

    samples: tuple[Size, Size] = (0, 0)
    anywhere: bool = False
    centers: bool = False


def _compute(call: Call[Parameters], values: Values) -> list[Array]:
    how = call.parameters
    given = regions.anywhere(call, values) if how.anywhere else regions.regions(call, values)
    result = np.zeros(call.outputs[0].shape, np.float32)
    _, height, width, _ = given.maps.shape
    corners = given.corners - np.float32(0.5) if how.centers else given.corners
    for index, ((x1, y1, x2, y2), image) in enumerate(zip(corners, given.images, strict=True)):
        down = _weights(y1, y2, height, how, 0)
        right = _weights(x1, x2, width, how, 1)
        columns = np.tensordot(down, given.maps[image], axes=(1, 0))
        result[index] = np.tensordot(right, columns, axes=(1, 1)).swapaxes(0, 1)
    return [result]


def _weights(begin: np.float32, end: np.float32, pixels: int, how: Parameters, axis: int) -> Floats:
    """[bins, pixels]: what each pixel along an axis gives to the mean of the points of each bin.

    Interpolation in two directions is the product of that in one.
    """
    bins, samples = how.size[axis], how.samples[axis]
    size = end - begin if how.centers else np.maximum(end - begin, np.float32(1))
    step = size / np.float32(bins)
    count = samples if samples > 0 else ceil(step)
    if count < 1:
        return np.zeros((bins, pixels), np.float32)
    if count > _MOST_SAMPLES:
        raise OperandFault(f"a bin of a region is {float(step):g} pixels long, may be {_MOST_SAMPLES}")
    point = np.arange(bins * count, dtype=np.float32) + np.float32(0.5)
    place = begin + point * (step / np.float32(count))
    outside = (place < -1) | (place > pixels) if how.anywhere else np.zeros(len(place), bool)
    place = np.maximum(place, np.float32(0)) if how.anywhere else place
    place = np.where(outside, np.float32(0), place)
    low = np.floor(place).astype(np.int64)
    beyond = low >= pixels - 1
    low = np.where(beyond, pixels - 1, low)
    high = np.minimum(low + 1, pixels - 1)
    share = np.where(beyond, np.float32(0), place - low)
    weights = np.zeros((bins * count, pixels), np.float32)
    rows = np.arange(bins * count)
    np.add.at(weights, (rows, low), 1 - share)
    np.add.at(weights, (rows, high), share)
    weights[outside] = 0
    mean: Floats = weights.reshape(bins, count, pixels).mean(axis=1, dtype=np.float32)
    return mean


def _workload(call: Call[Parameters]) -> Workload:
    """How many points a bin of pixels has depends on the data; counted are those of a region of the whole image."""
    _, height, width, _ = input_type(call).shape
    points = 1
    for pixels, bins, samples in zip(
        (height, width), call.parameters.size, call.parameters.samples, strict=True
    ):
        points *= samples if samples > 0 else max(1, -(-pixels // bins))
    return elementwise(call, call.outputs[0].elements * points * _OPERATIONS_PER_POINT)


def _some_pixels(call: Call) -> bool:
    """maps have a pixel or more"""
    return min(input_type(call).shape[1:3]) > 0


def _few_samples(call: Call[Parameters]) -> bool:
    """a bin has at most 4096 points down and right"""
    return max(call.parameters.samples) <= _MOST_SAMPLES


OPERATOR = Operator(
    name="roi_align",
    parameters=Parameters,
    types=regions.TYPES,
    rules=(rules.operands(3), regions.shapes, regions.strides, _some_pixels, _few_samples),
    infer=regions.infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="where it reads depends on values",
)
