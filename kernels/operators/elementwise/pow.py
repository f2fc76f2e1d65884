"""pow: the first operand to the power of the second; operands broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.real import BINARY_BY_NAME
from npusim.kernels.operators.elementwise.numbers import numeric_operator

_SMALLEST = -(1 << 31)


def _whole(a: Any, b: Any) -> Any:
    """As LiteRT has it: one exponent for many numbers is a product that wraps.

    Otherwise by way of a real number, toward zero, and what 32 bits cannot hold is -2**31, as the processor converts
    it. LiteRT refuses exponents below zero.
    """
    if b.size == 1 and a.shape != b.shape:
        shape = np.broadcast_shapes(a.shape, b.shape)
        return np.broadcast_to(_product(a, max(int(b.ravel()[0]), 0)), shape)
    power = np.power(a.astype(np.float64), b)
    return np.where(np.abs(power) < -_SMALLEST, np.trunc(power), _SMALLEST).astype(np.int64)


def _product(a: Any, times: int) -> Any:
    """a multiplied `times` times, in 32 bits."""
    result, square = np.ones_like(a), a
    while times:
        if times & 1:
            result = result * square
        square = square * square
        times >>= 1
    return result


def _wide(a: Any, b: Any) -> Any:
    """In 64 bits, which LiteRT does not have: products that wrap; a power below zero of 1 and -1 alone is not 0."""
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))


OPERATOR = numeric_operator(
    "pow", {"int32": _whole, "int64": _wide, "float32": BINARY_BY_NAME["pow"].compute}
)
