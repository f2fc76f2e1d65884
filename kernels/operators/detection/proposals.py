"""Operators that turn scores and box offsets into boxes, as NNAPI has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Float32Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Step
from npusim.kernels.operators.detection.boxes import (
    COORDINATES,
    OPERATIONS_PER_OVERLAP,
    OPERATIONS_PER_TRANSFORM,
    arrays,
    check_images,
    clipped,
    decreasing,
    filled,
    hard,
    in_float32,
    rows_of,
    suppressed,
    transformed,
)

_TRANSFORM_BOXES, _TRANSFORM_DELTAS, _TRANSFORM_IMAGES, _TRANSFORM_SIZES = range(4)


def _transform_infer(call: Call) -> Shapes:
    return (input_type(call, _TRANSFORM_DELTAS).shape,)


def _transform_compute(call: Call, values: Values) -> list[Array]:
    boxes, deltas, images, sizes = arrays(values, 4)
    check_images(images, len(sizes))
    count, columns = deltas.shape
    per_class = deltas.reshape(count, columns // COORDINATES, COORDINATES)
    height, width = (sizes[images, axis][:, None] for axis in range(2))
    return [clipped(transformed(boxes[:, None, :], per_class), height, width).reshape(deltas.shape)]


def _transform_workload(call: Call) -> Workload:
    return elementwise(
        call, input_type(call, _TRANSFORM_DELTAS).elements // COORDINATES * OPERATIONS_PER_TRANSFORM
    )


def _transform_shapes(call: Call) -> bool:
    """boxes are [n, 4], deltas and output [n, classes * 4], images [n], and sizes [images, 2]"""
    boxes, deltas, images, sizes = (input_type(call, position).shape for position in range(4))
    if (len(boxes), len(deltas), len(sizes)) != (2, 2, 2):
        return False
    count = boxes[0]
    fits = boxes == (count, COORDINATES) and deltas[0] == count and deltas[1] % COORDINATES == 0
    return fits and images == (count,) and sizes[1] == 2 and call.outputs[0].shape == deltas


AXIS_ALIGNED_BBOX_TRANSFORM = Operator(
    name="axis_aligned_bbox_transform",
    types=(
        "float32, float32, int32, float32 -> float32",
        "float16, float16, int32, float16 -> float16",
        "uint16, uint8|int8, int32, uint16 -> uint16",
    ),
    rules=(rules.operands(4), _transform_shapes),
    infer=_transform_infer,
    reference=in_float32(_transform_compute),
    workload=_transform_workload,
    on_host="the NPU has no floating-point unit",
)
"""Boxes refined by deltas for every class, within their image.

