"""axis_aligned_bbox_transform: boxes refined by deltas for every class, within their image.

Inputs: boxes [n, 4] as (x1, y1, x2, y2); deltas [n, classes * 4] as (dx, dy, log dw, log dh); the image of each box
[n]; image sizes [images, 2] as (height, width). Output: boxes [n, classes * 4].
"""

from __future__ import annotations

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.detection.boxes import (
    COORDINATES,
    OPERATIONS_PER_TRANSFORM,
    check_images,
    clipped,
    transformed,
)
from npusim.kernels.operators.detection.reals import arrays, in_reals

_BOXES, _DELTAS, _IMAGES, _SIZES = range(4)


def _infer(call: Call) -> Shapes:
    return (input_type(call, _DELTAS).shape,)


def _compute(call: Call, values: Values) -> list[Array]:
    boxes, deltas, images, sizes = arrays(values, 4)
    check_images(images, len(sizes))
    count, columns = deltas.shape
    per_class = deltas.reshape(count, columns // COORDINATES, COORDINATES)
    height, width = (sizes[images, axis][:, None] for axis in range(2))
    return [clipped(transformed(boxes[:, None, :], per_class), height, width).reshape(deltas.shape)]


def _workload(call: Call) -> Workload:
    return elementwise(call, input_type(call, _DELTAS).elements // COORDINATES * OPERATIONS_PER_TRANSFORM)


def _shapes(call: Call) -> bool:
    """boxes are [n, 4], deltas and output [n, classes * 4], images [n], and sizes [images, 2]"""
    boxes, deltas, images, sizes = (input_type(call, position).shape for position in range(4))
    if (len(boxes), len(deltas), len(sizes)) != (2, 2, 2):
        return False
    count = boxes[0]
    fits = boxes == (count, COORDINATES) and deltas[0] == count and deltas[1] % COORDINATES == 0
    return fits and images == (count,) and sizes[1] == 2 and call.outputs[0].shape == deltas


OPERATOR = Operator(
    name="axis_aligned_bbox_transform",
    types=(
        "float32, float32, int32, float32 -> float32",
        "float16, float16, int32, float16 -> float16",
        "uint16, uint8|int8, int32, uint16 -> uint16",
    ),
    rules=(rules.operands(4), _shapes),
    infer=_infer,
    reference=in_reals(_compute),
    workload=_workload,
    on_host="the NPU has no floating-point unit",
)
