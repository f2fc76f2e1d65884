"""Tracks of many short items: below a point per item, points are filled in proportion.

A track is cut into columns of `rows` cells. Of each column every kind of item fills as many cells as it has of the
column's time, from the bottom up; what rounding takes from one column it gives to the next of that kind. So the
painted share of a kind is its share of the time, however short its items are. `report.js` does the same with pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.numbers.timeline import Times, accumulate


class Patch(NamedTuple):
    """Cells of one kind: columns [left, right), rows [low, high)."""

    kind: int
    left: int
    right: int
    low: int
    high: int

    @property
    def cells(self) -> int:
        """How many cells it has."""
        return (self.right - self.left) * (self.high - self.low)


class Items(NamedTuple):
    """What is on a track: each item's kind, its cycles, half-open, and in how many of them it is at work."""

    kind: NDArray[np.int64]
    begin: Times
    end: Times
    busy: Times


def patches(items: Items, total: int, columns: int, rows: int) -> Iterator[Patch]:
    """What to paint for a track of `total` cycles; neighbouring columns that are filled alike are one patch."""
    at = 0
    for stack, group in groupby(cells(covered(items, total, columns), rows)):
        right, low = at + len(list(group)), 0
        for kind, number in enumerate(stack):
            if number:
                yield Patch(kind, at, right, low, low + number)
                low += number
        at = right


def covered(items: Items, total: int, columns: int) -> NDArray[np.float64]:
    """The share of every column's time that each kind has, float64 [kinds, columns]."""
    edges = np.linspace(0, total, columns + 1)
    found = np.zeros((int(items.kind.max(initial=-1)) + 1, columns))
    for kind in range(len(found)):
        mine = items.kind == kind
        grown = accumulate(items.begin[mine], items.end[mine], items.busy[mine].astype(np.float64), total)
        found[kind] = np.diff(np.interp(edges, grown.corners, grown.reached)) * columns / max(total, 1)
    return found


def cells(shares: NDArray[np.float64], rows: int) -> Iterator[Sequence[int]]:
    """Column by column how many of its `rows` cells each kind fills.

    The cells of a column are those that its kinds want together, rounded; they go to whoever wants most of one more.
    """
    owed = [0.0] * len(shares)
    for column in (shares.T * rows).tolist():
        wanted = [share + due for share, due in zip(column, owed, strict=True)]
        number = [max(int(want // 1), 0) for want in wanted]
        together = min(max(int(sum(wanted) + 0.5 + 1e-6), 0), rows)
        while sum(number) != together:
            step = 1 if sum(number) < together else -1
            takers = [kind for kind in range(len(number)) if number[kind] + step >= 0 and column[kind]]
            if not takers:
                break
            kind = max(takers, key=lambda each: step * (wanted[each] - number[each]))
            number[kind] += step
        owed = [want - got for want, got in zip(wanted, number, strict=True)]
        yield tuple(number)
