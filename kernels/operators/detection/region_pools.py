"""Operators that pool or interpolate the part of an image inside each box."""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array, Float32Array, Int64Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Pair, Size
from npusim.kernels.operators.detection.boxes import COORDINATES, arrays, check_images, in_float32

MAPS, REGIONS, IMAGES = range(3)

TYPES = (
    "float32, float32, int32 -> float32",
    "float16, float16, int32 -> float16",
    "uint8, uint16|float32, int32 -> uint8",
    "int8, uint16|float32, int32 -> int8",
)


class RegionsParameters(parameters.Parameters):
    """size: height and width of the results. height_stride, width_stride: size of the image over that of the map."""

    size: Pair
    height_stride: float
    width_stride: float


class Regions(NamedTuple):
    """Feature maps, the corners of regions in their pixels, and the image of each region."""

    maps: Float32Array
    corners: Float32Array
    images: Int64Array


def infer(call: Call[RegionsParameters]) -> Shapes:
    """Return the shape of one result per region, as deep as the maps."""
    return ((input_type(call, REGIONS).shape[0], *call.parameters.size, input_type(call).shape[3]),)


def regions_regions(call: Call[RegionsParameters], values: Values) -> Regions:
    """Return the operands of a call.

    Raises OperandFault for a region of no image, without size, or outside its image.
    """
    maps, boxes, images = arrays(values, 3)
    check_images(images, len(maps))
    asked = call.parameters
    scale = np.array([asked.width_stride, asked.height_stride] * 2, np.float32)
    corners = boxes / scale
    most = np.array([maps.shape[2], maps.shape[1]] * 2, np.float32)
    turned = (boxes[:, :2] > boxes[:, 2:]).any(axis=1)
    outside = ~((corners >= 0) & (corners <= most)).all(axis=1)
    for wrong, what in ((turned, "ends before it begins"), (outside, "is outside its image")):
        if wrong.any():
            raise OperandFault(f"region {int(np.argmax(wrong))} {what}")
    return Regions(maps, corners, images)


def anywhere(call: Call[RegionsParameters], values: Values) -> Regions:
    """Return the operands of a call whose regions may lie outside their images.

    Raises OperandFault for one of no image, or without an end.
    """
    maps, boxes, images = arrays(values, 3)
    check_images(images, len(maps))
    asked = call.parameters
    scale = 1 / np.array([asked.width_stride, asked.height_stride] * 2)
    corners = boxes * scale.astype(np.float32)
    endless = ~np.isfinite(corners).all(axis=1)
    if endless.any():
        raise OperandFault(f"region {int(np.argmax(endless))} has corners that are no numbers")
    return Regions(maps, corners, images)


def shapes(call: Call[RegionsParameters]) -> bool:
    """maps are [images, height, width, depth], regions [n, 4], images [n], and outputs [n, the size, depth]"""
    maps, boxes, images = (input_type(call, position).shape for position in range(3))
    if len(maps) != 4 or len(boxes) != 2 or boxes[1] != COORDINATES or images != boxes[:1]:
        return False
    return infer(call) == call.output_shapes


def strides(call: Call[RegionsParameters]) -> bool:
    """the strides are above 0"""
    return call.parameters.height_stride > 0 and call.parameters.width_stride > 0


_MOST_SAMPLES = 4096
_OPERATIONS_PER_POINT = 8  # four products and sums per channel


class RoiAlignParameters(RegionsParameters):
    """samples: points of a bin down and right; 0 for as many as it has pixels, rounded up.

    anywhere: regions may lie outside their image.
    centers:  regions begin half a pixel further up and left, pixels having their centres at halves, and may be smaller
              than one.
    """

    samples: tuple[Size, Size] = (0, 0)
    anywhere: bool = False
    centers: bool = False


def _roi_align_compute(call: Call[RoiAlignParameters], values: Values) -> list[Array]:
    parameters = call.parameters
    given = anywhere(call, values) if parameters.anywhere else regions_regions(call, values)
    result = np.zeros(call.outputs[0].shape, np.float32)
    _, height, width, _ = given.maps.shape
    corners = given.corners - np.float32(0.5) if parameters.centers else given.corners
    for index, ((x1, y1, x2, y2), image) in enumerate(zip(corners, given.images, strict=True)):
        down = _weights(y1, y2, height, parameters, 0)
        right = _weights(x1, x2, width, parameters, 1)
        columns = np.tensordot(down, given.maps[image], axes=(1, 0))
        result[index] = np.tensordot(right, columns, axes=(1, 1)).swapaxes(0, 1)
    return [result]


