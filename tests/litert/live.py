"""Running models on npusim's machine and in LiteRT, and what of their outputs is not the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from npusim.isa.base.tensor import Array
from npusim.verification import litert as litert_reference
from npusim.verification.litert import Session

needs_litert = pytest.mark.skipif(
    not litert_reference.installed(),
    reason=f"LiteRT is not installed here: pip install {litert_reference.PACKAGE} ({litert_reference.WHEELS})",
)


def by_litert(data: bytes, inputs: Sequence[Array], optimized: bool = False) -> list[Array]:
    """The outputs of a file; raises LiteRTError for one that LiteRT refuses."""
    return Session(data, optimized=optimized).run(inputs)


def difference(found: Sequence[Array], expected: Sequence[Array], tolerance: float = 0.0) -> str | None:
    """Where outputs first differ, or None. Floats may differ by `tolerance` times the largest magnitude."""
    if len(found) != len(expected):
        return f"{len(found)} outputs, LiteRT gives {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"output {number}: {ours.dtype}{ours.shape}, LiteRT gives {theirs.dtype}{theirs.shape}"
        if ours.tobytes() == theirs.tobytes() or (tolerance and _close(ours, theirs, tolerance)):
            continue
        at = int(np.flatnonzero(_bytes(ours) != _bytes(theirs))[0]) // max(ours.itemsize, 1)
        return f"output {number}, element {at}: {ours.ravel()[at]!r}, LiteRT gives {theirs.ravel()[at]!r}"
    return None


def _bytes(values: Array) -> Array:
    return np.frombuffer(values.tobytes(), np.uint8)


def _close(ours: Array, theirs: Array, tolerance: float) -> bool:
    if ours.dtype != np.float32:
        return False
    largest = max(
        float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)), 1e-30
    )  # below that nothing is left
    with np.errstate(invalid="ignore"):
        near = np.abs(ours - theirs) <= tolerance * largest
    return bool(np.all(near | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))))
