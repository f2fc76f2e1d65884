"""Clocks: the ports of the memories have one, every core has one, and simulated time is what all of them divide.

Time is counted in *ticks*, of which every clock's period is a whole number; all clocks have an edge in tick 0. A
clock is exactly what is written, 333.3 MHz is 3333/10. Where all clocks are equal a tick is a cycle, and there is no
`Clock`: the environment itself is everybody's time.

Whoever waits for something of another clock goes on at its own next edge, at once if it has one then.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray
from simpy.events import NORMAL, EventPriority

_LARGEST = int(np.iinfo(np.int64).max)


def frequency(clock_mhz: float) -> Fraction:
    """A clock in MHz as its digits say it, not as binary has it."""
    return Fraction(repr(float(clock_mhz)))


def ticks_of(clocks_mhz: Sequence[float]) -> tuple[int, ...]:
    """Ticks of a cycle of each clock: the smallest whole numbers that are to each other as the periods."""
    frequencies = [frequency(each) for each in clocks_mhz]
    common = Fraction(
        lcm(*(each.numerator for each in frequencies)), gcd(*(each.denominator for each in frequencies))
    )
    return tuple(int(common / each) for each in frequencies)


class Clock(simpy.Environment):
    """An environment seen by one of its clocks: `now` and delays are cycles of `ticks` ticks each.

    Processes whose events come from this clock alone are at its edges and need nothing else. After an event of another
    clock they wait for `edge`, or for what that one's cycles lead to (`after`), before they look at the time.
    """

    def __init__(self, environment: simpy.Environment, ticks: int) -> None:
        super().__init__()
        self._environment = environment
        self.ticks = ticks

    @property
    def now(self) -> int:
        """The cycle that begins now, or next."""
        return -(-int(self._environment.now) // self.ticks)

    def schedule(self, event: simpy.Event, priority: EventPriority = NORMAL, delay: float = 0) -> None:
        """Schedule an event of the environment `delay` cycles from now."""
        self._environment.schedule(event, priority, int(delay) * self.ticks)

    def edge(self) -> simpy.Event:
        """The edge of now, or the next one."""
        return self._at_edge(0)

    def after(self, cycles: int, other: Clock | None) -> simpy.Event:
        """The edge in which, or the next one after which, `cycles` cycles of another clock have passed from now; of its
        own if no other is given.
        """
        return self._at_edge(cycles * (other or self).ticks)

    def _at_edge(self, ticks: int) -> simpy.Event:
        event = self.event()
        event._ok, event._value = True, None
        now = int(self._environment.now)
        self._environment.schedule(event, NORMAL, -(-(now + ticks) // self.ticks) * self.ticks - now)
        return event

    def of(self, cycles: int, other: Clock) -> int:
        """The first cycle of this clock that begins no sooner than a cycle of another one."""
        return -(-cycles * other.ticks // self.ticks)


class CoreTime(NamedTuple):
    """The cycles of a launch on its core in those of the system, both counted from the launch's beginning there.

    late:  of the core's first edge behind that beginning, in cycles of the system; below one of the core's.
    ratio: cycles of the system in one of the core.
    """

    late: Fraction = Fraction(0)
    ratio: Fraction = Fraction(1)

    @property
    def same(self) -> bool:
        """Whether the core's clock is the system's."""
        return self.ratio == 1 and not self.late

    def cycle(self, cycle: int) -> int:
        """The first cycle of the system that begins no sooner than a cycle of the core."""
        found = self.late + cycle * self.ratio
        return -(-found.numerator // found.denominator)

    def cycles(self, cycles: NDArray[np.int64]) -> NDArray[np.int64]:
        """`cycle` of each, same shape."""
        if self.same or not cycles.size:
            return cycles
        whole = lcm(self.late.denominator, self.ratio.denominator)
        late, ratio = int(self.late * whole), int(self.ratio * whole)
        wide: NDArray[Any] = cycles
        if int(np.abs(cycles).max()) * ratio + late + whole > _LARGEST:
            wide = cycles.astype(object)
        found: NDArray[np.int64] = (-((-late - wide * ratio) // whole)).astype(np.int64)
        return found
