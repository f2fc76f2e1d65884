"""The largest value of each window of an image, and where in the height x width plane it lies."""

from __future__ import annotations

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.pooling import pooling, positions

Parameters = pooling.Pooling


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return positions.largest(call, values, pooling.seen(call, 1), pooling.seen(call, 2))


OPERATOR = Operator(
    name="max_pool_2d_with_positions",
    parameters=Parameters,
    types=positions.TYPES,
    rules=positions.rules_of(pooling.RULES),
    infer=lambda call: positions.twice(pooling.infer(call)),
    reference=_reference,
    workload=pooling.workload,
    window=pooling.window,
    on_host=positions.ON_HOST,
)