def _weights(
    begin: np.float32, end: np.float32, pixels: int, parameters: RoiAlignParameters, axis: int
) -> Float32Array:
    """Return [bins, pixels]: the share of each pixel along an axis in the mean of the points of each bin.

    Interpolation in two directions is the product of that in one.
    """
    bins, samples = parameters.size[axis], parameters.samples[axis]
    size = end - begin if parameters.centers else np.maximum(end - begin, np.float32(1))
    step = size / np.float32(bins)
    count = samples if samples > 0 else ceil(step)
    if count < 1:
        return np.zeros((bins, pixels), np.float32)
    if count > _MOST_SAMPLES:
        raise OperandFault(f"a bin of a region is {float(step):g} pixels long, may be {_MOST_SAMPLES}")
    point = np.arange(bins * count, dtype=np.float32) + np.float32(0.5)
    place = begin + point * (step / np.float32(count))
    outside = (place < -1) | (place > pixels) if parameters.anywhere else np.zeros(len(place), bool)
    place = np.maximum(place, np.float32(0)) if parameters.anywhere else place
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
    mean: Float32Array = weights.reshape(bins, count, pixels).mean(axis=1, dtype=np.float32)
    return mean


def _roi_align_workload(call: Call[RoiAlignParameters]) -> Workload:
    """Return the work for a region of the whole image; the real number of points depends on the data."""
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


def _few_samples(call: Call[RoiAlignParameters]) -> bool:
    """a bin has at most 4096 points down and right"""
    return max(call.parameters.samples) <= _MOST_SAMPLES


ROI_ALIGN = Operator(
    name="roi_align",
    parameters=RoiAlignParameters,
    types=TYPES,
    rules=(rules.operands(3), shapes, strides, _some_pixels, _few_samples),
    infer=infer,
    reference=in_float32(_roi_align_compute),
    workload=_roi_align_workload,
    on_host="where it reads depends on values",
)
"""Regions of feature maps at one size, every result the mean of points between the pixels.

Inputs: maps [images, height, width, depth], regions [n, 4] as (x1, y1, x2, y2) in the image, the image of each region
[n]. Output [n, height, width, depth]. A region has sides of 1 pixel or more; each bin has `samples` points down and
right, evenly spread, 0 for as many as the bin has pixels, rounded up. Points are interpolated between four pixels; one
at or beyond the last pixel takes that. With `anywhere` a region may lie outside its image, as in Paddle.
Points that lie more than a pixel outside are 0 then, those nearer take the pixel at the edge.
"""


class RoiPoolingParameters(RegionsParameters):
    """mean: the mean of the pixels of a bin instead of the largest (NNEF)."""

    mean: bool = False


def _roi_pooling_compute(call: Call[RoiPoolingParameters], values: Values) -> list[Array]:
    given = regions_regions(call, values)
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
    """Return [depth] from the pixels [rows, columns, depth] of a bin."""
    value: NDArray[np.floating[Any]] = pixels.mean((0, 1), np.float64) if mean else pixels.max((0, 1))
    return value


def _bins(begin: np.float32, end: np.float32, pixels: int, bins: int) -> NDArray[np.int64]:
    """Return [bins, 2]: the first pixel of each bin and the one behind its last."""
    step = np.maximum(end - begin + np.float32(1), np.float32(1)) / np.float32(bins)
    number = np.arange(bins, dtype=np.float32)
    edges = np.stack([np.floor(begin + number * step), np.ceil(begin + (number + 1) * step)], axis=1)
    inside: NDArray[np.int64] = np.clip(edges, 0, pixels).astype(np.int64)
    return inside


