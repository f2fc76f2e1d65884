"""heatmap_max_keypoint: the highest point of each heat map, between its pixels, and where in its box that lies.

Inputs: heat maps [boxes, size, size, keypoints], boxes [boxes, 4] as (x1, y1, x2, y2). Outputs: scores [boxes,
keypoints] and places [boxes, keypoints, 2] as (x, y).

Around the first maximum, with values beyond the border mirrored, g is the gradient and H the matrix of second
differences of the 3x3 neighbours. The step d solves H d = -g, unless the determinant is about nothing; it is shortened
to 1.5. The score is that of the quadratic, f + g d + d H d / 2; the place is (pixel + d + 1/2) / size of the box.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.detection.boxes import COORDINATES
from npusim.kernels.operators.detection.reals import in_reals

_MAPS, _BOXES = range(2)
_LONGEST_STEP = np.float32(1.5)
_ABSOLUTE, _RELATIVE = np.float32(1e-5), np.float32(1e-3)
_OPERATIONS_PER_KEYPOINT = 40  # gradient, differences, determinant, solution, quadratic, place

Floats = NDArray[np.float32]


def _infer(call: Call) -> Shapes:
    boxes, _, _, keypoints = input_type(call, _MAPS).shape
    return (boxes, keypoints), (boxes, keypoints, 2)


def _compute(call: Call, values: Values) -> list[Array]:
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


def _neighbours(maps: Floats, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
    """[boxes, keypoints, 3, 3], mirrored at the border."""
    count, size, _, keypoints = maps.shape
    steps = np.arange(-1, 2)

    def mirrored(centre: NDArray[Any]) -> NDArray[Any]:
        place = centre[..., None] + steps
        outside = (place < 0) | (place >= size)
        return np.where(outside, centre[..., None] - steps, place)

    down, right = mirrored(rows)[..., :, None], mirrored(columns)[..., None, :]
    box = np.arange(count)[:, None, None, None]
    keypoint = np.arange(keypoints)[None, :, None, None]
    neighbours: Floats = maps[box, down, right, keypoint]
    return neighbours


def _peak(grid: Floats) -> tuple[Floats, Floats]:
    """The step (x, y) to the highest point of the quadratic through the neighbours, and its value."""
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


def _workload(call: Call) -> Workload:
    maps = input_type(call, _MAPS)
    return elementwise(call, maps.elements + maps.shape[0] * maps.shape[3] * _OPERATIONS_PER_KEYPOINT)


def _shapes(call: Call) -> bool:
    """heat maps are [boxes, size, size, keypoints] with a size of 2 or more, boxes [boxes, 4], outputs as they say"""
    maps, boxes = input_type(call, _MAPS).shape, input_type(call, _BOXES).shape
    if len(maps) != 4 or maps[1] != maps[2] or maps[1] < 2 or boxes != (maps[0], COORDINATES):
        return False
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="heatmap_max_keypoint",
    types=(
        "float32 -> float32",
        "float16 -> float16",
        "uint8, uint16 -> uint8, uint16",
        "int8, uint16 -> int8, uint16",
    ),
    rules=(rules.operands(2, 2), _shapes),
    infer=_infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="the NPU has no floating-point unit",
)
