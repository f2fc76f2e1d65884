"""reciprocal: 1 / x, element by element."""

from __future__ import annotations

from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float64Array, wide_operator


def _reciprocal(call: Call, x: Float64Array) -> Float64Array:
    return 1.0 / x


OPERATOR = wide_operator("reciprocal", _reciprocal)
