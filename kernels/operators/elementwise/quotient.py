"""Quotients and remainders of whole numbers that never fail: LiteRT stops at a divisor of 0, here the result is 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.kernels.operator.broadcast import Combine


def _safely(function: Combine) -> Combine:
    def divide(a: Any, b: Any) -> Any:
        a, b = np.broadcast_arrays(a, b)
        wide = np.where(b == 0, 1, b).astype(np.int64)
        return np.where(b == 0, 0, function(a.astype(np.int64), wide))

    return divide


def _truncate(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


floored = _safely(np.floor_divide)
"""a / b downwards; what the type does not hold wraps."""
truncated = _safely(_truncate)
"""a / b toward zero, before it is brought to the type."""
remainder = _safely(np.mod)
"""a less b times the quotient downwards: it has the sign of b."""
