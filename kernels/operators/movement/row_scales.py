"""row_scales: how rows of float32 values become int8 values, from their smallest and largest values, 0 included.

low, high [...] -> inverse, scale, least, most [...]. The step of a value x is x * inverse, rounded and limited to least
and most, and stands for scale. With a zero point z, least is -128 - z and most 127 - z. LiteRT computes z in float64,
which no unit of the NPU has. So the host computes these few numbers between the steps of a layer that the NPU computes
(`npusim.kernels.operator.dynamic_range`). No model has this operator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import dynamic_range, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values

_RESULTS = 4


def _reference(call: Call, values: Values) -> list[Array]:
    low: Any = input_value(values)
    found = dynamic_range.asymmetric_scales(low, input_value(values, 1))
    zero_points = found.zero_points.astype(np.float32)
    return [found.inverse, found.scales, np.float32(-128) - zero_points, np.float32(127) - zero_points]


def _infer(call: Call) -> Shapes:
    return (input_type(call).shape,) * _RESULTS


def _shapes(call: Call) -> bool:
    """all operands have one shape"""
    return input_type(call, 1).shape == input_type(call).shape and _infer(call) == tuple(
        output.shape for output in call.outputs
    )


OPERATOR = Operator(
    name="row_scales",
    types=("float32 -> float32",),
    rules=(rules.operands(2, _RESULTS), _shapes),
    infer=_infer,
    reference=_reference,
    workload=elementwise,
    on_host="zero points follow in float64, which no unit of the NPU has",
)
