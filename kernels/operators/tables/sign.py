"""sign: -1, 0 or 1 as x is negative, zero or positive, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operators.tables.lookup import (
    of_whole_numbers,
    real_function,
    tabulate_real,
    unary_operator,
)

OPERATOR = unary_operator(
    "sign",
    tabulate_real(real_function("sign"), ("int8", "uint8")),
    whole=dict.fromkeys(("int32", "int64"), of_whole_numbers(np.sign)),
)
