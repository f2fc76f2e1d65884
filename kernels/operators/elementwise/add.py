"""Sum of two tensors, which may broadcast."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.vector import lower_add, regular_broadcast
from npusim.kernels.operator import broadcast, operands, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import scaled_only_down


def _codes(call: Call[Activated], values: Values) -> list[Array]:
    return broadcast.add_or_subtract(call, values, np.add)


REFERENCES = broadcast.references(_codes, np.add)

OPERATOR = Operator(
    name="add",
    parameters=Activated,
    types=alike(*REFERENCES),
    rules=(*broadcast.RULES, scaled_only_down),
    infer=operands.broadcast,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(Lowering("vector", (rules.eight_bit, regular_broadcast), lower_add),),
)
