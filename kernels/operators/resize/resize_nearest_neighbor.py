"""resize_nearest_neighbor: height and width changed by repeating or leaving out pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.resize.resize_bilinear import (
    Resizing,
    corners_or_centers,
    images,
    infer,
    some_pixels,
)
from npusim.kernels.operators.tables.lookup import round_half_away

Parameters = Resizing


def _nearest(call: Call[Parameters], axis: int) -> NDArray[np.int64]:
    """The input position of each output position along one axis, in float32 steps."""
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    corners = call.parameters.align_corners
    scale = np.float32(size) / np.float32(count)
    if corners and count > 1:
        scale = np.float32(size - 1) / np.float32(count - 1)
    offset = np.float32(0.5 if call.parameters.half_pixel_centers else 0)
    position = (np.arange(count, dtype=np.float32) + offset) * scale
    nearest = round_half_away(position) if corners else np.floor(position).astype(np.int64)
    return np.clip(nearest, 0, size - 1)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    rows, columns = _nearest(call, 1), _nearest(call, 2)
    return [np.ascontiguousarray(input_value(values)[:, rows[:, None], columns])]


OPERATOR = Operator(
    name="resize_nearest_neighbor",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), images, some_pixels, corners_or_centers),
    infer=infer,
    reference=_reference,
    workload=move,
    on_host="the DMA repeats no pixels",
)
