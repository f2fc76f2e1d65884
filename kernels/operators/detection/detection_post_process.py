"""detection_post_process: boxes decoded from anchors, then non-maximum suppression; TFLite's custom operator.

Inputs: box encodings [1, boxes, 4 or more] as (y, x, height, width), scores [1, boxes, classes] whose first column
may be the background, anchors [boxes, 4]. Outputs, all float32, with n = max_detections * max_classes_per_detection:
boxes [1, n, 4] as (ymin, xmin, ymax, xmax), classes [1, n], scores [1, n], and the number of detections [1].
Rows without a detection are zero (LiteRT leaves in them what was there).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operators.reduction.partial_sort import largest

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

_BOXES, _SCORES, _ANCHORS = range(3)
_COORDINATES = 4
_NUMBER = 3  # the output that counts detections
_OPERATIONS_PER_BOX = 12  # to decode it
_OPERATIONS_PER_OVERLAP = 12  # four comparisons, four differences, two products, a sum, a quotient


class Parameters(parameters.Parameters):
    """How many detections and classes, what suppresses a box, and the scales of the encodings."""

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
        """Of y, x, height and width."""
        return self.y_scale, self.x_scale, self.h_scale, self.w_scale


def _infer(call: Call[Parameters]) -> Shapes:
    """Boxes, classes, scores and their number, for the batch of one that the kernel takes."""
    rows = call.parameters.max_detections * call.parameters.max_classes_per_detection
    return (1, rows, _COORDINATES), (1, rows), (1, rows), (1,)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    boxes = _decode(call, _real(call, values, _BOXES)[0], _real(call, values, _ANCHORS))
    scores = _real(call, values, _SCORES)[0]
    scores = scores[:, scores.shape[1] - call.parameters.num_classes :]  # without the background
    select = _regular if call.parameters.use_regular_nms else _fast
    rows, chosen, classes, count = select(call.parameters, boxes, scores)
    outputs = [np.zeros(output.shape, np.float32) for output in call.outputs]
    outputs[0][0, rows] = boxes[chosen]
    outputs[1][0, rows] = classes
    outputs[2][0, rows] = scores[chosen, classes]
    outputs[3][0] = count
    return list(outputs)


def _detections(outputs: Sequence[Array]) -> list[Array]:
    """The rows that hold a detection."""
    count = int(outputs[_NUMBER].reshape(-1)[0])
    return [*(np.ascontiguousarray(each[:, :count]) for each in outputs[:_NUMBER]), outputs[_NUMBER]]


def _real(call: Call, values: Values, position: int) -> Float32Array:
    tensor, value = input_type(call, position), input_value(values, position)
    if tensor.quantization is None or tensor.real:
        return value.astype(np.float32, copy=False)
    codes = value.astype(np.float32) - np.float32(tensor.quantization.zero_point)
    return codes * np.float32(tensor.quantization.scale)


def _decode(call: Call[Parameters], encodings: Float32Array, anchors: Float32Array) -> Float32Array:
    """Corners [boxes, 4]; centres and half sizes are float64 expressions rounded to float32."""
    scales = [np.float32(scale) for scale in call.parameters.scales]
    code = encodings[:, :_COORDINATES].astype(np.float64) / np.array(scales, np.float64)
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


Selection = tuple[IntArray, IntArray, IntArray, int]
"""Output rows, the box and the class of each, and the number of detections."""


def _fast(chosen_by: Parameters, boxes: Float32Array, scores: Float32Array) -> Selection:
    """Suppression once, by the best class of each box; then the best classes of each box that is left."""
    per_box = chosen_by.max_classes_per_detection
    kept = _suppress(chosen_by, boxes, scores.max(axis=1), chosen_by.max_detections)
    shown = min(per_box, scores.shape[1])
    classes = [number for box in kept for number in largest(scores[box].tolist(), shown)]
    rows = np.arange(len(kept))[:, None] * per_box + np.arange(shown)
    return rows.reshape(-1), np.repeat(kept, shown), np.array(classes, np.int64), len(kept)


def _regular(chosen_by: Parameters, boxes: Float32Array, scores: Float32Array) -> Selection:
    """Suppression class by class; then the best of all classes."""
    most = chosen_by.max_detections
    chosen, classes = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for number in range(scores.shape[1]):
        kept = _suppress(chosen_by, boxes, scores[:, number], chosen_by.detections_per_class)
        chosen = np.concatenate([chosen, kept])
        classes = np.concatenate([classes, np.full(len(kept), number)])
        best = _decreasing(scores[chosen, classes])[:most]
        chosen, classes = chosen[best], classes[best]
    return np.arange(len(chosen)), chosen, classes, len(chosen)


def _decreasing(values: Float32Array) -> IntArray:
    """Positions from the largest value down; equal values stay in order."""
    return np.argsort(-values, kind="stable")


def _suppress(chosen_by: Parameters, boxes: Float32Array, scores: Float32Array, most: int) -> IntArray:
    """The boxes, best first and at most `most`, that overlap no better one by more than the threshold."""
    candidates = np.flatnonzero(scores >= np.float32(chosen_by.nms_score_threshold))
    candidates = candidates[_decreasing(scores[candidates])]
    kept: list[int] = []
    while candidates.size and len(kept) < most:
        best, candidates = candidates[0], candidates[1:]
        kept.append(best)
        overlaps = _overlap(boxes[best], boxes[candidates])
        candidates = candidates[~(overlaps > np.float32(chosen_by.nms_iou_threshold))]
    return np.array(kept, np.int64)


def _overlap(box: Float32Array, others: Float32Array) -> Float32Array:
    """Intersection over union of a box with each of the others, 0 where one is empty."""
    area, areas = _area(box), _area(others)
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    sides = np.maximum(sides, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    solid = (area > 0) & (areas > 0)
    union = np.where(solid, area + areas - shared, np.float32(1))
    return np.where(solid, shared / union, np.float32(0))


def _area(boxes: Float32Array) -> Float32Array:
    sides = boxes[..., 2:] - boxes[..., :2]
    area: Float32Array = sides[..., 0] * sides[..., 1]
    return area


def _workload(call: Call[Parameters]) -> Workload:
    """Suppression depends on the data; counted is its bound, every detection compared with every box."""
    _, boxes, classes = input_type(call, _SCORES).shape
    asked = call.parameters
    overlaps = asked.max_detections * boxes
    if asked.use_regular_nms:
        overlaps = asked.detections_per_class * asked.num_classes * boxes
    operations = boxes * (classes + _OPERATIONS_PER_BOX) + overlaps * _OPERATIONS_PER_OVERLAP
    return elementwise(call, operations)


# Rules


def _shapes(call: Call) -> bool:
    """boxes are [1, n, 4 or more], scores [1, n, classes], anchors [n, 4], with n of 1 or more"""
    boxes, scores, anchors = (input_type(call, position).shape for position in range(3))
    if (len(boxes), len(scores), len(anchors)) != (3, 3, 2):
        return False
    count = boxes[1]
    fits = scores[:2] == (1, count) and anchors == (count, _COORDINATES)
    return fits and boxes[0] == 1 and count > 0 and boxes[2] >= _COORDINATES


def _classes(call: Call[Parameters]) -> bool:
    """scores have num_classes columns, or one more for the background"""
    return input_type(call, _SCORES).shape[2] - call.parameters.num_classes in (0, 1)


def _numbers(call: Call[Parameters]) -> bool:
    """the box scales are not 0, and nms_iou_threshold lies in 0..1 without 0"""
    return 0 not in call.parameters.scales and 0 < call.parameters.nms_iou_threshold <= 1


def _output_shapes(call: Call[Parameters]) -> bool:
    """outputs are [1, n, 4], [1, n], [1, n], [1] with n = max_detections * max_classes_per_detection"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="detection_post_process",
    parameters=Parameters,
    types=("float32, float32|uint8, float32 -> float32", "uint8, float32|uint8, uint8 -> float32"),
    rules=(
        rules.operands(3, 4),
        rules.per_tensor,
        _shapes,
        _classes,
        _numbers,
        _output_shapes,
    ),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="the NPU has no floating-point unit and does not sort",
    defined=_detections,
)
