"""topk_v2: the k largest elements along the last axis, from the largest down, and their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.axes import all_read
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size


class Parameters(parameters.Parameters):
    """k: how many; last_first: of equal elements the last one comes first, not the first one."""

    k: Size
    last_first: bool = False


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    k, size = call.parameters.k, x.shape[-1]
    # A stable sort in rising order, read from the back, has the last of equals first.
    if call.parameters.last_first:
        positions = np.argsort(x, axis=-1, kind="stable")[..., ::-1]
    else:
        positions = size - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    positions = positions[..., :k]
    found = np.take_along_axis(x, positions, axis=-1)
    return [found, positions.astype(call.outputs[1].numpy_dtype)]


def _infer(call: Call[Parameters]) -> Shapes:
    shape = (*input_type(call).shape[:-1], call.parameters.k)
    return shape, shape


def _enough(call: Call[Parameters]) -> bool:
    """the last axis has at least k elements"""
    shape = input_type(call).shape
    return len(shape) > 0 and call.parameters.k <= shape[-1]


def _shapes(call: Call) -> bool:
    """both outputs have the input's shape, with k elements along the last axis"""
    return _infer(call) == tuple(output.shape for output in call.outputs)


def _same_codes(call: Call) -> bool:
    """the elements keep their scale and zero point"""
    return input_type(call).quantization == call.outputs[0].quantization


OPERATOR = Operator(
    name="topk_v2",
    parameters=Parameters,
    types=tuple(
        f"{dtype} -> {dtype}, int32"
        for dtype in ("int8", "uint8", "int16", "int32", "int64", "float16", "float32")
    ),
    rules=(rules.operands(1, 2), rules.per_tensor, _enough, _shapes, _same_codes),
    infer=_infer,
    reference=_reference,
    workload=all_read,
    on_host="the vector unit does not sort",
)
