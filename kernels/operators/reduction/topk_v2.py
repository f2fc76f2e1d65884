"""topk_v2: the k largest or smallest elements along an axis, from there on, and their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, all_read, an_axis, axis_of
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size


class Parameters(Along):
    """k: how many; axis: along which; smallest: the smallest, from there up.

    last_first: of equal elements the last one comes first, not the first one.
    """

    k: Size
    last_first: bool = False
    smallest: bool = False


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    how = call.parameters
    x: Any = np.moveaxis(input_value(values), axis_of(call), -1)
    # A stable sort in rising order has the first of equals first; read from the back, the last.
    turned = how.smallest == how.last_first
    positions = np.argsort(x[..., ::-1] if turned else x, axis=-1, kind="stable")
    positions = x.shape[-1] - 1 - positions if turned else positions
    positions = (positions if how.smallest else positions[..., ::-1])[..., : how.k]
    outputs = (np.take_along_axis(x, positions, axis=-1), positions.astype(call.outputs[1].numpy_dtype))
    return [np.ascontiguousarray(np.moveaxis(output, -1, axis_of(call))) for output in outputs]


def _infer(call: Call[Parameters]) -> Shapes:
    shape, axis = input_type(call).shape, axis_of(call)
    found = (*shape[:axis], call.parameters.k, *shape[axis + 1 :])
    return found, found


def _enough(call: Call[Parameters]) -> bool:
    """the axis has at least k elements"""
    return call.parameters.k <= input_type(call).shape[axis_of(call)]


def _shapes(call: Call) -> bool:
    """both outputs have the input's shape, with k elements along the axis"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


def _same_codes(call: Call) -> bool:
    """the elements keep their scale and zero point"""
    return input_type(call).quantization == call.outputs[0].quantization


OPERATOR = Operator(
    name="topk_v2",
    parameters=Parameters,
    types=tuple(
        f"{dtype} -> {dtype}, int32|int64"
        for dtype in ("int8", "uint8", "int16", "int32", "int64", "float16", "float32")
    ),
    rules=(rules.operands(1, 2), rules.per_tensor, an_axis, _enough, _shapes, _same_codes),
    infer=_infer,
    reference=_reference,
    workload=all_read,
    on_host="the vector unit does not sort",
)
