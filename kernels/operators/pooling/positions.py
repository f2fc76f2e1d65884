"""Where the largest values of windows lie: the number of the first of them, row by row, in the height x width plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import IntArray, clamp
from npusim.isa.base.tensor import Array
from npusim.kernels.operator.activation import act_range, limited
from npusim.kernels.operator.operands import input_value
from npusim.kernels.operator.operator import Call, Rule, Shapes, Values

Axis = tuple[IntArray, IntArray]
"""The first element of each window along an axis, and how many it has."""

TYPES = tuple(f"{dtype} -> {dtype}, int32|int64" for dtype in ("int8", "uint8", "float16", "float32"))

ON_HOST = "no instruction says where in a window its largest value lies"


def largest(call: Call, values: Values, rows: Axis, columns: Axis) -> list[Array]:
    """The largest value of each window and its position, [n, rows, columns, c] each."""
    found, places = _search(input_value(values), rows, columns)
    ofm, positions = call.outputs
    activation = call.parameters.activation
    if ofm.real:
        best: Any = limited(activation, found)
    else:
        best = clamp(found, *act_range(activation, ofm), ofm.numpy_dtype)
    return [best, places.astype(positions.numpy_dtype)]


def _search(x: NDArray[Any], rows: Axis, columns: Axis) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Element by element of all windows at once; what is not larger than what was there changes nothing."""
    width = x.shape[2]
    (top, heights), (left, widths) = rows, columns
    found, places = None, None
    for down in range(int(heights.max())):
        for right in range(int(widths.max())):
            y, there_y = top + np.minimum(down, heights - 1), down < heights
            z, there_z = left + np.minimum(right, widths - 1), right < widths
            values = x[:, y[:, None], z]
            numbers = (y[:, None] * width + z)[None, :, :, None]
            if found is None or places is None:
                found, places = values.copy(), np.broadcast_to(numbers, values.shape).copy()
                continue
            better = (values > found) & (there_y[:, None] & there_z)[None, :, :, None]
            np.copyto(found, values, where=better)
            np.copyto(places, numbers, where=better)
    assert found is not None
    assert places is not None
    return found, places


def twice(shapes: Shapes) -> Shapes:
    """The shape of the values, and that of the positions."""
    return (*shapes, *shapes)


def two_outputs(call: Call) -> bool:
    """takes 1 input and gives 2 outputs: the largest values and their positions, of one shape"""
    present = len(call.inputs) == 1 and call.inputs[0] is not None and len(call.outputs) == 2
    return present and call.outputs[0].shape == call.outputs[1].shape


def rules_of(first: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of a pool without positions, for one with them."""
    return (two_outputs, *first[1:])
