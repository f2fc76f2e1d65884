"""floor_mod: what is left over by a quotient that is rounded downwards; operands broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.kernels.operators.elementwise.numbers import numeric_operator
from npusim.kernels.operators.elementwise.quotient import remainder


def _reals(a: Any, b: Any) -> Any:
    """C's remainder has the sign of a; moved by b where that is not the sign of b."""
    left = np.fmod(a, b)
    return np.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


OPERATOR = numeric_operator(
    "floor_mod", {**dict.fromkeys(("int8", "int16", "int32", "int64"), remainder), "float32": _reals}
)
