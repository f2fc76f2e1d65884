"""How two values of a tensor are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.isa.base.tensor import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_APART = {1: 1e-4, 2: 1e-2}
"""Of the codes of a tensor, of so many bytes each, that may be one apart where the other adds up in float32; two in any
tensor. Measured over whole networks: 2 in a million of 8 bits, 1 in a thousand of 16, whose steps are as fine as the
rounding of the sums."""
_SOME_APART = 2
_SHORT = 2
"""Bytes of the largest integers that are quantized values; longer ones are sums, which are exact."""


def same(a: Array, b: Array) -> bool:
    """Return the same bytes under the same type and shape."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def close(a: Array, b: Array, share: float) -> bool:
    """Return the same bytes, or floats within a share of the largest magnitude (NaN beside NaN, infinities equal)."""
    if same(a, b):
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)].astype(np.float64))
        allowed = share * max(float(finite.max(initial=0.0)), float(np.finfo(np.float32).tiny))
        return bool(np.allclose(a.astype(np.float64), b.astype(np.float64), 0.0, allowed, equal_nan=True))


def nearer(a: Array, b: Array, exact: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which elements of one value are nearer to the exact ones than those of the other, as a flat mask."""
    with np.errstate(all="ignore"):
        off_a, off_b = (np.abs(each.astype(np.float64) - exact) for each in (a, b))
        return np.asarray(off_a < off_b).reshape(-1)


def one_apart(a: Array, b: Array) -> bool:
    """Return True if codes are those of the other but for few that are one more or less."""
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind not in "iu":
        return False
    apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
    return int(apart.max(initial=0)) <= 1 and int(apart.sum()) <= max(
        _SOME_APART, MOST_APART.get(a.itemsize, 0.0) * a.size
    )


def count_differing(a: Array, b: Array) -> int:
    """Return how many elements have other bytes."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return max(a.size, b.size)
    return int(apart(a, b).sum()) if a.size else 0


def apart(a: Array, b: Array) -> NDArray[np.bool_]:
    """Return which elements of two values of one type and shape have other bytes, as a flat mask."""
    return np.asarray((_bytewise(a) != _bytewise(b)).any(axis=1))


def most_apart(a: Array, b: Array) -> int | float:
    """Return the largest difference of two integer values; of others infinity."""
    if a.dtype.kind not in "iu":
        return np.inf
    return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))


_FLOAT32_ROUNDING = 2.0**-22
"""Four roundings of float32: a scale that is a product of three, and the product of it with a sum."""


def right(value: Array, exact: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Return which elements are exact values in float64, rounded: to the nearest integer, or floats within a share.

    Where the exact value is as near to a half as float32 scales can move it, both neighbours are right.
    """
    with np.errstate(all="ignore"):
        off = np.abs(value.astype(np.float64) - exact)
        if value.dtype.kind not in "iu":
            return np.asarray(off <= share * np.abs(exact).max(initial=0.0))
    slack = _FLOAT32_ROUNDING * 2 ** (8 * value.itemsize) if value.itemsize <= _SHORT else 0.0
    return np.asarray(off <= 0.5 + slack)


def distance(a: Array, b: Array) -> float:
    """Return how far two values of one shape are apart, all elements together."""
    with np.errstate(all="ignore"):
        return float(np.nan_to_num(np.abs(a.astype(np.float64) - b.astype(np.float64))).sum())


def _bytewise(array: Array) -> Array:
    """Return the bytes of each element: -0.0 and 0.0 differ, a NaN equals itself."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.itemsize)
