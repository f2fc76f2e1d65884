"""ceil: the smallest whole number that is not below x, element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

OPERATOR = unary_operator("ceil", tabulate_real(real_function("ceil"), ("int8", "uint8")))
