"""Which points are computed: all, some at random, or those that a search proposes from what it has seen.

A sampler proposes points in batches and is told the records of one batch before it proposes the next. What it
proposes depends on its seed and those records alone: not on who computed them, when, or in how many sittings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import numpy as np

from npusim.study.evaluate import Record
from npusim.study.space import Space
from npusim.study.space_file import Sampling

Told = Mapping[int, Record]
"""Records of the points that were proposed, by number."""

Batches = Iterator[list[int]]
Sampler = Callable[[Space, Sampling, Told], Batches]
"""Gives batches of points; the mapping that it was given holds their records when the next batch is asked for.

A point may be proposed again: it is not computed again. The caller stops when it has enough.
"""

PERMUTED_SIZE = 1_000_000
TRIES_PER_POINT = 1000


def grid(space: Space, sampling: Sampling, told: Told) -> Batches:
    """Every point that satisfies the constraints."""
    yield list(space.numbers())


def random(space: Space, sampling: Sampling, told: Told) -> Batches:
    """Points drawn evenly without replacement; more points continue the same sequence."""
    yield list(islice(random_points(space, sampling.seed), sampling.points))


def random_points(space: Space, seed: int) -> Iterator[int]:
    """The points of a space in random order; of a huge space, until new ones are hard to find."""
    generator = np.random.default_rng(seed)
    if space.size <= PERMUTED_SIZE:
        yield from filter(space.admits, generator.permutation(space.size).tolist())
        return
    seen: set[int] = set()
    misses = 0
    sizes = [len(axis.values) for axis in space.axes]
    while misses < TRIES_PER_POINT:
        number = space.number(generator.integers(sizes).tolist())
        misses += 1
        if number not in seen and space.admits(number):
            seen.add(number)
            misses = 0
            yield number
