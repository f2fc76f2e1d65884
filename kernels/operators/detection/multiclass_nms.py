"""multiclass_nms: non-maximum suppression class by class, then the best of all classes, image by image.

Inputs: boxes [n, m, 4] as (x1, y1, x2, y2) and scores [n, classes, m]; or boxes [m, classes, 4] and scores
[m, classes], of which the third input [n] says how many, in order, each image has. Outputs, with as many rows as there
can be: detections [rows, 6] as (class, score, x1, y1, x2, y2), the number of each among all boxes [rows], how many
each image has [n], and how many there are [1]; the rest is 0. Rows are in the order of images, then of classes, then of
falling scores, or of boxes where these are by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array, Float32Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Step
from npusim.kernels.operators.detection.boxes import (
    COORDINATES,
    OPERATIONS_PER_OVERLAP,
    decreasing,
    filled,
    in_float32,
)

_BOXES, _SCORES, _COUNTS = range(3)
_COLUMNS = 6
_DETECTIONS, _NUMBERS, _BY_IMAGE, _ROWS = range(4)
_LEAST_SHRUNK = 0.5


class Parameters(parameters.Parameters):
    """score_threshold: scores not above it are not looked at.

    background:     the class that is left out; negative for none.
    most_looked_at: of a class, the best; negative for any number.
    most_kept:      of an image, the best; negative for any number.
    iou_threshold:  boxes that overlap a chosen one by more go.
    shrink:         what the threshold, while it is above 0.5, is multiplied by after each choice.
    normalized:     a box is as wide as its corners are apart; otherwise one more, its corners being pixels.
    """

    score_threshold: float
    iou_threshold: float
    background: Step = -1
    most_looked_at: Step = -1
    most_kept: Step = -1
    shrink: float = 1.0
    normalized: bool = True


class _Image(NamedTuple):
    """An image's boxes [classes or 1, m, 4] and scores [classes, m], and the number of the first box or score."""

    boxes: Float32Array
    scores: Float32Array
    first: int


class _Detection(NamedTuple):
    label: int
    box: int


def _by_class(call: Call) -> bool:
    """Return True if every class has boxes of its own."""
    return len(input_type(call, _SCORES).shape) == 2


def _most(call: Call[Parameters]) -> tuple[int, int]:
    """Return how many images there are, and how many rows there can be."""
    parameters, scores = call.parameters, input_type(call, _SCORES).shape
    if _by_class(call):
        images = input_type(call, _COUNTS).elements
        boxes, classes = scores
        rows = boxes * _foreground(parameters, classes)
        return images, rows if parameters.most_kept < 0 else min(rows, images * parameters.most_kept)
    images, classes, boxes = scores
    looked_at = boxes if parameters.most_looked_at < 0 else min(boxes, parameters.most_looked_at)
    of_image = looked_at * _foreground(parameters, classes)
    return images, images * (of_image if parameters.most_kept < 0 else min(of_image, parameters.most_kept))


def _foreground(parameters: Parameters, classes: int) -> int:
    return classes - (0 <= parameters.background < classes)


def _infer(call: Call[Parameters]) -> Shapes:
    """Return shapes with as many rows as there can be."""
    images, rows = _most(call)
    return (rows, _COLUMNS), (rows,), (images,), (1,)


def _compute(call: Call[Parameters], values: Values) -> list[Array]:
    parameters, rows, numbers, counts = call.parameters, list[Any](), list[int](), list[int]()
    for image in _images(call, values):
        detections = _detected(image, parameters, _by_class(call))
        classes = len(image.scores)
        for label, box in detections:
            corners = image.boxes[label if _by_class(call) else 0, box]
            rows.append([label, image.scores[label, box], *corners])
            numbers.append(image.first + (box * classes + label if _by_class(call) else box))
        counts.append(len(detections))
    return [
        filled(call.outputs[_DETECTIONS], rows),
        filled(call.outputs[_NUMBERS], numbers),
        np.array(counts, np.int32),
        np.array([len(rows)], np.int32),
    ]


def _images(call: Call, values: Values) -> list[_Image]:
    boxes: Any = input_value(values, _BOXES)
    scores: Any = input_value(values, _SCORES)
    if not _by_class(call):
        images = enumerate(zip(boxes, scores, strict=True))
        return [_Image(of_image[None], by_class, n * boxes.shape[1]) for n, (of_image, by_class) in images]
    counts: Any = input_value(values, _COUNTS).reshape(-1)
    if counts.min(initial=0) < 0 or counts.sum() != len(boxes):
        raise OperandFault(f"images have {counts.tolist()} boxes, which are not {len(boxes)} together")
    ends = np.cumsum(counts)
    return [
        _Image(boxes[begin:end].swapaxes(0, 1), scores[begin:end].T, int(begin) * scores.shape[1])
        for begin, end in zip(ends - counts, ends, strict=True)
    ]


