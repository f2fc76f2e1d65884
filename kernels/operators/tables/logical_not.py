"""logical_not: true where x is false, element by element."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_table
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import elementwise, input_value, like_input
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values

_TABLE = np.arange(256) == 0
"""A truth is a byte, and whatever is not 0 is true."""


def _reference(call: Call, values: Values) -> list[Array]:
    return [np.logical_not(input_value(values))]


OPERATOR = Operator(
    name="logical_not",
    types=alike("bool"),
    rules=(rules.operands(1), rules.same_shape),
    infer=like_input,
    reference=_reference,
    workload=elementwise,
    lowerings=(Lowering("vector", (), lambda call, hardware: lower_table(call, _TABLE)),),
)
