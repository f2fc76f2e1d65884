"""Fronts: the points that no other point beats in everything. All values are costs: less is better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]
"""Points x objectives."""


def front(costs: Costs) -> NDArray[np.bool_]:
    """Which points are not dominated. Points with equal costs are on the front together."""
    count = len(costs)
    kept = np.zeros(count, bool)
    # In lexicographic order nobody is dominated by a later point, and only points of the front need comparing.
    best = np.empty_like(costs)
    size = 0
    for at in np.lexsort(costs.T[::-1]) if count else ():
        point = costs[at]
        ahead = best[:size]
        dominated = ((ahead <= point).all(axis=1) & (ahead < point).any(axis=1)).any()
        if not dominated:
            best[size] = point
            size += 1
            kept[at] = True
    return kept


def hypervolume(costs: Costs, reference: Sequence[float]) -> float:
    """The volume between the points and a reference that is worse in everything: larger is better.

    Exact, by slicing along the last objective; meant for fronts of a few hundred points in up to four objectives.
    """
    inside = costs[(costs < np.asarray(reference)).all(axis=1)]
    if not len(inside):
        return 0.0
    return _volume(inside[front(inside)], np.asarray(reference, np.float64))


def _volume(points: Costs, reference: NDArray[np.float64]) -> float:
    if points.shape[1] == 1:
        return float(reference[0] - points[:, 0].min())
    ordered = points[np.argsort(points[:, -1], kind="stable")]
    heights = np.append(ordered[1:, -1], reference[-1]) - ordered[:, -1]
    total = 0.0
    for i, height in enumerate(heights.tolist()):
        if height > 0:
            slab = ordered[: i + 1, :-1]
            total += height * _volume(slab[front(slab)], reference[:-1])
    return total
