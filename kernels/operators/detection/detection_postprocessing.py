"""detection_postprocessing: boxes decoded from anchors, then non-maximum suppression; NNAPI's operation.

Inputs: scores [images, anchors, classes], of which class 0 is the background; deltas [images, anchors, 4 or more] as
(dy, dx, log dh, log dw); anchors [anchors, 4] as (centre y, centre x, height, width). Outputs, with n = max_detections:
scores [images, n], boxes [images, n, 4] as (y1, x1, y2, x2), classes [images, n], and the number of detections
[images]; rows without one are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operators.detection.boxes import (
    COORDINATES,
    OPERATIONS_PER_OVERLAP,
    OPERATIONS_PER_TRANSFORM,
    Float32Array,
    decreasing,
    hard,
    suppressed,
)
from npusim.kernels.operators.detection.reals import arrays, in_reals

_SCORES, _DELTAS, _ANCHORS = range(3)


class Parameters(parameters.Parameters):
    """scales: that deltas (dy, dx, dh, dw) are divided by.

    regular:                suppression class by class, then the best of all; otherwise once, by the best class of each
                            box, then the best classes of each box, every one in a row of its own.
    max_classes_per_detection: rows of a box, if not regular. detections_per_class: what suppression of a class leaves.
    score_threshold:        scores not above it are not looked at. iou_threshold: the overlap from which on a box goes.
    background:             classes are counted with it, so the first has number 1.
    """

    scales: tuple[float, float, float, float]
    regular: bool = False
    max_detections: Count
    max_classes_per_detection: Count = 1
    detections_per_class: Count = 1
    score_threshold: float
    iou_threshold: float
    background: bool = False


def _infer(call: Call[Parameters]) -> Shapes:
    rows = input_type(call, _SCORES).shape[0], call.parameters.max_detections
    return rows, (*rows, COORDINATES), rows, rows[:1]


def _compute(call: Call[Parameters], values: Values) -> list[Array]:
    scores, deltas, anchors = arrays(values, 3)
    outputs: list[Any] = [np.zeros(output.shape, output.numpy_dtype) for output in call.outputs]
    for image in range(len(scores)):
        boxes = _decoded(call.parameters, deltas[image, :, :COORDINATES], anchors)
        of_classes = scores[image, :, 1:]
        select = _regular if call.parameters.regular else _fast
        rows = select(call.parameters, boxes, of_classes)[: call.parameters.max_detections]
        for row, (box, number) in enumerate(rows):
            outputs[0][image, row] = of_classes[box, number]
            outputs[1][image, row] = boxes[box]
            outputs[2][image, row] = number + (1 if call.parameters.background else 0)
        outputs[3][image] = len(rows)
    return outputs


def _decoded(asked: Parameters, deltas: Float32Array, anchors: Float32Array) -> Float32Array:
    """Corners (y1, x1, y2, x2)."""
    scaled = deltas / np.array(asked.scales, np.float32)
    centre = anchors[:, :2] + scaled[:, :2] * anchors[:, 2:]
    with np.errstate(over="ignore"):
        half = np.exp(scaled[:, 2:]) * anchors[:, 2:] / np.float32(2)
    return np.concatenate([centre - half, centre + half], axis=1)


Rows = list[tuple[int, int]]
"""Box and class, without the background, of each detection."""


def _suppressed(asked: Parameters, boxes: Float32Array, scores: Float32Array, most: int) -> list[int]:
    candidates = np.flatnonzero(scores > np.float32(asked.score_threshold))
    kept, _ = suppressed(boxes[candidates], scores[candidates], most, hard(asked.iou_threshold), -np.inf)
    return [int(box) for box in candidates[kept]]


def _regular(asked: Parameters, boxes: Float32Array, scores: Float32Array) -> Rows:
    rows: Rows = []
    for number in range(scores.shape[1]):
        kept = _suppressed(asked, boxes, scores[:, number], asked.detections_per_class)
        rows += [(box, number) for box in kept]
    best = decreasing(np.array([scores[row] for row in rows], np.float32))
    return [rows[one] for one in best]


def _fast(asked: Parameters, boxes: Float32Array, scores: Float32Array) -> Rows:
    if scores.shape[1] == 0:
        return []
    shown = min(asked.max_classes_per_detection, scores.shape[1])
    kept = _suppressed(asked, boxes, scores.max(axis=1), asked.max_detections)
    return [(box, int(number)) for box in kept for number in decreasing(scores[box])[:shown]]


def _workload(call: Call[Parameters]) -> Workload:
    """Suppression depends on the data; counted is its bound, every detection compared with every box."""
    images, boxes, classes = input_type(call, _SCORES).shape
    asked = call.parameters
    chosen = asked.detections_per_class * max(classes - 1, 0) if asked.regular else asked.max_detections
    per_box = classes + OPERATIONS_PER_TRANSFORM
    return elementwise(
        call, images * boxes * (per_box + min(chosen, boxes * classes) * OPERATIONS_PER_OVERLAP)
    )


# Rules


def _shapes(call: Call) -> bool:
    """scores are [images, n, 1 or more], deltas [images, n, 4 or more], anchors [n, 4], outputs have max_detections"""
    scores, deltas, anchors = (input_type(call, position).shape for position in range(3))
    if (len(scores), len(deltas)) != (3, 3) or anchors != (scores[1], COORDINATES):
        return False
    fits = deltas[:2] == scores[:2] and deltas[2] >= COORDINATES and scores[2] >= 1
    return fits and _infer(call) == tuple(output.shape for output in call.outputs)


def _scales(call: Call[Parameters]) -> bool:
    """the scales are not 0"""
    return 0 not in call.parameters.scales


OPERATOR = Operator(
    name="detection_postprocessing",
    parameters=Parameters,
    types=("float32 -> float32, float32, int32", "float16 -> float16, float16, int32"),
    rules=(rules.operands(3, 4), _shapes, _scales),
    infer=_infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="the NPU has no floating-point unit and does not sort",
)
