"""floor: the largest whole number that is not above x, element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

OPERATOR = unary_operator("floor", tabulate_real(real_function("floor"), ("int8", "uint8")))
