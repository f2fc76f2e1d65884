"""select_v2: by a condition, one of two elements; the condition and both tensors broadcast."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Shapes
from npusim.kernels.operators.elementwise.choice import choosing_operator


def _infer(call: Call) -> Shapes:
    return (np.broadcast_shapes(*(input_type(call, i).shape for i in range(3))),)


def _aligned(call: Call, condition: Array) -> Array:
    return condition


OPERATOR = choosing_operator("select_v2", _infer, _aligned)
