"""The root of the mean square of each window of an image; padding is not counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.activation import limited
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, input_value, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.pooling import pooling

Parameters = pooling.Pooling


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    image: Any = input_value(values)
    with np.errstate(over="ignore"):
        squares = pooling.combine_windows(image * image, call, np.add)
    squares /= pooling.elements_seen(call)
    return [limited(call.parameters.activation, np.sqrt(squares, out=squares))]


REFERENCES = with_halves({"float32": _reals})

OPERATOR = Operator(
    name="l2_pool_2d",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=pooling.RULES,
    infer=pooling.infer,
    reference=by_type(REFERENCES),
    workload=pooling.workload,
    window=pooling.window,
    lowerings=(pooling.on_lanes("l2"),),
)
