"""Clock domains: every core has a clock, the memory ports have one, and all are multiples of one common tick.

Time is counted in *ticks*. Every clock's period is a whole number of ticks, and all clocks have an edge at tick 0.
Frequencies are exact decimal fractions, so 333.3 MHz is 3333/10 MHz. If all clocks are equal, a tick is a cycle and
no `Clock` exists: the SimPy environment itself counts cycles.

A process that waits for an event of another clock domain continues at the next edge of its own clock, which may be
the same instant.

The order of events within one cycle is fixed:

1. Instructions that end in the cycle end and are counted; others are dispatched and start, in any order.
2. The scratchpad's bank ports are granted, and the instructions that got them start.
3. The memory ports choose the transfer to serve next.

So each arbiter decides after all requests of its cycle have arrived, and its decision depends only on these requests,
not on the order of simulation events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray
from simpy.events import NORMAL, EventPriority

_LARGEST = int(np.iinfo(np.int64).max)


def frequency(clock_mhz: float) -> Fraction:
    """Return a clock frequency in MHz as the exact fraction of its decimal digits, without binary rounding."""
    return Fraction(repr(float(clock_mhz)))


def ticks_of(clocks_mhz: Sequence[float]) -> tuple[int, ...]:
    """Return the period of each clock in ticks: the smallest whole numbers with the ratios of the periods."""
    frequencies = [frequency(clock_mhz) for clock_mhz in clocks_mhz]
    common = Fraction(
        lcm(*(mhz.numerator for mhz in frequencies)), gcd(*(mhz.denominator for mhz in frequencies))
    )
    return tuple(int(common / mhz) for mhz in frequencies)


class Clock(simpy.Environment):
    """A SimPy environment in one clock domain: `now` and delays are cycles of `ticks` ticks each.

    A process whose events all come from this clock is always at one of its edges. After an event of another clock
    it must wait for `edge` or `after` before it reads the time.
    """

    def __init__(self, environment: simpy.Environment, ticks: int) -> None:
        super().__init__()
        self._environment = environment
        self.ticks = ticks

    @property
    def now(self) -> int:
        """The cycle that begins at this tick or, between two edges, the next one."""
        return -(-int(self._environment.now) // self.ticks)

    def schedule(self, event: simpy.Event, priority: EventPriority = NORMAL, delay: float = 0) -> None:
        """Schedule an event of the environment `delay` cycles from now."""
        self._environment.schedule(event, priority, int(delay) * self.ticks)

    def edge(self) -> simpy.Event:
        """Return an event at this clock's next edge, which may be now."""
        return self._at_edge(0)

    def after(self, cycles: int, other: Clock | None) -> simpy.Event:
        """Return an event at this clock's first edge that is at least `cycles` cycles of `other` from now.

        If no other clock is given, the cycles are those of this clock.
        """
        return self._at_edge(cycles * (other or self).ticks)

    def _at_edge(self, ticks: int) -> simpy.Event:
        event = self.event()
        event._ok, event._value = True, None
        now = int(self._environment.now)
        self._environment.schedule(event, NORMAL, -(-(now + ticks) // self.ticks) * self.ticks - now)
        return event

    def of(self, cycles: int, other: Clock) -> int:
        """Return the first cycle of this clock that begins no sooner than cycle `cycles` of another clock."""
        return -(-cycles * other.ticks // self.ticks)

    def cycles_of(self, cycles: Iterable[int], other: Clock) -> NDArray[np.int64]:
        """Return `of` for several cycles."""
        return np.array([self.of(int(cycle), other) for cycle in cycles], np.int64)


class CoreTime(NamedTuple):
    """The conversion of a launch's times from core cycles to system cycles, both counted from the launch's start.

    late:  delay from the launch's start to the core's first edge, in system cycles; less than one core cycle.
    ratio: system cycles per core cycle.
    """

    late: Fraction = Fraction(0)
    ratio: Fraction = Fraction(1)

    @property
    def same(self) -> bool:
        """Whether the core runs at the system's clock."""
        return self.ratio == 1 and not self.late

    def cycle(self, cycle: int) -> int:
        """Return the first system cycle that begins no sooner than the given core cycle."""
        exact = self.late + cycle * self.ratio
        return -(-exact.numerator // exact.denominator)

    def cycles(self, cycles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert an array of core cycles to system cycles, as `cycle` does; same shape."""
        if self.same or not cycles.size:
            return cycles
        whole = lcm(self.late.denominator, self.ratio.denominator)
        late, ratio = int(self.late * whole), int(self.ratio * whole)
        wide: NDArray[Any] = cycles
        if int(np.abs(cycles).max()) * ratio + late + whole > _LARGEST:
            wide = cycles.astype(object)  # the products would overflow int64
        system_cycles: NDArray[np.int64] = (-((-late - wide * ratio) // whole)).astype(np.int64)
        return system_cycles


BANK_PORTS_DECIDE = EventPriority(2)
"""Runs after all events of SimPy's own priorities, 0 (urgent) and 1 (normal), in the same cycle."""

MEMORY_PORTS_DECIDE = EventPriority(3)


class Settled(simpy.Event):
    """An event of the present cycle, after all events of that cycle with a smaller priority number."""

    def __init__(self, env: simpy.Environment, priority: EventPriority) -> None:
        self.env = env
        self.callbacks = []
        self._value = None
        self._ok = True
        env.schedule(self, priority)


class Wake(simpy.Event):
    """An event that one process waits for. It fires after a delay, or at once if it is hastened before.

    A condition of a timeout and an event does the same with three events instead of one.

    priority: the phase of the cycle in which it fires after a delay. Hastened, it fires with all other events of the
              cycle, unless it was never given a delay.
    hastened: whether somebody hastened it, also after it fired.
    """

    def __init__(self, env: simpy.Environment, priority: EventPriority = NORMAL) -> None:
        super().__init__(env)
        self.priority = priority
        self.hastened = False

    def fire(self, delay: int) -> None:
        """Fire in `delay` cycles."""
        self._ok, self._value = True, None
        self.env.schedule(self, self.priority, delay)

    def hasten(self) -> None:
        """Fire in this cycle."""
        self.hastened = True
        if not self.triggered:
            self.fire(0)
        elif self.callbacks:
            waiting, self.callbacks = self.callbacks, []  # it stays in the queue, where nobody waits for it
            now = simpy.Event(self.env)
            now.callbacks = waiting
            now.succeed()
