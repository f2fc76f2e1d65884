"""Blocks through two stages: products of a block and outputs of the one before it go on at the same time.

There are two blocks of accumulators. The array begins a block when it has left the one before and the output stage has
emptied the one before that; the output stage begins it when the array has left it:

    left(k)  = max(left(k - 1), empty(k - 2)) + taken(k)
    empty(k) = max(empty(k - 1), left(k)) + emptied(k)

With maximum for sum and sum for product these are linear in (left, empty, empty before), so a run of equal blocks is a
power of a matrix, and rows of columns of slices of blocks are products of such powers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from typing import NamedTuple

_NEVER = -(1 << 60)
"""Less than any time: no dependence."""

Times = tuple[int, ...]
"""A matrix of 3 x 3, row by row."""
_NOTHING: Times = (0, _NEVER, _NEVER, _NEVER, 0, _NEVER, _NEVER, _NEVER, 0)


class Stages(NamedTuple):
    """Cycles of a block in the array and in the output stage."""

    taken: int
    emptied: int


Run = tuple[int, int]
"""A size of blocks and how many of them follow each other."""
Cuts = Sequence[list[Run]]
"""Of rows, columns and channels: the whole blocks and what is left, which comes last."""
Kinds = Mapping[tuple[int, ...], Stages]
"""By rows, columns and channels of a block."""


def last_emptied(cuts: Cuts, kinds: Kinds, last: Stages) -> int:
    """Cycles from the first block to the end of the last one, which takes `last`.

    The channels of a plane follow each other, then columns, then rows.
    """
    steady = _steady(cuts, kinds, last)
    if steady is not None:
        return steady
    rows, columns, slices = cuts

    def block(height: int, width: int, depth: int) -> Times:
        taken, emptied = kinds[height, width, depth]
        return (taken, _NEVER, taken, taken + emptied, emptied, taken + emptied, _NEVER, 0, _NEVER)

    def plane(height: int, width: int, runs: list[Run]) -> Times:
        return _sequence([(block(height, width, depth), count) for depth, count in runs])

    def row(height: int, runs: list[Run]) -> Times:
        return _sequence([(plane(height, width, slices), count) for width, count in runs])

    height, width = rows[-1][0], columns[-1][0]
    before = _sequence(
        [
            *((row(each, columns), count) for each, count in _but_one(rows)),
            *((plane(height, each, slices), count) for each, count in _but_one(columns)),
            *((block(height, width, each), count) for each, count in _but_one(slices)),
        ]
    )
    left, empty, earlier = (max(before[place : place + 3]) for place in (0, 3, 6))
    return max(empty, max(left, earlier) + last.taken) + last.emptied


def _steady(cuts: Cuts, kinds: Kinds, last: Stages) -> int | None:
    """Where the array takes longer than the output stage whatever the blocks, all of the one and a block of the other;
    None elsewhere.
    """
    stages = list(kinds.values())
    counts = [
        rows * columns * slices for rows, columns, slices in product(*[[n for _, n in runs] for runs in cuts])
    ]
    if sum(counts) == 1:
        return sum(last)
    if min(last.taken, *[each.taken for each in stages]) < max([each.emptied for each in stages]):
        return None
    taken = sum([each.taken * count for each, count in zip(stages, counts, strict=True)])
    return taken - stages[-1].taken + last.taken + last.emptied


def _but_one(runs: list[Run]) -> list[Run]:
    size, count = runs[-1]
    return [*runs[:-1], (size, count - 1)]


def _sequence(runs: list[tuple[Times, int]]) -> Times:
    """One run behind the other."""
    return reduce(_behind, [_power(times, count) for times, count in runs], _NOTHING)


def _power(times: Times, count: int) -> Times:
    found = _NOTHING
    while count:
        if count & 1:
            found = times if found is _NOTHING else _behind(found, times)
        count >>= 1
        if count:
            times = _behind(times, times)
    return found


def _behind(first: Times, second: Times) -> Times:
    """What `second` makes of what `first` makes of some times."""
    if first is _NOTHING:
        return second
    if second is _NOTHING:
        return first
    a, b, c, d, e, f, g, h, i = first
    return tuple(
        [
            time
            for x, y, z in (second[:3], second[3:6], second[6:])
            for time in (max(x + a, y + d, z + g), max(x + b, y + e, z + h), max(x + c, y + f, z + i))
        ]
    )
