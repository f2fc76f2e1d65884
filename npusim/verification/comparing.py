"""How two values of a tensor are compared."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array

MOST_APART = {1: 1e-4, 2: 1e-2}
"""Of the codes of a tensor, of so many bytes each, that may be one apart where the other adds up in float32; two in any
tensor. Measured over whole networks: 2 in a million of 8 bits, 1 in a thousand of 16, whose steps are as fine as the
rounding of the sums."""
_SOME_APART = 2


def same(a: Array, b: Array) -> bool:
    """The same bytes under the same type and shape."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def close(a: Array, b: Array, share: float) -> bool:
    """The same bytes, or floats within a share of the largest magnitude (NaN beside NaN, infinities equal)."""
    if same(a, b):
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)].astype(np.float64))
        allowed = share * max(float(finite.max(initial=0.0)), float(np.finfo(np.float32).tiny))
        return bool(np.allclose(a.astype(np.float64), b.astype(np.float64), 0.0, allowed, equal_nan=True))


def one_apart(a: Array, b: Array) -> bool:
    """Whether codes are those of the other but for few that are one more or less."""
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind not in "iu":
        return False
    apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
    return int(apart.max(initial=0)) <= 1 and int(apart.sum()) <= max(
        _SOME_APART, MOST_APART.get(a.itemsize, 0.0) * a.size
    )


def count_differing(a: Array, b: Array) -> int:
    """How many elements have other bytes."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return max(a.size, b.size)
    return int((bytewise(a) != bytewise(b)).any(axis=1).sum()) if a.size else 0


def distance(a: Array, b: Array) -> float:
    """How far two values of one shape are apart, all elements together."""
    with np.errstate(all="ignore"):
        return float(np.nan_to_num(np.abs(a.astype(np.float64) - b.astype(np.float64))).sum())


def bytewise(array: Array) -> Array:
    """The bytes of each element: -0.0 and 0.0 differ, a NaN equals itself."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.itemsize)
