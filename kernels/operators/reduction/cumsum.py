"""cumsum: running sums along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, an_axis, axis_of
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_value, like_input, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.parameters import Step


class Parameters(Along):
    """axis: along which one adds; exclusive: an element is not in its own sum; reverse: from the back."""

    axis: Step
    exclusive: bool = False
    reverse: bool = False


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = np.moveaxis(input_value(values), axis_of(call), 0)
    if call.parameters.reverse:
        x = x[::-1]
    sums = np.cumsum(x, axis=0, dtype=x.dtype) + x.dtype.type(0)  # begins with 0, which beside -0 is 0
    if call.parameters.exclusive:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    if call.parameters.reverse:
        sums = sums[::-1]
    return [np.ascontiguousarray(np.moveaxis(sums, 0, axis_of(call)))]


REFERENCES = with_halves({"int32": _reference, "int64": _reference, "float32": _reference})

OPERATOR = Operator(
    name="cumsum",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(1), rules.same_shape, an_axis),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    on_host="running sums of 32 bits and of reals are not among the functions of the vector unit",
)
