"""The largest value of each bin of an image, and where in the height x width plane it lies."""

from __future__ import annotations

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.pooling import adaptive, positions

Parameters = adaptive.Adaptive


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return positions.largest(call, values, adaptive.seen(call, 1), adaptive.seen(call, 2))


OPERATOR = Operator(
    name="adaptive_max_pool_2d_with_positions",
    parameters=Parameters,
    types=positions.TYPES,
    rules=positions.rules_of(adaptive.RULES),
    infer=lambda call: positions.twice(adaptive.infer(call)),
    reference=_reference,
    workload=adaptive.workload,
    on_host=positions.ON_HOST,
)
