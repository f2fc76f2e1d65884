"""The last operators of single-shot detectors, of TensorFlow Lite and of NNAPI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array, Float32Array, Int64Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operators.detection.boxes import (
    COORDINATES,
    OPERATIONS_PER_OVERLAP,
    OPERATIONS_PER_TRANSFORM,
    area,
    arrays,
    decreasing,
    hard,
    in_float32,
    real,
    suppressed,
)
from npusim.kernels.operators.reduction.extremes import largest

_BOXES, _TFLITE_SCORES, _TFLITE_ANCHORS = range(3)
_NUMBER = 3  # the output that counts detections
_OPERATIONS_PER_BOX = 12  # to decode it


class DetectionPostProcessParameters(parameters.Parameters):
    """Numbers of detections and classes, thresholds of suppression, and the scales of the encodings."""

    max_detections: Count
    max_classes_per_detection: Count
    num_classes: Count
    detections_per_class: Count = 100
    use_regular_nms: bool = False
    nms_score_threshold: float
    nms_iou_threshold: float
    y_scale: float
    x_scale: float
    h_scale: float
    w_scale: float

    @property
    def scales(self) -> tuple[float, float, float, float]:
        """The scales of y, x, height and width."""
        return self.y_scale, self.x_scale, self.h_scale, self.w_scale


def _tflite_infer(call: Call[DetectionPostProcessParameters]) -> Shapes:
    """Return the shapes of boxes, classes, scores and their number, for the batch of one that the kernel takes."""
    rows = call.parameters.max_detections * call.parameters.max_classes_per_detection
    return (1, rows, COORDINATES), (1, rows), (1, rows), (1,)


def _reference(call: Call[DetectionPostProcessParameters], values: Values) -> list[Array]:
    encodings, scores, anchors = (
        real(input_type(call, position), value) for position, value in enumerate(arrays(values, 3))
    )
    boxes, scores = _decode(call, encodings[0], anchors), scores[0]
    scores = scores[:, scores.shape[1] - call.parameters.num_classes :]  # without the background
    select = _tflite_regular if call.parameters.use_regular_nms else _tflite_fast
    rows, chosen, classes, count = select(call.parameters, boxes, scores)
    outputs = [np.zeros(output.shape, np.float32) for output in call.outputs]
    outputs[0][0, rows] = boxes[chosen]
    outputs[1][0, rows] = classes
    outputs[2][0, rows] = scores[chosen, classes]
    outputs[3][0] = count
    return list(outputs)


def _detections(outputs: Sequence[Array]) -> list[Array]:
    """Return the rows that hold a detection."""
    count = int(outputs[_NUMBER].reshape(-1)[0])
    return [*(np.ascontiguousarray(output[:, :count]) for output in outputs[:_NUMBER]), outputs[_NUMBER]]


def _decode(
    call: Call[DetectionPostProcessParameters], encodings: Float32Array, anchors: Array
) -> Float32Array:
    """Return corners [boxes, 4]; centres and half sizes are float64 expressions rounded to float32."""
    scales = [np.float32(scale) for scale in call.parameters.scales]
    code = encodings[:, :COORDINATES].astype(np.float64) / np.array(scales, np.float64)
    centre, size = anchors[:, :2].astype(np.float64), anchors[:, 2:].astype(np.float64)
    middle = (code[:, :2] * size + centre).astype(np.float32)
    half = (0.5 * np.exp(code[:, 2:]) * size).astype(np.float32)
    corners = np.concatenate([middle - half, middle + half], axis=1)
    flipped = np.flatnonzero((corners[:, :2] > corners[:, 2:]).any(axis=1))
    if flipped.size:
        raise SimulationError(
            f"detection_post_process: box {flipped[0]} has its minimum above its maximum;"
            " anchors may not have negative height or width"
        )
    return corners


Selection = tuple[Int64Array, Int64Array, Int64Array, int]
"""Output rows, the box and the class of each, and the number of detections."""


def _tflite_fast(
    chosen_by: DetectionPostProcessParameters, boxes: Float32Array, scores: Float32Array
) -> Selection:
    """Suppress once, by the best class of each box; then take the best classes of each remaining box."""
    per_box = chosen_by.max_classes_per_detection
    kept = _suppress(chosen_by, boxes, scores.max(axis=1), chosen_by.max_detections)
    shown = min(per_box, scores.shape[1])
    classes = [number for box in kept for number in largest(scores[box].tolist(), shown)]
    rows = np.arange(len(kept))[:, None] * per_box + np.arange(shown)
    return rows.reshape(-1), np.repeat(kept, shown), np.array(classes, np.int64), len(kept)


def _tflite_regular(
    chosen_by: DetectionPostProcessParameters, boxes: Float32Array, scores: Float32Array
) -> Selection:
    """Suppress class by class; then take the best of all classes."""
    most = chosen_by.max_detections
    chosen, classes = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for number in range(scores.shape[1]):
        kept = _suppress(chosen_by, boxes, scores[:, number], chosen_by.detections_per_class)
        chosen = np.concatenate([chosen, kept])
        classes = np.concatenate([classes, np.full(len(kept), number)])
        best = decreasing(scores[chosen, classes])[:most]
        chosen, classes = chosen[best], classes[best]
    return np.arange(len(chosen)), chosen, classes, len(chosen)


def _suppress(
    chosen_by: DetectionPostProcessParameters,
    boxes: Float32Array,
    scores: Float32Array,
    most: int,
) -> Int64Array:
    """Return the boxes, best first and at most `most`, that overlap no better one by more than the threshold."""
    candidates = np.flatnonzero(scores >= np.float32(chosen_by.nms_score_threshold))
    candidates = candidates[decreasing(scores[candidates])]
    kept: list[int] = []
    while candidates.size and len(kept) < most:
        best, candidates = candidates[0], candidates[1:]
        kept.append(best)
        overlaps = _overlap(boxes[best], boxes[candidates])
        candidates = candidates[~(overlaps > np.float32(chosen_by.nms_iou_threshold))]
    return np.array(kept, np.int64)


def _overlap(box: Float32Array, others: Float32Array) -> Float32Array:
    """Return the intersection over union of a box with each of the others, 0 where one is empty."""
    own, areas = area(box), area(others)
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    sides = np.maximum(sides, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    solid = (own > 0) & (areas > 0)
    union = np.where(solid, own + areas - shared, np.float32(1))
    return np.where(solid, shared / union, np.float32(0))


def _tflite_workload(call: Call[DetectionPostProcessParameters]) -> Workload:
    """Return the upper bound of the work, which depends on the data: every detection compared with every box."""
    _, boxes, classes = input_type(call, _TFLITE_SCORES).shape
    asked = call.parameters
    overlaps = asked.max_detections * boxes
    if asked.use_regular_nms:
        overlaps = asked.detections_per_class * asked.num_classes * boxes
    operations = boxes * (classes + _OPERATIONS_PER_BOX) + overlaps * OPERATIONS_PER_OVERLAP
    return elementwise(call, operations)


# Rules


def _tflite_shapes(call: Call) -> bool:
    """boxes are [1, n, 4 or more], scores [1, n, classes], anchors [n, 4], with n of 1 or more"""
    boxes, scores, anchors = (input_type(call, position).shape for position in range(3))
    if (len(boxes), len(scores), len(anchors)) != (3, 3, 2):
        return False
    count = boxes[1]
    fits = scores[:2] == (1, count) and anchors == (count, COORDINATES)
    return fits and boxes[0] == 1 and count > 0 and boxes[2] >= COORDINATES


def _classes(call: Call[DetectionPostProcessParameters]) -> bool:
    """scores have num_classes columns, or one more for the background"""
    return input_type(call, _TFLITE_SCORES).shape[2] - call.parameters.num_classes in (0, 1)


def _numbers(call: Call[DetectionPostProcessParameters]) -> bool:
    """the box scales are not 0, and nms_iou_threshold is above 0 and at most 1"""
    return 0 not in call.parameters.scales and 0 < call.parameters.nms_iou_threshold <= 1


_output_shapes = rules.inferred(
    _tflite_infer,
    "outputs are [1, n, 4], [1, n], [1, n], [1] with n = max_detections * max_classes_per_detection",
)


DETECTION_POST_PROCESS = Operator(
    name="detection_post_process",
    parameters=DetectionPostProcessParameters,
    types=("float32, float32|uint8, float32 -> float32", "uint8, float32|uint8, uint8 -> float32"),
    rules=(
        rules.operands(3, 4),
        rules.per_tensor,
        _tflite_shapes,
        _classes,
        _numbers,
        _output_shapes,
    ),
    infer=_tflite_infer,
    reference=_reference,
    workload=_tflite_workload,
    on_host="the NPU has no floating-point unit and does not sort",
    defined=_detections,
)
"""Boxes decoded from anchors, then non-maximum suppression; TFLite's custom operator.

