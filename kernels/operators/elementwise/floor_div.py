"""floor_div: the quotient, rounded downwards; operands broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.kernels.operators.elementwise.numbers import numeric_operator
from npusim.kernels.operators.elementwise.quotient import floored


def _reals(a: Any, b: Any) -> Any:
    return np.floor(a / b)


OPERATOR = numeric_operator(
    "floor_div", {**dict.fromkeys(("int8", "int16", "int32", "int64"), floored), "float32": _reals}
)
