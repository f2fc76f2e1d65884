"""Inverse square root of integers in fixed point, equal to TensorFlow Lite's to the last bit."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Int64Array
from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power

_WORD = FixedPoint(32)
_ROOT_HALF = 1518500250  # sqrt(1/2) in Q0
_ONE, _THREE_HALVES = 1 << 28, 3 << 27  # in Q3
_NEWTON_STEPS = 5


def inverse_root(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return (factor, right shift) with values**-0.5 nearly factor / 2**(31 + shift), for 0..2**31 - 1; 1 for 0.

    A value v is shifted by pairs of bits to 29 bits, so that it is in [1/2, 2) of Q3. Newton's method for v**-0.5, x <-
    x (3/2 - v/2 x^2), starts at 1.
    """
    bits = np.frexp(np.maximum(values, 1).astype(np.float64))[1].astype(np.int64)
    pairs = (29 - bits) // 2
    moved = np.where(pairs >= 0, values << np.maximum(pairs, 0) * 2, values >> np.maximum(-pairs, 0) * 2)
    half = divide_by_power(moved >> 1, 1)
    x = np.full(values.shape, _ONE, np.int64)
    for _ in range(_NEWTON_STEPS):
        cube = _WORD.saturating_shift(_WORD.multiply(_WORD.multiply(x, x), x), 6)
        x = _WORD.saturating_shift(_WORD.multiply(x, _THREE_HALVES) - _WORD.multiply(half, cube), 3)
    x = _WORD.multiply(x, _ROOT_HALF)
    shift = 11 - pairs
    factor = np.where(shift < 0, x << np.maximum(-shift, 0), x)
    return np.where(values <= 1, _WORD.one, factor), np.where(values <= 1, 0, np.maximum(shift, 0))
