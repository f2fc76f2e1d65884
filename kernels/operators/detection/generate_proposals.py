"""generate_proposals: boxes from anchors at every place of a feature map, then non-maximum suppression.

Inputs: scores [images, height, width, anchors]; deltas [images, height, width, anchors * 4] as (dx, dy, log dw, log
dh); anchors [anchors, 4] as (x1, y1, x2, y2); image sizes [images, 2] as (height, width). Outputs, with as many rows as
there can be: scores [rows], boxes [rows, 4], the image of each [rows], and the number of rows that hold a box [1]; the
rest is 0. Rows are image by image, in the order of choice. An anchor is shifted by the steps of its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Step
from npusim.kernels.operators.detection.boxes import (
    COORDINATES,
    OPERATIONS_PER_OVERLAP,
    OPERATIONS_PER_TRANSFORM,
    Float32Array,
    clipped,
    decreasing,
    filled,
    hard,
    rows_of,
    suppressed,
    transformed,
)
from npusim.kernels.operators.detection.reals import arrays, in_reals

_SCORES, _DELTAS, _ANCHORS, _SIZES = range(4)
_COUNT = 3  # the output that counts rows


class Parameters(parameters.Parameters):
    """height_stride and width_stride: size of the image over that of the feature map.

    most_before: boxes that go into suppression per image, most_after: boxes that come out of it; 0 or less for any
    number. iou_threshold: of the overlap that suppresses. min_size: sides of a box are above it.
    """

    height_stride: float
    width_stride: float
    most_before: Step = 0
    most_after: Step = 0
    iou_threshold: float
    min_size: float


def _per_image(call: Call[Parameters]) -> tuple[int, int]:
    """Boxes that may go into suppression and that may come out of it."""
    _, height, width, anchors = input_type(call, _SCORES).shape
    before = _limited(height * width * anchors, call.parameters.most_before)
    return before, _limited(before, call.parameters.most_after)


def _limited(count: int, most: int) -> int:
    return min(count, most) if most > 0 else count


def _infer(call: Call[Parameters]) -> Shapes:
    rows = input_type(call, _SCORES).shape[0] * _per_image(call)[1]
    return (rows,), (rows, COORDINATES), (rows,), (1,)


def _compute(call: Call[Parameters], values: Values) -> list[Array]:
    scores, deltas, anchors, sizes = arrays(values, 4)
    images, height, width, _ = scores.shape
    asked = call.parameters
    down = np.arange(height, dtype=np.float32) * np.float32(asked.height_stride)
    right = np.arange(width, dtype=np.float32) * np.float32(asked.width_stride)
    shift = np.stack(np.broadcast_arrays(right[None, :], down[:, None]) * 2, axis=-1)
    placed = (anchors[None, None] + shift[:, :, None]).reshape(-1, COORDINATES)
    columns: tuple[list[Any], list[Any], list[Any]] = [], [], []
    for image in range(images):
        of_image = deltas[image].reshape(-1, COORDINATES)
        boxes = clipped(transformed(placed, of_image), *sizes[image])
        chosen, won = _chosen(call, boxes, scores[image].reshape(-1), sizes[image])
        for column, part in zip(columns, (won, boxes[chosen], [image] * len(chosen)), strict=True):
            column.extend(part)
    padded = [filled(tensor, column) for tensor, column in zip(call.outputs, columns, strict=False)]
    return [*padded, np.array([len(columns[0])], np.int32)]


def _chosen(
    call: Call[Parameters], boxes: Float32Array, scores: Float32Array, size: Float32Array
) -> tuple[Any, Float32Array]:
    """The best that are large enough and centred in the image (height, width), after suppression, and their scores."""
    before, after = _per_image(call)
    candidates = np.arange(len(scores))
    if before < len(scores):
        candidates = decreasing(scores)[:before]
    sides = boxes[candidates, 2:] - boxes[candidates, :2]
    middle = boxes[candidates, :2] + sides / np.float32(2)
    inside = (sides > np.float32(call.parameters.min_size)).all(axis=1) & (middle < size[::-1]).all(axis=1)
    candidates = candidates[inside]
    chosen, won = suppressed(
        boxes[candidates], scores[candidates], after, hard(call.parameters.iou_threshold), -np.inf
    )
    return candidates[chosen], won


def _workload(call: Call[Parameters]) -> Workload:
    """Suppression depends on the data; counted is its bound: each choice is compared with all boxes of its image."""
    scores = input_type(call, _SCORES)
    before, after = _per_image(call)
    overlaps = scores.shape[0] * before * after
    return elementwise(call, scores.elements * OPERATIONS_PER_TRANSFORM + overlaps * OPERATIONS_PER_OVERLAP)


# Rules


def _shapes(call: Call) -> bool:
    """scores [n, height, width, anchors], deltas 4 times as deep, anchors [anchors, 4], sizes [n, 2], outputs fit"""
    scores, deltas, anchors, sizes = (input_type(call, position).shape for position in range(4))
    if len(scores) != 4 or deltas != (*scores[:3], scores[3] * COORDINATES):
        return False
    if anchors != (scores[3], COORDINATES) or sizes != (scores[0], 2):
        return False
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="generate_proposals",
    parameters=Parameters,
    types=(
        "float32 -> float32, float32, int32",
        "float16 -> float16, float16, int32",
        "uint8, uint8, int16, uint16 -> uint8, uint16, int32",
        "int8, int8, int16, uint16 -> int8, uint16, int32",
    ),
    rules=(rules.operands(4, _COUNT + 1), _shapes),
    infer=_infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="the NPU has no floating-point unit and does not sort",
    defined=rows_of(_COUNT),
)
