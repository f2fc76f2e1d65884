"""relu: max(x, 0), element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import beyond_tables, tabulate, unary_operator
from npusim.kernels.operators.tables.rectifier import on_int16, rectified, rectifier_rules

_codes = rectified(0.0, None)

table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator(
    "relu", table, *rectifier_rules(), whole={"int16": beyond_tables(_codes)}, on_int16=(on_int16(0.0, None),)
)
