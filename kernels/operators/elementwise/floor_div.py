"""floor_div: the quotient, rounded downwards; operands broadcast."""

from __future__ import annotations

from npusim.isa.arithmetic.real import BINARY_BY_NAME
from npusim.kernels.operators.elementwise.numbers import numeric_operator
from npusim.kernels.operators.elementwise.quotient import floored

OPERATOR = numeric_operator(
    "floor_div",
    {
        **dict.fromkeys(("int8", "int16", "int32", "int64"), floored),
        "float32": BINARY_BY_NAME["floor_div"].compute,
    },
)
