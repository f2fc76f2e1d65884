"""exp: the exponential of x, element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

OPERATOR = unary_operator("exp", tabulate_real(real_function("exp")))
