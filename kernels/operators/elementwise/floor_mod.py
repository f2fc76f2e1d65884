"""floor_mod: what is left over by a quotient that is rounded downwards; operands broadcast."""

from __future__ import annotations

from npusim.isa.arithmetic.real import BINARY_BY_NAME
from npusim.kernels.operators.elementwise.numbers import numeric_operator
from npusim.kernels.operators.elementwise.quotient import remainder

OPERATOR = numeric_operator(
    "floor_mod",
    {
        **dict.fromkeys(("int8", "int16", "int32", "int64"), remainder),
        "float32": BINARY_BY_NAME["floor_mod"].compute,
    },
)