def _detected(image: _Image, parameters: Parameters, by_class: bool) -> list[_Detection]:
    """Return the boxes of an image that are kept, in their order."""
    detections: list[_Detection] = []
    for label in range(len(image.scores)):
        if label != parameters.background:
            chosen = _chosen(image.boxes[label if by_class else 0], image.scores[label], parameters)
            detections += [_Detection(label, box) for box in (sorted(chosen) if by_class else chosen)]
    if not 0 <= parameters.most_kept < len(detections):
        return detections
    best = decreasing(np.array([image.scores[label, box] for label, box in detections], np.float32))
    kept = [detections[place] for place in best[: parameters.most_kept]]
    return sorted(kept) if by_class else sorted(kept, key=lambda detection: detection.label)


def _chosen(boxes: Float32Array, scores: Float32Array, parameters: Parameters) -> list[int]:
    """Return the boxes of a class that are left, best first."""
    candidates = np.flatnonzero(scores > np.float32(parameters.score_threshold))
    candidates = candidates[decreasing(scores[candidates])]
    if parameters.most_looked_at >= 0:
        candidates = candidates[: parameters.most_looked_at]
    threshold, chosen = np.float32(parameters.iou_threshold), list[int]()
    for box in candidates.tolist():
        if (_overlaps(boxes[box], boxes[chosen], parameters.normalized) <= threshold).all():
            chosen.append(box)
            if parameters.shrink < 1 and threshold > _LEAST_SHRUNK:
                threshold *= np.float32(parameters.shrink)
    return chosen


def _overlaps(box: Float32Array, others: Float32Array, normalized: bool) -> Float32Array:
    """Intersection over union of a box with each of the others."""
    one = np.float32(not normalized)
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    apart = (low > high).any(axis=1)
    shared = np.prod(high - low + one, axis=1)
    union = _area(box, one) + _area(others, one) - shared
    shares: Float32Array = np.where(apart, np.float32(0), shared / union)
    return shares


def _area(boxes: Float32Array, one: np.float32) -> Float32Array:
    sides = boxes[..., 2:] - boxes[..., :2]
    areas: Float32Array = np.where((sides < 0).any(axis=-1), np.float32(0), np.prod(sides + one, axis=-1))
    return areas


def _defined(outputs: Sequence[Array]) -> list[Array]:
    """Return the rows that hold a detection."""
    rows = int(outputs[_ROWS].reshape(-1)[0])
    return [np.ascontiguousarray(output[:rows]) for output in outputs[:_BY_IMAGE]] + list(outputs[_BY_IMAGE:])


def _workload(call: Call[Parameters]) -> Workload:
    """Suppression depends on the data; counted is its bound: each box of a class is compared with all that are kept."""
    parameters, scores = call.parameters, input_type(call, _SCORES)
    classes = scores.shape[1]
    boxes = scores.elements // max(classes, 1)
    looked_at = boxes if parameters.most_looked_at < 0 else min(boxes, parameters.most_looked_at)
    kept = looked_at if parameters.most_kept < 0 else min(looked_at, parameters.most_kept)
    compared = classes * looked_at * kept * OPERATIONS_PER_OVERLAP
    return elementwise(call, scores.elements + compared)


# Rules


def _operands(call: Call) -> bool:
    """takes boxes, scores, and how many of them each image has if classes have their own; gives 4 outputs"""
    count = len([tensor for tensor in call.inputs if tensor is not None])
    has_operands = len(call.inputs) >= 2 and call.inputs[0] is not None and call.inputs[1] is not None
    return has_operands and len(call.outputs) == 4 and len(call.inputs) <= 3 and count == 2 + _by_class(call)


def _shapes(call: Call) -> bool:
    """boxes and scores are [n, m, 4], [n, classes, m]; or [m, classes, 4], [m, classes], how many each image has [n]"""
    boxes, scores = input_type(call, _BOXES).shape, input_type(call, _SCORES).shape
    if _by_class(call):
        return boxes == (*scores, COORDINATES) and len(input_type(call, _COUNTS).shape) == 1
    return len(scores) == 3 and boxes == (scores[0], scores[2], COORDINATES)


_outputs = rules.inferred(_infer, "outputs have a row for each box that can be kept")


MULTICLASS_NMS = Operator(
    name="multiclass_nms",
    parameters=Parameters,
    types=("float32, float32, int32 -> float32, int32", "float16, float16, int32 -> float16, int32"),
    rules=(_operands, _shapes, _outputs),
    infer=_infer,
    reference=in_float32(_compute),
    workload=_workload,
    on_host="the NPU does not sort",
    defined=_defined,
)

OPERATORS = (MULTICLASS_NMS,)
