"""How many cases and random examples the tests try: very few in `make quick`, few by day, all by night.

One place for all of them. The environment says which:

NPUSIM_QUICK=1     `make quick`: no test marked `slow`, one case of a parametrised one, few random examples
(nothing)          `make test`: what the mark `cases` at a test says, of tests without it every case
NPUSIM_NIGHT=1     `make nightly`: every case, 25 times as many random examples, new ones each time
NPUSIM_TURN=K      which of the cases quick and day try: each number another choice, in turn all of them
NPUSIM_EXAMPLES=N  N new random examples in each random test
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

NIGHT = bool(os.environ.get("NPUSIM_NIGHT"))
"""Whether tests try all that they can, whatever it takes (`make nightly`)."""
QUICK = bool(os.environ.get("NPUSIM_QUICK")) and not NIGHT
"""Whether tests try only what takes a minute in all (`make quick`)."""
TURN = int(os.environ.get("NPUSIM_TURN", "0"))
WANTED = int(os.environ.get("NPUSIM_EXAMPLES") or 0)


def scaled(number: int) -> int:
    """Return how many random examples to try: a fifth of `number` in `make quick`, two fifths by day, 10 x it by night.

    The examples of the day are the same on every day: more of them cost time on every commit and find a fault once. The
    night draws new ones each time.
    """
    return WANTED or (10 * number if NIGHT else max(number // 5 if QUICK else 2 * number // 5, 2))


def tried(day: int, night: int) -> int:
    """Return the number of seeds to try: NPUSIM_EXAMPLES if given, otherwise `night` by night and else `day`."""
    return WANTED or (night if NIGHT else day)


def examples(number: int) -> settings:
    """Settings of a Hypothesis test with `scaled(number)` examples: the same on every day, new ones by night."""
    return settings(
        max_examples=scaled(number),
        derandomize=not (WANTED or NIGHT),
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def some(cases: Sequence[T], day: int, name: str) -> list[T]:
    """The cases to try where `day` of them are tried by day, in their order: all by night, one in `make quick`.

    The choice is random, but the same for the same `name` and turn. Successive turns go through all cases.
    """
    count = len(cases) if NIGHT else min(day, 1) if QUICK else day
    if count >= len(cases):
        return list(cases)
    places = list(range(len(cases)))
    random.Random(name).shuffle(places)
    chosen = {places[(TURN * count + step) % len(places)] for step in range(count)}
    return [case for place, case in enumerate(cases) if place in chosen]
