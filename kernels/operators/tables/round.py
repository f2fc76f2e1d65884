"""round: the nearest whole number, halves to the even one, element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

OPERATOR = unary_operator("round", tabulate_real(real_function("round"), ("int8", "uint8")))
