"""logistic: 1 / (1 + exp(-x)), element by element."""

from __future__ import annotations

from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

table = tabulate_real(real_function("logistic"))
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("logistic", table)
