"""Resizing of axes: the source elements and weights of each result element, and the nodes that gather or weigh them.

Positions are computed in float32, as ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.forms.conversion import Conversion
from npusim.isa.base.tensor import Float32Array

Places = NDArray[np.int64]

_ONE, _HALF = np.float32(1), np.float32(0.5)


class Axis(NamedTuple):
    """An axis that is resized.

    size, length: its elements before and after.
    scale: the ratio of the two, as the model states it.
    region: the part of the axis that is kept, its ends as shares of 0..1.
    """

    size: int
    length: int
    scale: np.float32
    region: tuple[float, float] = (0.0, 1.0)


class Taps(NamedTuple):
    """The source elements of each result element of a resized axis, and their weights: [length, taps] each."""

    places: Places
    weights: Float32Array


TRANSFORMATIONS = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    *("tf_half_pixel_for_nn", "tf_crop_and_resize"),
)


def positions(axis: Axis, rule: str) -> Float32Array:
    """Return the position of each result element along the source axis; rule: one of `TRANSFORMATIONS`, as in ONNX."""
    at = np.arange(axis.length, dtype=np.float32)
    size, count = np.float32(axis.size), np.float32(axis.length)
    if rule == "tf_crop_and_resize":
        begin, end = (np.float32(edge) for edge in axis.region)
        if axis.length == 1:
            return np.array([_HALF * (begin + end) * (size - _ONE)], np.float32)
        return begin * (size - _ONE) + at * (end - begin) * (size - _ONE) / (count - _ONE)
    if axis.scale == 1:
        return at
    if rule == "asymmetric":
        return at / axis.scale
    if rule == "align_corners":
        return np.zeros_like(at) if axis.length == 1 else at * (size - _ONE) / (count - _ONE)
    if rule == "tf_half_pixel_for_nn":
        return (at + _HALF) / axis.scale
    if rule == "pytorch_half_pixel" and axis.length == 1:
        return np.zeros_like(at)
    centred = (at + _HALF) / axis.scale - _HALF
    if rule == "half_pixel_symmetric":
        center = size / np.float32(2)
        centred = center * (_ONE - count / (axis.scale * size)) + centred
    return centred


def nearest_places(axis: Axis, rule: str, rounding: str) -> Places:
    """Return the source element nearest to each result element."""
    at = positions(axis, rule)
    if rounding == "floor":
        places = np.floor(at)
    elif rounding == "ceil":
        places = np.ceil(at)
    else:
        away = np.trunc(at.astype(np.float64) + np.copysign(0.5, at))
        half = at == np.trunc(at) + _HALF
        places = np.where(half, np.floor(at), away) if rounding == "round_prefer_floor" else away
    return np.clip(places.astype(np.int64), 0, axis.size - 1)


def linear(axis: Axis, rule: str) -> Taps:
    """Return the source elements below and above each position, weighted by linear interpolation."""
    at = np.clip(positions(axis, rule), np.float32(0), np.float32(axis.size - 1))
    below = np.minimum(at.astype(np.int64), axis.size - 1)
    above = np.minimum(below + 1, axis.size - 1)
    over, under = np.abs(at - below.astype(np.float32)), np.abs(at - above.astype(np.float32))
    over, under = (np.where(below == above, _HALF, share) for share in (over, under))
    return Taps(np.stack([below, above], -1), np.stack([under, over], -1))


def cubic(axis: Axis, rule: str, a: float, exclude_outside: bool) -> Taps:
    """Return two source elements on each side with cubic weights; beyond the ends they repeat or are left out."""
    at = positions(axis, rule)
    first = np.floor(at)
    weights = _cubic_weights(at - first, np.float32(a))
    places = first.astype(np.int64)[:, None] + np.arange(-1, 3)
    if exclude_outside:
        weights = np.where((places < 0) | (places >= axis.size), np.float32(0), weights)
        weights = weights / weights.sum(-1, keepdims=True)
    return Taps(np.clip(places, 0, axis.size - 1), weights)


def _cubic_weights(s: Float32Array, a: np.float32) -> Float32Array:
    """Return Keys' cubic kernel at distances 1 + s, s, 1 - s and 2 - s."""
    two, three, four, five, eight = (np.float32(number) for number in (2, 3, 4, 5, 8))
    r = _ONE - s
    return np.stack(
        [
            ((a * (s + _ONE) - five * a) * (s + _ONE) + eight * a) * (s + _ONE) - four * a,
            ((a + two) * s - (a + three)) * s * s + _ONE,
            ((a + two) * r - (a + three)) * r * r + _ONE,
            ((a * (r + _ONE) - five * a) * (r + _ONE) + eight * a) * (r + _ONE) - four * a,
        ],
        -1,
    )


def smoothed(axis: Axis, rule: str, a: float | None, exclude_outside: bool) -> Taps:
    """Return antialiasing taps: a triangle, or Keys' kernel (a), stretched to the step between elements."""
    scale = np.float64(min(axis.scale, _ONE))
    at = positions(axis, rule).astype(np.float64)
    reach = (1.0 if a is None else 2.0) / scale
    first = np.floor(at - reach).astype(np.int64) + 1
    places = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 1)
    far: Any = np.abs((places - at[:, None]) * scale)
    weights = np.maximum(1 - far, 0) if a is None else _kernel(far, a)
    outside = (places < 0) | (places >= axis.size)
    if exclude_outside:
        weights = np.where(outside, 0, weights)
    weights = weights / weights.sum(-1, keepdims=True)
    return Taps(np.clip(places, 0, axis.size - 1), weights.astype(np.float32))


def _kernel(far: Any, a: float) -> Any:
    near = ((a + 2) * far - (a + 3)) * far * far + 1
    wide = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    return np.where(far <= 1, near, np.where(far < 2, wide, 0))


NEAREST = "resize_nearest_neighbor"

MOST_SIDE = 1 << 21
"""Maximum size of a resized axis, because the reader builds a table of the source of each element."""


def nearest(c: Conversion, x: int, chosen: Mapping[int, Places]) -> int:
    """Resize along axes by copying the element at each of these places.

    The image operator is used if it chooses the same elements, otherwise one gather per axis.
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
    """Return the elements that the image operator chooses along an axis."""
    step = np.float32(size) / np.float32(count)
    at = (np.arange(count, dtype=np.float32) + np.float32(0.5 if centers else 0)) * step
    places: Places = np.clip(np.floor(at).astype(np.int64), 0, size - 1)
    return places


def weighted(c: Conversion, x: int, taps: Mapping[int, Taps], *, together: bool) -> int:
    """Resize along axes by weighted sums of elements; `together` sums all products at once, not axis by axis."""
    operands = [x]
    for places, weights in taps.values():
        operands += [c.constant(places), c.constant(weights)]
    return c.node("interpolate", operands, axes=tuple(taps), together=together)
