"""Boxes of anchors: prior boxes of SSD and boxes of YOLO."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Float32Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count, Pair, Size
from npusim.kernels.operators.detection.boxes import COORDINATES, in_float32
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters

_SAME = 1e-6
"""Aspect ratios that differ by less count as one."""
_OPERATIONS_PER_CORNER = 3


class PriorBoxParameters(parameters.Parameters):
    """least, most: sizes of square boxes in pixels of the image: each least one, and with as many most ones the mean of
    both, sqrt(least * most). aspects: widths over heights of further boxes as large as the least; `flip` has their
    inverses, too.

    variances: of the four corners. clip: boxes lie in the image.
    steps:     pixels of the image from one of the map to the next, down and right; without, by their sizes.
    offset:    where in a pixel boxes have their middle.
    means_first: the box of the mean size comes before those of other aspects.
    spatial:   the axes of the inputs that are height and width.
    """

    least: tuple[float, ...]
    most: tuple[float, ...] = ()
    aspects: tuple[float, ...] = ()
    variances: tuple[float, float, float, float]
    flip: bool = False
    clip: bool = False
    steps: tuple[float, float] | None = None
    offset: float = 0.5
    means_first: bool = False
    spatial: tuple[Size, Size] = (1, 2)


def _aspects(parameters: PriorBoxParameters) -> list[float]:
    """Return 1, then the aspect ratios that differ from it and from each other, each followed by its inverse."""
    aspects = [1.0]
    for aspect in parameters.aspects:
        if all(abs(aspect - other) >= _SAME for other in aspects):
            aspects += [aspect, 1 / aspect] if parameters.flip else [aspect]
    return aspects


def _sizes(parameters: PriorBoxParameters) -> list[tuple[float, float]]:
    """Return width and height of the boxes around a pixel, in order."""
    sizes = []
    for position, least in enumerate(parameters.least):
        boxes = [(least * sqrt(aspect), least / sqrt(aspect)) for aspect in _aspects(parameters)]
        if parameters.most:
            mean = sqrt(least * parameters.most[position])
            boxes.insert(1 if parameters.means_first else len(boxes), (mean, mean))
        sizes += boxes
    return sizes


def _plane(call: Call[PriorBoxParameters], position: int) -> tuple[int, int]:
    shape, (height, width) = input_type(call, position).shape, call.parameters.spatial
    return shape[height], shape[width]


def _prior_box_infer(call: Call[PriorBoxParameters]) -> Shapes:
    """Return the shape for boxes of every size around each pixel of the feature map."""
    shape = (*_plane(call, 0), len(_sizes(call.parameters)), COORDINATES)
    return shape, shape


def priors(call: Call[PriorBoxParameters]) -> list[Array]:
    """Return boxes and variances, which depend on sizes only."""
    parameters = call.parameters
    (height, width), (image_height, image_width) = _plane(call, 0), _plane(call, 1)
    down, right = parameters.steps or (image_height / height, image_width / width)
    sizes: Any = np.array(_sizes(parameters), np.float64)
    y = ((np.arange(height) + parameters.offset) * down)[:, None, None]
    x = ((np.arange(width) + parameters.offset) * right)[:, None]
    half_width, half_height = sizes[:, 0] / 2, sizes[:, 1] / 2
    corners = [(x - half_width) / image_width, (y - half_height) / image_height]
    corners += [(x + half_width) / image_width, (y + half_height) / image_height]
    boxes = np.stack(np.broadcast_arrays(*corners), axis=-1).astype(np.float32)
    if parameters.clip:
        boxes = np.clip(boxes, np.float32(0), np.float32(1))
    return [boxes, np.broadcast_to(np.array(parameters.variances, np.float32), boxes.shape).copy()]


def _reference(call: Call[PriorBoxParameters], values: Values) -> list[Array]:
    return [box.astype(tensor.numpy_dtype) for box, tensor in zip(priors(call), call.outputs, strict=True)]


def _constants(call: Call[PriorBoxParameters]) -> Expansion:
    """Expand to copies of constants: nothing is left to compute."""
    body = Expansion(len(call.inputs))
    for name, data, output in zip(("boxes", "variances"), priors(call), call.outputs, strict=True):
        constant = body.constant(data.astype(output.numpy_dtype))
        shape = ReshapeParameters(shape=output.shape)
        body.results += body.call(name, "reshape", (constant,), [output], shape)
    return body


def _prior_box_workload(call: Call) -> Workload:
    """Return work that does not read the elements of the inputs."""
    return replace(elementwise(call, call.outputs[0].elements * _OPERATIONS_PER_CORNER), input_bytes=0)


# Rules


def _planes(call: Call[PriorBoxParameters]) -> bool:
    """inputs have four dimensions, of which spatial names height and width, and these are not 0"""
    shapes = [input_type(call, position).shape for position in (0, 1)]
    axes = call.parameters.spatial
    return all(
        len(shape) == 4 and max(axes) < 4 and min(shape[axis] for axis in axes) > 0 for shape in shapes
    )


def _parameters(call: Call[PriorBoxParameters]) -> bool:
    """sizes, aspects and steps are above 0; there is at least one smallest size, and no or as many largest ones"""
    parameters = call.parameters
    numbers = (*parameters.least, *parameters.most, *parameters.aspects, *(parameters.steps or ()))
    return (
        len(parameters.least) > 0
        and len(parameters.most) in (0, len(parameters.least))
        and all(number > 0 for number in numbers)
    )


_prior_box_outputs = rules.inferred(
    _prior_box_infer,
    "outputs are [height, width, boxes around a pixel, 4], height and width those of the feature map",
)


PRIOR_BOX = Operator(
    name="prior_box",
    parameters=PriorBoxParameters,
    types=("float32|float16|int8|uint8 -> float32",),
    rules=(rules.operands(2, 2), _planes, _parameters, _prior_box_outputs),
    infer=_prior_box_infer,
    reference=_reference,
    workload=_prior_box_workload,
    expand=_constants,
    on_host="its results are constants, which the NPU copies",
)
"""The boxes that an SSD detector starts from, several around each pixel of a feature map.

