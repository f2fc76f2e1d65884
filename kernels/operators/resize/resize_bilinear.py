"""resize_bilinear: height and width changed by linear interpolation between the four nearest pixels.

LiteRT computes int8 in integers with 10 fraction bits per axis, uint8 and float32 in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator

Numbers = NDArray[Any]

_TAPS = 4
_FRACTION_BITS = 10


class Axis(NamedTuple):
    """Where each output position of one axis lies: the pixels below and above, and the weight of each."""

    below: NDArray[np.int64]
    above: NDArray[np.int64]
    weight_below: Numbers
    weight_above: Numbers


def _integer_axis(call: Call, axis: int) -> Axis:
    """Positions with 10 fraction bits; weights are integers that add up to 1024."""
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    one, divisor = 1 << _FRACTION_BITS, count
    if call.attributes["align_corners"] and count > 1:
        size, divisor = size - 1, count - 1
    scale = (size * one + divisor // 2) // divisor
    position = np.arange(count, dtype=np.int64) * scale
    if call.attributes["half_pixel_centers"]:
        position = position + (scale // 2 - one // 2)
    last = input_type(call).shape[axis] - 1
    below = np.clip(position // one, 0, last)
    above = np.clip(-(-position // one), 0, last)
    weight_above = position - below * one
    return Axis(below, above, one - weight_above, weight_above)


def _float_axis(call: Call, axis: int) -> Axis:
    """Positions and weights in float32."""
    size, count = input_type(call).shape[axis], call.outputs[0].shape[axis]
    scale = np.float32(size) / np.float32(count)
    if call.attributes["align_corners"] and count > 1:
        scale = np.float32(size - 1) / np.float32(count - 1)
    position = np.arange(count, dtype=np.float32)
    if call.attributes["half_pixel_centers"]:
        position = (position + np.float32(0.5)) * scale - np.float32(0.5)
    else:
        position = position * scale
    below = np.clip(np.floor(position).astype(np.int64), 0, size - 1)
    above = np.clip(np.ceil(position).astype(np.int64), 0, size - 1)
    weight_above = position - below.astype(np.float32)
    return Axis(below, above, np.float32(1) - weight_above, weight_above)


def _interpolate(x: Numbers, rows: Axis, columns: Axis, row: int) -> Numbers:
    """One output row [batch, width, channels]: weighted pixels, multiplied and added in LiteRT's order."""
    upper, lower = x[:, rows.below[row]], x[:, rows.above[row]]
    left, right = columns.weight_below[:, None], columns.weight_above[:, None]
    total: Numbers = upper[:, columns.below] * rows.weight_below[row] * left
    total += lower[:, columns.below] * rows.weight_above[row] * left
    total += upper[:, columns.above] * rows.weight_below[row] * right
    total += lower[:, columns.above] * rows.weight_above[row] * right
    return total


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    output = call.outputs[0]
    if output.dtype == "int8":
        x: Numbers = input_value(values).astype(np.int32)
        rows, columns = _integer_axis(call, 1), _integer_axis(call, 2)
    else:
        x = input_value(values).astype(np.float32)
        rows, columns = _float_axis(call, 1), _float_axis(call, 2)
    result = np.empty(output.shape, output.numpy_dtype)
    for row in range(output.shape[1]):
        result[:, row] = _rounded(_interpolate(x, rows, columns, row), output.dtype)
    return [result]


def _rounded(totals: Numbers, dtype: str) -> Numbers:
    if dtype == "int8":
        half = 1 << (2 * _FRACTION_BITS - 1)
        rounded: Numbers = np.sign(totals) * ((np.abs(totals) + half) >> (2 * _FRACTION_BITS))
        return rounded
    return np.trunc(totals + np.float32(0.5)) if dtype == "uint8" else totals


def _workload(call: Call) -> Workload:
    return elementwise(call, _TAPS * call.outputs[0].elements)


def images(call: Call) -> bool:
    """input and output have the shape [batch, height, width, channels] and differ in height and width only"""
    source, target = input_type(call).shape, call.outputs[0].shape
    return len(source) == len(target) == 4 and (source[0], source[3]) == (target[0], target[3])


def some_pixels(call: Call) -> bool:
    """height and width of input and output are 1 or more"""
    return min(*input_type(call).shape[1:3], *call.outputs[0].shape[1:3]) > 0


def corners_or_centers(call: Call) -> bool:
    """align_corners and half_pixel_centers are true or false, not both true"""
    flags = [call.attributes.get("align_corners"), call.attributes.get("half_pixel_centers")]
    return set(flags) <= {True, False} and not all(flags)


OPERATOR = Operator(
    name="resize_bilinear",
    rules=(
        rules.operands(1),
        rules.computes_on("int8", "uint8", "float32"),
        rules.same_type,
        images,
        some_pixels,
        corners_or_centers,
    ),
    npu_rules=(rules.host_only("the vector unit does not interpolate"),),
    reference=_reference,
    workload=_workload,
)
