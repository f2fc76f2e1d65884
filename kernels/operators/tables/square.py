"""square: x * x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.tables.lookup import (
    of_whole_numbers,
    real_function,
    tabulate_real,
    unary_operator,
)

OPERATOR = unary_operator(
    "square",
    tabulate_real(real_function("square"), ("int8", "uint8")),
    whole=dict.fromkeys(("int32", "int64"), of_whole_numbers(np.square)),
)
