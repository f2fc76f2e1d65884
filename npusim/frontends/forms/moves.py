"""Elements in another place: parts of tensors, and repeated ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import Conversion


def box(chosen: Sequence[range]) -> dict[str, Any]:
    """The parameters of a strided slice that takes these elements of each axis."""
    return {
        "begin": tuple(along.start if len(along) else 0 for along in chosen),
        "size": tuple(map(len, chosen)),
        "strides": tuple(along.step if len(along) > 1 else 1 for along in chosen),
    }


def along(extent: int, start: int, end: int, step: int) -> range:
    """The elements of an axis from a start to an end. Bounds below 0 count from its end, those beyond are its ends."""
    if end <= -(2**62) and step < 0:
        return range(*slice(start, None, step).indices(extent))
    return range(*slice(start, end, step).indices(extent))


def expanded(c: Conversion, x: int, wanted: Sequence[int]) -> int:
    """A tensor broadcast together with a shape."""
    shape = c.shape(x)
    try:
        whole = np.broadcast_shapes(shape, tuple(wanted))
    except ValueError:
        raise c.source.fault(f"{list(shape)} does not broadcast to {list(wanted)}") from None
    return c.node("broadcast_to", [x], shape=c.small(whole))


def tiled(c: Conversion, x: int, repeats: Sequence[int]) -> int:
    """A tensor repeated along each of its axes."""
    shape = c.shape(x)
    fits = len(repeats) == len(shape) and min(repeats, default=0) >= 0
    c.require(fits, f"repeats {list(repeats)} are not one number for each axis of {list(shape)}")
    c.small([size * times for size, times in zip(shape, repeats, strict=True)])
    return c.node("tile", [x], multiples=tuple(repeats))