Inputs, of which only height and width are looked at: the feature map and the image, [n, h, w, c]. Outputs: boxes
[h, w, priors, 4] as (x1, y1, x2, y2), 1 being the size of the image, and their variances, the same for all.
"""


_OPERATIONS_PER_BOX = (
    60  # five logistic and exponential functions of about eight each, products, corners, limits
)
_OPERATIONS_PER_SCORE = 9
_BEFORE_SCORES = 5


class YoloBoxParameters(parameters.Parameters):
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


def _yolo_box_infer(call: Call[YoloBoxParameters]) -> Shapes:
    """Return a box and a score per class for each anchor and pixel."""
    images, height, width, _ = input_type(call).shape
    count = len(call.parameters.anchors) * height * width
    return (images, count, COORDINATES), (images, count, call.parameters.classes)


def _compute(call: Call[YoloBoxParameters], values: Values) -> list[Array]:
    parameters, sizes = call.parameters, input_value(values, 1)
    predictions: Any = input_value(values)
    images, height, width, _ = predictions.shape
    anchors = len(parameters.anchors)
    overlaps = anchors if parameters.overlap_share is not None else 0
    x = predictions[..., overlaps:].reshape(
        images, height, width, anchors, _BEFORE_SCORES + parameters.classes
    )
    x = x.transpose(0, 3, 1, 2, 4)
    confidence = _logistic(x[..., 4])
    if parameters.overlap_share is not None:
        overlap = _logistic(predictions[..., :overlaps].transpose(0, 3, 1, 2))
        share = np.float32(parameters.overlap_share)
        confidence = confidence ** (1 - share) * overlap**share
    confident = confidence >= np.float32(parameters.threshold)
    boxes = np.where(confident[..., None], _boxes(parameters, x, sizes), np.float32(0))
    scores = np.where(confident[..., None], confidence[..., None] * _logistic(x[..., 5:]), np.float32(0))
    shapes = [output.shape for output in call.outputs]
    return [
        np.ascontiguousarray(array).reshape(shape)
        for array, shape in zip((boxes, scores), shapes, strict=True)
    ]


def _boxes(parameters: YoloBoxParameters, x: Float32Array, sizes: Array) -> Float32Array:
    """Decode predictions [n, anchors, h, w, 5 + classes] to corners [n, anchors, h, w, 4]."""
    _, _, height, width, _ = x.shape
    image_height, image_width = (sizes[:, at].astype(np.float32).reshape(-1, 1, 1, 1) for at in (0, 1))
    wide, high = (
        np.array(side, np.float32).reshape(1, -1, 1, 1) for side in zip(*parameters.anchors, strict=True)
    )
    scale, shift = np.float32(parameters.scale), np.float32(-0.5 * (parameters.scale - 1))
    columns, rows = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)[:, None]
    middle_x = (columns + _logistic(x[..., 0]) * scale + shift) * image_width / np.float32(width)
    middle_y = (rows + _logistic(x[..., 1]) * scale + shift) * image_height / np.float32(height)
    half_width = np.exp(x[..., 2]) * wide * image_width / np.float32(parameters.stride * width) / 2
    half_height = np.exp(x[..., 3]) * high * image_height / np.float32(parameters.stride * height) / 2
    left, right = middle_x - half_width, middle_x + half_width
    top, bottom = middle_y - half_height, middle_y + half_height
    if parameters.clip:
        left, top = np.maximum(left, 0), np.maximum(top, 0)
        right, bottom = np.minimum(right, image_width - 1), np.minimum(bottom, image_height - 1)
    return np.stack([left, top, right, bottom], axis=-1).astype(np.float32)


def _logistic(x: Any) -> Float32Array:
    numbers: Float32Array = np.float32(1) / (np.float32(1) + np.exp(-x))
    return numbers


def _yolo_box_workload(call: Call[YoloBoxParameters]) -> Workload:
    boxes, scores = call.outputs
    operations = boxes.elements // COORDINATES * _OPERATIONS_PER_BOX + scores.elements * _OPERATIONS_PER_SCORE
    return elementwise(call, operations)


def _shapes(call: Call[YoloBoxParameters]) -> bool:
    """predictions are [n, h, w, anchors * (5 + classes)], one more each with overlap_share; sizes of images [n, 2]"""
    parameters, predictions, sizes = call.parameters, input_type(call).shape, input_type(call, 1).shape
    channels = _BEFORE_SCORES + parameters.classes + (parameters.overlap_share is not None)
    if len(predictions) != 4 or sizes != (predictions[0], 2) or min(predictions[1:3]) < 1:
        return False
    return predictions[3] == len(parameters.anchors) * channels and len(parameters.anchors) > 0


_yolo_box_outputs = rules.inferred(
    _yolo_box_infer, "outputs are [n, anchors * h * w, 4] and [n, anchors * h * w, classes]"
)


YOLO_BOX = Operator(
    name="yolo_box",
    parameters=YoloBoxParameters,
    types=("float32, int32 -> float32", "float16, int32 -> float16"),
    rules=(rules.operands(2, 2), _shapes, _yolo_box_outputs),
    infer=_yolo_box_infer,
    reference=in_float32(_compute),
    workload=_yolo_box_workload,
    on_host="it is a few steps of many different floating-point functions",
)
"""The output of a YOLOv3 head as boxes in the image and scores of classes.

Inputs: predictions [n, h, w, channels] and the height and width of each image [n, 2]. The channels are for each anchor
(x, y, width, height, objectness, a score per class), behind one for the overlap of each anchor if `overlap_share` is
said. Outputs, anchor by anchor: boxes [n, anchors * h * w, 4] as (x1, y1, x2, y2), scores [n, anchors * h * w,
classes]; those whose confidence is below the threshold are 0.
"""


OPERATORS = (
    PRIOR_BOX,
    YOLO_BOX,
)
