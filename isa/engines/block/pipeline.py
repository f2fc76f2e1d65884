"""The two-stage pipeline of the block engine: the array computes a block while the output stage empties the one before.

The accumulators are a double buffer. The array starts a block when it has finished the one before and the output stage
has emptied the one before that. The output stage starts a block when the array has finished it:

    left(k)  = max(left(k - 1), empty(k - 2)) + taken(k)
    empty(k) = max(empty(k - 1), left(k)) + emptied(k)

In the max-plus algebra (maximum for sum, sum for product) these equations are linear in (left, empty, empty before). So
a run of equal blocks is a power of a 3 x 3 matrix, and a whole tile is a product of such powers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from typing import NamedTuple

_NEVER = -(1 << 60)
"""The zero of the max-plus algebra: less than any time, so it stands for "no dependence"."""

Times = tuple[int, ...]
"""A 3 x 3 max-plus matrix, row by row."""
_NOTHING: Times = (0, _NEVER, _NEVER, _NEVER, 0, _NEVER, _NEVER, _NEVER, 0)


class Stages(NamedTuple):
    """Cycles of a block in the array and in the output stage."""

    taken: int
    emptied: int


Run = tuple[int, int]
"""A block size along one dimension, and the number of consecutive blocks of this size."""
Cuts = Sequence[list[Run]]
"""The runs along rows, columns and channels: full blocks first, then the remainder."""
Kinds = Mapping[tuple[int, ...], Stages]
"""The stage times of each block size, by (rows, columns, channels)."""


def last_emptied(cuts: Cuts, kinds: Kinds, last: Stages) -> int:
    """Return the cycles from the start of the first block to the end of the last one, whose stage times are `last`.

    Blocks are computed with channels innermost, then columns, then rows.
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
            *((row(size, columns), count) for size, count in _but_one(rows)),
            *((plane(height, size, slices), count) for size, count in _but_one(columns)),
            *((block(height, width, size), count) for size, count in _but_one(slices)),
        ]
    )
    left, empty, earlier = (max(before[place : place + 3]) for place in (0, 3, 6))
    return max(empty, max(left, earlier) + last.taken) + last.emptied


def _steady(cuts: Cuts, kinds: Kinds, last: Stages) -> int | None:
    """Return the cycles if the array is slower than the output stage for every pair of blocks; else None.

    Then the output stage hides behind the array, except for the last block.
    """
    stages = list(kinds.values())
    counts = [
        rows * columns * slices for rows, columns, slices in product(*[[n for _, n in runs] for runs in cuts])
    ]
    if sum(counts) == 1:
        return sum(last)
    if min(last.taken, *[stage.taken for stage in stages]) < max([stage.emptied for stage in stages]):
        return None
    taken = sum([stage.taken * count for stage, count in zip(stages, counts, strict=True)])
    return taken - stages[-1].taken + last.taken + last.emptied


def _but_one(runs: list[Run]) -> list[Run]:
    """Return the runs without their last block."""
    size, count = runs[-1]
    return [*runs[:-1], (size, count - 1)]


def _sequence(runs: list[tuple[Times, int]]) -> Times:
    """Return the max-plus matrix of a sequence of blocks, given as (matrix of a block, number of such blocks)."""
    return reduce(_behind, [_power(times, count) for times, count in runs], _NOTHING)


def _power(times: Times, count: int) -> Times:
    """Return the power of a max-plus matrix by repeated squaring."""
    power = _NOTHING
    while count:
        if count & 1:
            power = times if power is _NOTHING else _behind(power, times)
        count >>= 1
        if count:
            times = _behind(times, times)
    return power


def _behind(first: Times, second: Times) -> Times:
    """Return the max-plus product of two matrices: the times after the blocks of `first`, then those of `second`."""
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