Inputs: box encodings [1, boxes, 4 or more] as (y, x, height, width), scores [1, boxes, classes] whose first column
may be the background, anchors [boxes, 4]. Outputs, all float32, with n = max_detections * max_classes_per_detection:
boxes [1, n, 4] as (ymin, xmin, ymax, xmax), classes [1, n], scores [1, n], and the number of detections [1].
Rows without a detection are zero (LiteRT leaves in them what was there).
"""


_NNAPI_SCORES, _DELTAS, _NNAPI_ANCHORS = range(3)


class DetectionPostprocessingParameters(parameters.Parameters):
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


def _nnapi_infer(call: Call[DetectionPostprocessingParameters]) -> Shapes:
    rows = input_type(call, _NNAPI_SCORES).shape[0], call.parameters.max_detections
    return rows, (*rows, COORDINATES), rows, rows[:1]


def _compute(call: Call[DetectionPostprocessingParameters], values: Values) -> list[Array]:
    scores, deltas, anchors = arrays(values, 3)
    outputs: list[Any] = [np.zeros(output.shape, output.numpy_dtype) for output in call.outputs]
    for image in range(len(scores)):
        boxes = _decoded(call.parameters, deltas[image, :, :COORDINATES], anchors)
        of_classes = scores[image, :, 1:]
        select = _nnapi_regular if call.parameters.regular else _nnapi_fast
        rows = select(call.parameters, boxes, of_classes)[: call.parameters.max_detections]
        for row, (box, number) in enumerate(rows):
            outputs[0][image, row] = of_classes[box, number]
            outputs[1][image, row] = boxes[box]
            outputs[2][image, row] = number + (1 if call.parameters.background else 0)
        outputs[3][image] = len(rows)
    return outputs


def _decoded(
    asked: DetectionPostprocessingParameters, deltas: Float32Array, anchors: Float32Array
) -> Float32Array:
    """Return corners (y1, x1, y2, x2)."""
    scaled = deltas / np.array(asked.scales, np.float32)
    centre = anchors[:, :2] + scaled[:, :2] * anchors[:, 2:]
    with np.errstate(over="ignore"):
        half = np.exp(scaled[:, 2:]) * anchors[:, 2:] / np.float32(2)
    return np.concatenate([centre - half, centre + half], axis=1)


Rows = list[tuple[int, int]]
"""Box, and class without the background, of each detection."""


def _suppressed(
    asked: DetectionPostprocessingParameters, boxes: Float32Array, scores: Float32Array, most: int
) -> list[int]:
    candidates = np.flatnonzero(scores > np.float32(asked.score_threshold))
    kept, _ = suppressed(boxes[candidates], scores[candidates], most, hard(asked.iou_threshold), -np.inf)
    return [int(box) for box in candidates[kept]]


def _nnapi_regular(
    asked: DetectionPostprocessingParameters, boxes: Float32Array, scores: Float32Array
) -> Rows:
    rows: Rows = []
    for number in range(scores.shape[1]):
        kept = _suppressed(asked, boxes, scores[:, number], asked.detections_per_class)
        rows += [(box, number) for box in kept]
    best = decreasing(np.array([scores[row] for row in rows], np.float32))
    return [rows[one] for one in best]


def _nnapi_fast(asked: DetectionPostprocessingParameters, boxes: Float32Array, scores: Float32Array) -> Rows:
    if scores.shape[1] == 0:
        return []
    shown = min(asked.max_classes_per_detection, scores.shape[1])
    kept = _suppressed(asked, boxes, scores.max(axis=1), asked.max_detections)
    return [(box, int(number)) for box in kept for number in decreasing(scores[box])[:shown]]


def _nnapi_workload(call: Call[DetectionPostprocessingParameters]) -> Workload:
    """Return the upper bound of the work, which depends on the data: every detection compared with every box."""
    images, boxes, classes = input_type(call, _NNAPI_SCORES).shape
    asked = call.parameters
    chosen = asked.detections_per_class * max(classes - 1, 0) if asked.regular else asked.max_detections
    per_box = classes + OPERATIONS_PER_TRANSFORM
    return elementwise(
        call, images * boxes * (per_box + min(chosen, boxes * classes) * OPERATIONS_PER_OVERLAP)
    )


# Rules


def _nnapi_shapes(call: Call) -> bool:
    """scores are [images, n, 1 or more], deltas [images, n, 4 or more], anchors [n, 4], outputs have max_detections"""
    scores, deltas, anchors = (input_type(call, position).shape for position in range(3))
    if (len(scores), len(deltas)) != (3, 3) or anchors != (scores[1], COORDINATES):
        return False
    fits = deltas[:2] == scores[:2] and deltas[2] >= COORDINATES and scores[2] >= 1
    return fits and _nnapi_infer(call) == call.output_shapes


def _scales(call: Call[DetectionPostprocessingParameters]) -> bool:
    """the scales are not 0"""
    return 0 not in call.parameters.scales


DETECTION_POSTPROCESSING = Operator(
    name="detection_postprocessing",
    parameters=DetectionPostprocessingParameters,
    types=("float32 -> float32, float32, int32", "float16 -> float16, float16, int32"),
    rules=(rules.operands(3, 4), _nnapi_shapes, _scales),
    infer=_nnapi_infer,
    reference=in_float32(_compute),
    workload=_nnapi_workload,
    on_host="the NPU has no floating-point unit and does not sort",
)
"""Boxes decoded from anchors, then non-maximum suppression; NNAPI's operation.

Inputs: scores [images, anchors, classes], of which class 0 is the background; deltas [images, anchors, 4 or more] as
(dy, dx, log dh, log dw); anchors [anchors, 4] as (centre y, centre x, height, width). Outputs, with n = max_detections:
scores [images, n], boxes [images, n, 4] as (y1, x1, y2, x2), classes [images, n], and the number of detections
[images]; rows without one are 0.
"""


OPERATORS = (
    DETECTION_POST_PROCESS,
    DETECTION_POSTPROCESSING,
)
