"""exp: the exponential of x, element by element."""

from __future__ import annotations

from npusim.kernels.operator import rules
from npusim.kernels.operators.tables.lookup import (
    interpolated,
    interpolated_on_int16,
    real_function,
    tabulate_real,
    unary_operator,
)

_FUNCTION = real_function("exp")

OPERATOR = unary_operator(
    "exp",
    tabulate_real(_FUNCTION),
    rules.wide_codes_scaled,
    rules.symmetric,
    whole={"int16": interpolated(_FUNCTION)},
    on_int16=interpolated_on_int16(_FUNCTION),
)
