"""resize_nearest_neighbor: height and width changed by repeating or leaving out pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.reduction import codes_or_truths
from npusim.kernels.lowering.resize import Line, line_before, resize_work
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.geometry import maps_on_npu
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.resize.resize_bilinear import (
    Resizing,
    corners_or_centers,
    float_step,
    images,
    infer,
    some_pixels,
    steps_forward,
)
from npusim.kernels.operators.tables.lookup import round_half_away

Parameters = Resizing


def _nearest(call: Call[Parameters], axis: int) -> NDArray[np.int64]:
    """The input position of each output position along one axis, in float32 steps."""
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    corners, scale = call.parameters.align_corners, float_step(call, axis)
    offset = np.float32(0.5 if call.parameters.half_pixel_centers else 0)
    position = (np.arange(count, dtype=np.float32) + offset) * scale
    nearest = round_half_away(position) if corners else np.floor(position).astype(np.int64)
    return np.clip(nearest, 0, size - 1)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    rows, columns = _nearest(call, 1), _nearest(call, 2)
    return [np.ascontiguousarray(input_value(values)[:, rows[:, None], columns])]


def _line(call: Call[Parameters], axis: int) -> Line | None:
    return line_before(_nearest(call, axis), input_type(call).shape[axis])


def regular(call: Call[Parameters]) -> bool:
    """on the NPU the nearest pixels lie on a line, in 20 fraction bits"""
    return _line(call, 1) is not None and _line(call, 2) is not None


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    rows, columns = _line(call, 1), _line(call, 2)
    if rows is None or columns is None:
        raise ValueError("the nearest pixels lie on no line; the operator's rules should refuse")
    return resize_work(call, False, rows, columns)


OPERATOR = Operator(
    name="resize_nearest_neighbor",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), images, some_pixels, corners_or_centers, steps_forward),
    infer=infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("vector", (codes_or_truths, maps_on_npu, regular), _lower),),
)
