"""Images of other sizes: each element is another one, or a weighted sum of several along each axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npusim.frontends.forms.conversion import Conversion
from npusim.frontends.forms.sampling import Places, Taps

NEAREST = "resize_nearest_neighbor"

MOST_SIDE = 1 << 21
"""Maximum size of a resized axis, because the reader builds a table of the source of each element."""


def nearest(c: Conversion, x: int, chosen: Mapping[int, Places]) -> int:
    """The elements at these places of the axes, which are one or more.

    By the operator of images where it chooses the same elements, otherwise axis by axis.
    """
    shape = c.shape(x)
    if len(shape) == 4 and set(chosen) <= {2, 3}:
        size = tuple(chosen[axis].size if axis in chosen else shape[axis] for axis in (2, 3))
        for centers in (False, True):
            operators = [_as_operator(shape[axis], len(places), centers) for axis, places in chosen.items()]
            if all(map(np.array_equal, operators, chosen.values())):
                return c.node(NEAREST, [x], size=size, half_pixel_centers=centers)
    *first, last = chosen.items()
    for axis, places in first:
        [x] = c.nodes("gather", [x, c.constant(places)], [c.like(x)], axis=axis)
    return c.node("gather", [x, c.constant(last[1])], axis=last[0])


def _as_operator(size: int, count: int, centers: bool) -> Places:
    """The pixels that the operator chooses along an axis."""
    step = np.float32(size) / np.float32(count)
    at = (np.arange(count, dtype=np.float32) + np.float32(0.5 if centers else 0)) * step
    nearest: Places = np.clip(np.floor(at).astype(np.int64), 0, size - 1)
    return nearest


def weighted(c: Conversion, x: int, taps: Mapping[int, Taps], *, together: bool) -> int:
    """The sums of elements with these weights along the axes, one or more; together: as one sum of products."""
    operands = [x]
    for places, weights in taps.values():
        operands += [c.constant(places), c.constant(weights)]
    return c.node("interpolate", operands, axes=tuple(taps), together=together)
