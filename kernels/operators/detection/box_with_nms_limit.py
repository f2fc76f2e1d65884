"""box_with_nms_limit: non-maximum suppression of boxes, class by class.

Inputs: scores [n, classes], of which class 0 is the background; boxes [n, classes * 4] as (x1, y1, x2, y2); the image
of each box [n]. Outputs, with n * (classes - 1) rows at most: scores [rows], boxes [rows, 4], classes [rows], images
[rows], and the number of rows that hold a box [1]; the rest is 0. Rows are in the order of the images' first boxes,
then of classes, then of falling scores, which soft kernels have lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

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
    Float32Array,
    decreasing,
    filled,
    hard,
    rows_of,
    suppressed,
)
from npusim.kernels.operators.detection.reals import arrays, in_reals

_SCORES, _BOXES, _IMAGES = range(3)
_COUNT = 4  # the output that counts rows


class Parameters(parameters.Parameters):
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


def _infer(call: Call[Parameters]) -> Shapes:
    """As many rows as there can be: every box in every class but the background, at most `most` for each image."""
    count, classes = input_type(call, _SCORES).shape
    rows = count * max(classes - 1, 0)
    if call.parameters.most >= 0:
        rows = min(rows, count * call.parameters.most)
    return (rows,), (rows, COORDINATES), (rows,), (rows,), (1,)


def _compute(call: Call[Parameters], values: Values) -> list[Array]:
    scores, boxes, images = arrays(values, 3)
    asked = call.parameters
    most = asked.most if asked.most >= 0 else scores.size
    found: list[tuple[int, int, int, np.float32]] = []
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
        found += [of_image[one] for one in sorted(best)]
    return _outputs(call, boxes, found)


def _kernel(asked: Parameters) -> Callable[[Float32Array], Float32Array]:
    threshold = np.float32(asked.iou_threshold)
    if asked.kernel == "hard":
        return hard(asked.iou_threshold)
    if asked.kernel == "linear":
        return lambda shares: np.where(shares < threshold, np.float32(1), 1 - shares)
    return lambda shares: np.exp(-shares * shares / np.float32(asked.sigma))


def _outputs(call: Call, boxes: Float32Array, found: list[tuple[int, int, int, np.float32]]) -> list[Array]:
    corners = [boxes[row, number * COORDINATES : (number + 1) * COORDINATES] for row, number, _, _ in found]
    columns: tuple[list[Any], ...] = (
        [score for *_, score in found],
        corners,
        [number for _, number, _, _ in found],
        [image for _, _, image, _ in found],
    )
    padded = [filled(tensor, column) for tensor, column in zip(call.outputs, columns, strict=False)]
    return [*padded, np.array([len(found)], np.int32)]


def _workload(call: Call[Parameters]) -> Workload:
    """Suppression depends on the data; counted is its bound: each choice is compared with all boxes of its class."""
    count, classes = input_type(call, _SCORES).shape
    most = call.parameters.most if call.parameters.most >= 0 else count
    chosen = min(most, count) * max(classes - 1, 0)
    return elementwise(call, count * classes + chosen * count * OPERATIONS_PER_OVERLAP)


# Rules


def _shapes(call: Call) -> bool:
    """scores are [n, classes], boxes [n, classes * 4], images [n], and outputs have the most rows that there can be"""
    scores, boxes, images = (input_type(call, position).shape for position in range(3))
    if len(scores) != 2 or boxes != (scores[0], scores[1] * COORDINATES) or images != scores[:1]:
        return False
    return _infer(call) == tuple(output.shape for output in call.outputs)


def _sigma(call: Call[Parameters]) -> bool:
    """sigma is above 0"""
    return call.parameters.kernel != "gaussian" or call.parameters.sigma > 0


OPERATOR = Operator(
    name="box_with_nms_limit",
    parameters=Parameters,
    types=(
        "float32, float32, int32 -> float32, float32, int32",
        "float16, float16, int32 -> float16, float16, int32",
        "uint8, uint16, int32 -> uint8, uint16, int32",
        "int8, uint16, int32 -> int8, uint16, int32",
    ),
    rules=(rules.operands(3, _COUNT + 1), _shapes, _sigma),
    infer=_infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="the NPU has no floating-point unit and does not sort",
    defined=rows_of(_COUNT),
)