Inputs: boxes [n, 4] as (x1, y1, x2, y2); deltas [n, classes * 4] as (dx, dy, log dw, log dh); the image of each box
[n]; image sizes [images, 2] as (height, width). Output: boxes [n, classes * 4].
"""


_NMS_SCORES, _NMS_BOXES, _NMS_IMAGES = range(3)
_NMS_COUNT = 4  # the output that counts rows


class BoxWithNmsLimitParameters(parameters.Parameters):
    """score_threshold: scores not above it are not looked at.

    most:                per class and per image; negative for any number.
    kernel:              what becomes of the score of a box that overlaps a chosen one by IoU: hard, 0 from
                         iou_threshold on; linear, times 1 - IoU from there on; gaussian, times exp(-IoU^2 / sigma).
    nms_score_threshold: lower scores go.
    """

    score_threshold: float
    most: Step = -1
    kernel: Literal["hard", "linear", "gaussian"] = "hard"
    iou_threshold: float = 0.0
    sigma: float = 1.0
    nms_score_threshold: float = 0.0


def _nms_infer(call: Call[BoxWithNmsLimitParameters]) -> Shapes:
    """Return shapes with the most rows that are possible: every box in every class but the background, or `most`."""
    count, classes = input_type(call, _NMS_SCORES).shape
    rows = count * max(classes - 1, 0)
    if call.parameters.most >= 0:
        rows = min(rows, count * call.parameters.most)
    return (rows,), (rows, COORDINATES), (rows,), (rows,), (1,)


def _nms_compute(call: Call[BoxWithNmsLimitParameters], values: Values) -> list[Array]:
    scores, boxes, images = arrays(values, 3)
    asked = call.parameters
    most = asked.most if asked.most >= 0 else scores.size
    detections: list[tuple[int, int, int, np.float32]] = []
    for image in dict.fromkeys(images.tolist()):
        rows = np.flatnonzero(images == image)
        of_image: list[tuple[int, int, int, np.float32]] = []
        for number in range(1, scores.shape[1]):
            candidates = rows[scores[rows, number] > np.float32(asked.score_threshold)]
            corners = boxes[candidates, number * COORDINATES : (number + 1) * COORDINATES]
            chosen, won = suppressed(
                corners, scores[candidates, number], most, _kernel(asked), asked.nms_score_threshold
            )
            of_image += [
                (int(candidates[one]), number, image, score) for one, score in zip(chosen, won, strict=True)
            ]
        best = decreasing(np.array([score for *_, score in of_image], np.float32))[:most]
        detections += [of_image[one] for one in sorted(best)]
    return _outputs(call, boxes, detections)


def _kernel(asked: BoxWithNmsLimitParameters) -> Callable[[Float32Array], Float32Array]:
    threshold = np.float32(asked.iou_threshold)
    if asked.kernel == "hard":
        return hard(asked.iou_threshold)
    if asked.kernel == "linear":
        return lambda shares: np.where(shares < threshold, np.float32(1), 1 - shares)
    return lambda shares: np.exp(-shares * shares / np.float32(asked.sigma))


def _outputs(call: Call, boxes: Float32Array, chosen: list[tuple[int, int, int, np.float32]]) -> list[Array]:
    corners = [boxes[row, number * COORDINATES : (number + 1) * COORDINATES] for row, number, _, _ in chosen]
    columns: tuple[list[Any], ...] = (
        [score for *_, score in chosen],
        corners,
        [number for _, number, _, _ in chosen],
        [image for _, _, image, _ in chosen],
    )
    padded = [filled(tensor, column) for tensor, column in zip(call.outputs, columns, strict=False)]
    return [*padded, np.array([len(chosen)], np.int32)]


def _nms_workload(call: Call[BoxWithNmsLimitParameters]) -> Workload:
    """Suppression depends on the data; counted is its bound: each choice is compared with all boxes of its class."""
    count, classes = input_type(call, _NMS_SCORES).shape
    most = call.parameters.most if call.parameters.most >= 0 else count
    chosen = min(most, count) * max(classes - 1, 0)
    return elementwise(call, count * classes + chosen * count * OPERATIONS_PER_OVERLAP)


# Rules


def _nms_shapes(call: Call) -> bool:
    """scores are [n, classes], boxes [n, classes * 4], images [n], outputs have a row for each box that can be kept"""
    scores, boxes, images = (input_type(call, position).shape for position in range(3))
    if len(scores) != 2 or boxes != (scores[0], scores[1] * COORDINATES) or images != scores[:1]:
        return False
    return _nms_infer(call) == call.output_shapes


def _sigma(call: Call[BoxWithNmsLimitParameters]) -> bool:
    """sigma is above 0"""
    return call.parameters.kernel != "gaussian" or call.parameters.sigma > 0


BOX_WITH_NMS_LIMIT = Operator(
    name="box_with_nms_limit",
    parameters=BoxWithNmsLimitParameters,
    types=(
        "float32, float32, int32 -> float32, float32, int32",
        "float16, float16, int32 -> float16, float16, int32",
        "uint8, uint16, int32 -> uint8, uint16, int32",
        "int8, uint16, int32 -> int8, uint16, int32",
    ),
    rules=(rules.operands(3, _NMS_COUNT + 1), _nms_shapes, _sigma),
    infer=_nms_infer,
    reference=in_float32(_nms_compute),
    workload=_nms_workload,
    on_host="the NPU has no floating-point unit and does not sort",
    defined=rows_of(_NMS_COUNT),
)
"""Non-maximum suppression of boxes, class by class.

