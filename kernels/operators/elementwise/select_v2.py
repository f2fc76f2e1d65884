"""select_v2: by a condition, one of two elements; the condition and both tensors broadcast."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Shapes
from npusim.kernels.operators.elementwise.choice import choosing_operator


def _infer(call: Call) -> Shapes:
    return (np.broadcast_shapes(*(input_type(call, i).shape for i in range(3))),)


def _aligned(call: Call) -> tuple[int, ...]:
    return input_type(call).shape


OPERATOR = choosing_operator("select_v2", _infer, _aligned)
