"""relu_0_to_1: x limited to 0..1, element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import tabulate, unary_operator
from npusim.kernels.operators.tables.rectifier import rectified, rectifier_rules

_codes = rectified(0.0, 1.0)

table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("relu_0_to_1", table, *rectifier_rules(1.0))
