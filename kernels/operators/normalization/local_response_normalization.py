"""local_response_normalization: elements divided by a power of the squares of their neighbours along an axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, an_axis, axis_of
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_type,
    input_value,
    like_input,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.parameters import Size


class Parameters(Along):
    """x / (bias + alpha * (squares of up to `radius` elements on each side and of x itself)) ** beta.

    last_left_out: the last element of a window does not count, which is how LiteRT's kernel has it.
    one_more: one more element counts behind x: windows of an even size.
    """

    radius: Size
    bias: float
    alpha: float
    beta: float
    last_left_out: bool = False
    one_more: bool = False


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    how = call.parameters
    x = np.moveaxis(input_value(values).astype(np.float32, copy=False), axis_of(call), -1)
    if not x.size:
        return [input_value(values)]
    reach = min(how.radius, x.shape[-1])
    window = 2 * reach + 1 - how.last_left_out + how.one_more
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        squares = np.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(reach, reach + how.one_more)])
        windows = sliding_window_view(squares, max(window, 1), axis=-1)[..., : x.shape[-1], :window]
        sums = windows.sum(axis=-1, dtype=np.float32)
        divisors = np.float32(how.bias) + np.float32(how.alpha) * sums
        result = x * divisors ** np.float32(-how.beta)
    return [np.ascontiguousarray(np.moveaxis(result, -1, axis_of(call)))]


def _workload(call: Call[Parameters]) -> Workload:
    """One step for every neighbour of every element."""
    axis, output = input_type(call).shape[axis_of(call)], call.outputs[0]
    neighbours = 2 * min(call.parameters.radius, axis) + 1
    return replace(elementwise(call), elements=output.elements * neighbours)


REFERENCES = with_halves({"float32": _reals})

OPERATOR = Operator(
    name="local_response_normalization",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(1), rules.same_shape, an_axis),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=_workload,
    on_host="has no quantized form, and the vector unit computes on codes",
)
