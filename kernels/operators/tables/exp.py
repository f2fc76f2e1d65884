"""exp: the exponential of x, element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

_FUNCTION = real_function("exp")

OPERATOR = unary_operator("exp", tabulate_real(_FUNCTION), interpolates=_FUNCTION)
