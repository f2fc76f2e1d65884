"""tanh: the hyperbolic tangent, element by element."""

from __future__ import annotations

from npusim.isa.arithmetic.interpolated import tanh_words
from npusim.kernels.operators.tables.gate import in_steps, on_int16, wide_scales
from npusim.kernels.operators.tables.lookup import real_function, tabulate_real, unary_operator

table = tabulate_real(real_function("tanh"))
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator(
    "tanh", table, wide_scales, whole={"int16": in_steps(tanh_words)}, on_int16=(on_int16("tanh"),)
)