Inputs: scores [n, classes], of which class 0 is the background; boxes [n, classes * 4] as (x1, y1, x2, y2); the image
of each box [n]. Outputs, with n * (classes - 1) rows at most: scores [rows], boxes [rows, 4], classes [rows], images
[rows], and the number of rows that hold a box [1]; the rest is 0. Rows are in the order of the images' first boxes,
then of classes, then of falling scores, which soft kernels have lowered.
"""


_PROPOSALS_SCORES, _PROPOSALS_DELTAS, _ANCHORS, _PROPOSALS_SIZES = range(4)
_PROPOSALS_COUNT = 3  # the output that counts rows


class GenerateProposalsParameters(parameters.Parameters):
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


def _per_image(call: Call[GenerateProposalsParameters]) -> tuple[int, int]:
    """Boxes that may go into suppression and that may come out of it."""
    _, height, width, anchors = input_type(call, _PROPOSALS_SCORES).shape
    before = _limited(height * width * anchors, call.parameters.most_before)
    return before, _limited(before, call.parameters.most_after)


def _limited(count: int, most: int) -> int:
    return min(count, most) if most > 0 else count


def _proposals_infer(call: Call[GenerateProposalsParameters]) -> Shapes:
    rows = input_type(call, _PROPOSALS_SCORES).shape[0] * _per_image(call)[1]
    return (rows,), (rows, COORDINATES), (rows,), (1,)


def _proposals_compute(call: Call[GenerateProposalsParameters], values: Values) -> list[Array]:
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
    call: Call[GenerateProposalsParameters], boxes: Float32Array, scores: Float32Array, size: Float32Array
) -> tuple[Any, Float32Array]:
    """Return the best boxes after suppression, with scores; boxes must be large enough and centred in the image."""
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


def _proposals_workload(call: Call[GenerateProposalsParameters]) -> Workload:
    """Suppression depends on the data; counted is its bound: each choice is compared with all boxes of its image."""
    scores = input_type(call, _PROPOSALS_SCORES)
    before, after = _per_image(call)
    overlaps = scores.shape[0] * before * after
    return elementwise(call, scores.elements * OPERATIONS_PER_TRANSFORM + overlaps * OPERATIONS_PER_OVERLAP)


# Rules


def _proposals_shapes(call: Call) -> bool:
    """scores [n, height, width, anchors], deltas 4 times as deep, anchors [anchors, 4], sizes [n, 2], outputs fit"""
    scores, deltas, anchors, sizes = (input_type(call, position).shape for position in range(4))
    if len(scores) != 4 or deltas != (*scores[:3], scores[3] * COORDINATES):
        return False
    if anchors != (scores[3], COORDINATES) or sizes != (scores[0], 2):
        return False
    return _proposals_infer(call) == call.output_shapes


GENERATE_PROPOSALS = Operator(
    name="generate_proposals",
    parameters=GenerateProposalsParameters,
    types=(
        "float32 -> float32, float32, int32",
        "float16 -> float16, float16, int32",
        "uint8, uint8, int16, uint16 -> uint8, uint16, int32",
        "int8, int8, int16, uint16 -> int8, uint16, int32",
    ),
    rules=(rules.operands(4, _PROPOSALS_COUNT + 1), _proposals_shapes),
    infer=_proposals_infer,
    reference=in_float32(_proposals_compute),
    workload=_proposals_workload,
    on_host="the NPU has no floating-point unit and does not sort",
    defined=rows_of(_PROPOSALS_COUNT),
)
"""Boxes from anchors at every place of a feature map, then non-maximum suppression.

Inputs: scores [images, height, width, anchors]; deltas [images, height, width, anchors * 4] as (dx, dy, log dw, log
dh); anchors [anchors, 4] as (x1, y1, x2, y2); image sizes [images, 2] as (height, width). Outputs, with as many rows as
there can be: scores [rows], boxes [rows, 4], the image of each [rows], and the number of rows that hold a box [1]; the
rest is 0. Rows are image by image, in the order of choice. An anchor is shifted by the steps of its place.
"""


OPERATORS = (
    AXIS_ALIGNED_BBOX_TRANSFORM,
    BOX_WITH_NMS_LIMIT,
    GENERATE_PROPOSALS,
)
