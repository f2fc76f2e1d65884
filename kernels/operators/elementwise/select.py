"""select: by a condition per element, per row, or one for all, one of two tensors of one shape."""

from __future__ import annotations

from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Shapes
from npusim.kernels.operators.elementwise.choice import choosing_operator


def _infer(call: Call) -> Shapes:
    condition, first, second = (input_type(call, i).shape for i in range(3))
    if first != second or condition not in (first, first[:1], ()):
        raise ValueError("a condition is of the inputs' shape, of their first axis, or one for all")
    return (first,)


def _aligned(call: Call) -> tuple[int, ...]:
    """A condition per row meets the whole row."""
    condition, rank = input_type(call).shape, len(input_type(call, 1).shape)
    return condition + (1,) * (rank - 1) if len(condition) == 1 else condition


OPERATOR = choosing_operator("select", _infer, _aligned)
