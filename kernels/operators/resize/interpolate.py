"""interpolate: along axes, elements that are weighted sums of others, at places and with weights that are operands.

Inputs: x, then for each axis places [out, taps] and weights [out, taps] -> x with `out` elements along each of them.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes
from npusim.kernels.operators.movement.indices import checked


class Parameters(parameters.Parameters):
    """axes: in ascending order.

    together: the weights of an element are multiplied first and the terms added in order; otherwise axis by axis, the
              last one first. The results differ in their last bits.
    """

    axes: Sizes
    together: bool = False


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    """In float32; whole numbers are what is before the point, and wrap."""
    x, axes = input_value(values), call.parameters.axes
    wide: Any = x.astype(np.float32)
    taps = [_taps(call, values, number) for number in range(len(axes))]
    with np.errstate(all="ignore"):
        made = _together(wide, axes, taps) if call.parameters.together else _one_by_one(wide, axes, taps)
        if x.dtype.kind in "iu":
            made = made.astype(np.int64)
        return [made.astype(x.dtype)]


def _taps(call: Call[Parameters], values: Values, number: int) -> tuple[Any, Any]:
    """Places and weights of an axis, [taps, out]."""
    limit = input_type(call).shape[call.parameters.axes[number]]
    places = checked(call, values, 1 + 2 * number, (limit,))
    return places.T, input_value(values, 2 + 2 * number).T


def _along(vector: Any, axis: int, rank: int) -> Any:
    return vector.reshape([-1 if at == axis else 1 for at in range(rank)])


def _together(x: Any, axes: Sizes, taps: list[tuple[Any, Any]]) -> Any:
    total: Any = 0
    for chosen in product(*(range(len(places)) for places, _ in taps)):
        weight: Any = None
        part = x
        for axis, tap, (places, weights) in reversed(list(zip(axes, chosen, taps, strict=True))):
            own = _along(weights[tap], axis, x.ndim)
            weight = own if weight is None else weight * own
            part = part.take(places[tap], axis)
        total = weight * part + total
    return total


def _one_by_one(x: Any, axes: Sizes, taps: list[tuple[Any, Any]]) -> Any:
    for axis, (places, weights) in reversed(list(zip(axes, taps, strict=True))):
        total: Any = np.float32(0)
        for place, weight in zip(places, weights, strict=True):
            total = total + _along(weight, axis, x.ndim) * x.take(place, axis)
        x = total
    return x


def _infer(call: Call[Parameters]) -> Shapes:
    shape = list(input_type(call).shape)
    for number, axis in enumerate(call.parameters.axes):
        shape[axis] = input_type(call, 1 + 2 * number).shape[0]
    return (tuple(shape),)


def _axes(call: Call[Parameters]) -> bool:
    """axes are axes of the first operand, in ascending order"""
    axes = list(call.parameters.axes)
    return bool(axes) and axes == sorted(set(axes)) and axes[-1] < len(input_type(call).shape)


def _pairs(call: Call[Parameters]) -> bool:
    """each axis has places and weights, matrices of one shape with one column or more"""
    if len(call.inputs) != 1 + 2 * len(call.parameters.axes) or None in call.inputs:
        return False
    shapes = [input_type(call, position).shape for position in range(1, len(call.inputs))]
    return all(
        places == weights and len(places) == 2 and places[1] > 0
        for places, weights in zip(shapes[::2], shapes[1::2], strict=True)
    )


def _shape(call: Call) -> bool:
    """the output has as many elements along each axis as it has places"""
    return _infer(call) == (call.outputs[0].shape,)


def _workload(call: Call[Parameters]) -> Workload:
    """A step for every tap of every element."""
    taps = prod(input_type(call, 1 + 2 * number).shape[1] for number in range(len(call.parameters.axes)))
    return elementwise(call, taps * call.outputs[0].elements)


_PAIRS = ", ".join(["int64, float32"] * 8)

OPERATOR = Operator(
    name="interpolate",
    parameters=Parameters,
    types=tuple(
        f"{dtype}, {_PAIRS} -> {dtype}"
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "float16", "float32")
    ),
    rules=(_pairs, _axes, _shape),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="where it reads, and with which weights, are operands",
)
