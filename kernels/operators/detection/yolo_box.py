"""yolo_box: the output of a YOLOv3 head as boxes in the image and scores of classes.

Inputs: predictions [n, h, w, channels] and the height and width of each image [n, 2]. The channels are for each anchor
(x, y, width, height, objectness, a score per class), behind one for the overlap of each anchor if `overlap_share` is
said. Outputs, anchor by anchor: boxes [n, anchors * h * w, 4] as (x1, y1, x2, y2), scores [n, anchors * h * w,
classes]; those whose confidence is below the threshold are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count, Pair
from npusim.kernels.operators.detection.boxes import COORDINATES
from npusim.kernels.operators.detection.reals import in_reals

_OPERATIONS_PER_BOX = (
    60  # five logistic and exponential functions of about eight each, products, corners, limits
)
_OPERATIONS_PER_SCORE = 9
_BEFORE_SCORES = 5

Floats = NDArray[np.float32]


class Parameters(parameters.Parameters):
    """anchors: their (width, height) in pixels of the network's input, which is `stride` times the predictions.

    threshold:     confidence from which on there is a box.
    clip:          boxes are limited to the image.
    scale:         how far centres may leave their cell: times so much, around its middle.
    overlap_share: of the predicted overlap in the confidence, where there is one.
    """

    anchors: tuple[Pair, ...]
    classes: Count
    threshold: float
    stride: Count
    clip: bool = True
    scale: float = 1.0
    overlap_share: float | None = None


def _infer(call: Call[Parameters]) -> Shapes:
    """A box and a score per class for each anchor and pixel."""
    images, height, width, _ = input_type(call).shape
    count = len(call.parameters.anchors) * height * width
    return (images, count, COORDINATES), (images, count, call.parameters.classes)


def _compute(call: Call[Parameters], values: Values) -> list[Array]:
    how, sizes = call.parameters, input_value(values, 1)
    predictions: Any = input_value(values)
    images, height, width, _ = predictions.shape
    anchors = len(how.anchors)
    overlaps = anchors if how.overlap_share is not None else 0
    x = predictions[..., overlaps:].reshape(images, height, width, anchors, _BEFORE_SCORES + how.classes)
    x = x.transpose(0, 3, 1, 2, 4)
    confidence = _logistic(x[..., 4])
    if how.overlap_share is not None:
        overlap = _logistic(predictions[..., :overlaps].transpose(0, 3, 1, 2))
        share = np.float32(how.overlap_share)
        confidence = confidence ** (1 - share) * overlap**share
    there = confidence >= np.float32(how.threshold)
    boxes = np.where(there[..., None], _boxes(how, x, sizes), np.float32(0))
    scores = np.where(there[..., None], confidence[..., None] * _logistic(x[..., 5:]), np.float32(0))
    shapes = [output.shape for output in call.outputs]
    return [
        np.ascontiguousarray(each).reshape(shape) for each, shape in zip((boxes, scores), shapes, strict=True)
    ]


def _boxes(how: Parameters, x: Floats, sizes: Array) -> Floats:
    """Predictions [n, anchors, h, w, 5 + classes] as corners [n, anchors, h, w, 4]."""
    _, _, height, width, _ = x.shape
    image_height, image_width = (sizes[:, at].astype(np.float32).reshape(-1, 1, 1, 1) for at in (0, 1))
    wide, high = (np.array(side, np.float32).reshape(1, -1, 1, 1) for side in zip(*how.anchors, strict=True))
    scale, shift = np.float32(how.scale), np.float32(-0.5 * (how.scale - 1))
    columns, rows = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)[:, None]
    middle_x = (columns + _logistic(x[..., 0]) * scale + shift) * image_width / np.float32(width)
    middle_y = (rows + _logistic(x[..., 1]) * scale + shift) * image_height / np.float32(height)
    half_width = np.exp(x[..., 2]) * wide * image_width / np.float32(how.stride * width) / 2
    half_height = np.exp(x[..., 3]) * high * image_height / np.float32(how.stride * height) / 2
    left, right = middle_x - half_width, middle_x + half_width
    top, bottom = middle_y - half_height, middle_y + half_height
    if how.clip:
        left, top = np.maximum(left, 0), np.maximum(top, 0)
        right, bottom = np.minimum(right, image_width - 1), np.minimum(bottom, image_height - 1)
    return np.stack([left, top, right, bottom], axis=-1).astype(np.float32)


def _logistic(x: Any) -> Floats:
    numbers: Floats = np.float32(1) / (np.float32(1) + np.exp(-x))
    return numbers


def _workload(call: Call[Parameters]) -> Workload:
    boxes, scores = call.outputs
    operations = boxes.elements // COORDINATES * _OPERATIONS_PER_BOX + scores.elements * _OPERATIONS_PER_SCORE
    return elementwise(call, operations)


def _shapes(call: Call[Parameters]) -> bool:
    """predictions are [n, h, w, anchors * (5 + classes)], one more each with overlap_share; sizes of images [n, 2]"""
    how, predictions, sizes = call.parameters, input_type(call).shape, input_type(call, 1).shape
    each = _BEFORE_SCORES + how.classes + (how.overlap_share is not None)
    if len(predictions) != 4 or sizes != (predictions[0], 2) or min(predictions[1:3]) < 1:
        return False
    return predictions[3] == len(how.anchors) * each and len(how.anchors) > 0


def _outputs(call: Call) -> bool:
    """outputs are [n, anchors * h * w, 4] and [n, anchors * h * w, classes]"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


OPERATOR = Operator(
    name="yolo_box",
    parameters=Parameters,
    types=("float32, int32 -> float32", "float16, int32 -> float16"),
    rules=(rules.operands(2, 2), _shapes, _outputs),
    infer=_infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="few steps of many kinds on real numbers",
)
