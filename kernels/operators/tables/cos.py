"""cos: the cosine of x in radians, element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

OPERATOR = unary_operator("cos", tabulate_real(real_function("cos"), ("int8", "uint8")))