def _roi_pooling_workload(call: Call[RoiPoolingParameters]) -> Workload:
    """Return the work for a region of the whole image; the real number of pixels depends on the data."""
    _, height, width, _ = input_type(call).shape
    pixels = 1
    for size, bins in zip((height, width), call.parameters.size, strict=True):
        pixels *= max(1, -(-size // bins))
    return elementwise(call, call.outputs[0].elements * pixels)


def _same_codes(call: Call) -> bool:
    """maps and output have one scale and zero point"""
    return input_type(call).quantization == call.outputs[0].quantization


ROI_POOLING = Operator(
    name="roi_pooling",
    parameters=RoiPoolingParameters,
    types=TYPES,
    rules=(rules.operands(3), shapes, strides, _same_codes),
    infer=infer,
    reference=in_float32(_roi_pooling_compute),
    workload=_roi_pooling_workload,
    on_host="where it reads depends on values",
)
"""Regions of feature maps at one size, every result the largest, or the mean, of the pixels of its bin.

Inputs: maps [images, height, width, depth], regions [n, 4] as (x1, y1, x2, y2) in the image, the image of each region
[n]. Output [n, height, width, depth]. Corners are rounded to pixels, halves away from zero, and belong to the
region; a bin goes from the pixel in which it begins to that in which it ends, and is 0 where no pixel is in the map.
"""


_MAPS, _BOXES = range(2)
_LONGEST_STEP = np.float32(1.5)
_ABSOLUTE, _RELATIVE = np.float32(1e-5), np.float32(1e-3)
_OPERATIONS_PER_KEYPOINT = 40  # gradient, differences, determinant, solution, quadratic, place


def _infer(call: Call) -> Shapes:
    boxes, _, _, keypoints = input_type(call, _MAPS).shape
    return (boxes, keypoints), (boxes, keypoints, 2)


def _keypoint_compute(call: Call, values: Values) -> list[Array]:
    maps: Any = input_value(values, _MAPS)
    boxes: Any = input_value(values, _BOXES)
    count, size, _, keypoints = maps.shape
    flat = maps.transpose(0, 3, 1, 2).reshape(count, keypoints, size * size)
    rows, columns = (
        np.divmod(flat.argmax(axis=2), size) if flat.size else (np.zeros((count, keypoints), int),) * 2
    )
    grid = _neighbours(maps, rows, columns)
    step, score = _peak(grid)
    pixel = np.stack([columns, rows], axis=-1).astype(np.float32)
    share = (pixel + step + np.float32(0.5)) / np.float32(size)
    corner, side = boxes[:, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None]
    return [score, share * side + corner]


def _neighbours(maps: Float32Array, rows: NDArray[Any], columns: NDArray[Any]) -> Float32Array:
    """Return the 3 x 3 neighbours of each keypoint, [boxes, keypoints, 3, 3], mirrored at the border."""
    count, size, _, keypoints = maps.shape
    steps = np.arange(-1, 2)

    def mirrored(centre: NDArray[Any]) -> NDArray[Any]:
        place = centre[..., None] + steps
        outside = (place < 0) | (place >= size)
        return np.where(outside, centre[..., None] - steps, place)

    down, right = mirrored(rows)[..., :, None], mirrored(columns)[..., None, :]
    box = np.arange(count)[:, None, None, None]
    keypoint = np.arange(keypoints)[None, :, None, None]
    neighbours: Float32Array = maps[box, down, right, keypoint]
    return neighbours


def _peak(grid: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return the step (x, y) to the highest point of the quadratic through the neighbours, and its value."""
    half, quarter, two = np.float32(0.5), np.float32(0.25), np.float32(2)
    centre = grid[..., 1, 1]
    gradient_x = (grid[..., 1, 2] - grid[..., 1, 0]) * half
    gradient_y = (grid[..., 2, 1] - grid[..., 0, 1]) * half
    xx = grid[..., 1, 0] - two * centre + grid[..., 1, 2]
    yy = grid[..., 0, 1] - two * centre + grid[..., 2, 1]
    xy = (grid[..., 2, 2] - grid[..., 2, 0] - grid[..., 0, 2] + grid[..., 0, 0]) * quarter
    first, second = xx * yy, xy * xy
    determinant = first - second
    flat = np.abs(determinant) < _ABSOLUTE + _RELATIVE * np.abs(second)
    safe = np.where(flat, np.float32(1), determinant)
    x = np.where(flat, 0, (xy * gradient_y - yy * gradient_x) / safe)
    y = np.where(flat, 0, (xy * gradient_x - xx * gradient_y) / safe)
    longest = np.maximum(np.abs(x), np.abs(y))
    factor = np.where(
        longest > _LONGEST_STEP, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP), np.float32(1)
    )
    x, y = x * factor, y * factor
    rise = gradient_x * x + gradient_y * y + half * (xx * x * x + two * xy * x * y + yy * y * y)
    return np.stack([x, y], axis=-1), centre + rise


def _keypoint_workload(call: Call) -> Workload:
    maps = input_type(call, _MAPS)
    return elementwise(call, maps.elements + maps.shape[0] * maps.shape[3] * _OPERATIONS_PER_KEYPOINT)


def _shapes(call: Call) -> bool:
    """heat maps are [boxes, size, size, keypoints] with a size of 2 or more, boxes [boxes, 4], outputs to match"""
    maps, boxes = input_type(call, _MAPS).shape, input_type(call, _BOXES).shape
    if len(maps) != 4 or maps[1] != maps[2] or maps[1] < 2 or boxes != (maps[0], COORDINATES):
        return False
    return _infer(call) == call.output_shapes


HEATMAP_MAX_KEYPOINT = Operator(
    name="heatmap_max_keypoint",
    types=(
        "float32 -> float32",
        "float16 -> float16",
        "uint8, uint16 -> uint8, uint16",
        "int8, uint16 -> int8, uint16",
    ),
    rules=(rules.operands(2, 2), _shapes),
    infer=_infer,
    reference=in_float32(_keypoint_compute),
    workload=_keypoint_workload,
    on_host="the NPU has no floating-point unit",
)
"""The highest point of each heat map, between its pixels, and where in its box that lies.

Inputs: heat maps [boxes, size, size, keypoints], boxes [boxes, 4] as (x1, y1, x2, y2). Outputs: scores [boxes,
keypoints] and places [boxes, keypoints, 2] as (x, y).

Around the first maximum, with values beyond the border mirrored, g is the gradient and H the matrix of second
differences of the 3x3 neighbours. The step d solves H d = -g, unless the determinant is about nothing; it is shortened
to 1.5. The score is that of the quadratic, f + g d + d H d / 2; the place is (pixel + d + 1/2) / size of the box.
"""


OPERATORS = (
    ROI_ALIGN,
    ROI_POOLING,
    HEATMAP_MAX_KEYPOINT,
)
