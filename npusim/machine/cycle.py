"""The order of events within one cycle.

1. Instructions that end in the cycle end and are counted; others are dispatched and start, in any order.
2. The scratchpad's bank ports are granted, and the instructions that got them start.
3. The memory ports choose the transfer to serve next.

So each arbiter decides after all requests of its cycle have arrived, and its decision depends only on these requests,
not on the order of simulation events.
"""

from __future__ import annotations

import simpy
from simpy.events import EventPriority

BANK_PORTS_DECIDE = EventPriority(2)
"""Runs after all events of SimPy's own priorities, 0 (urgent) and 1 (normal), in the same cycle."""

MEMORY_PORTS_DECIDE = EventPriority(3)


class Settled(simpy.Event):
    """An event `delay` cycles from now, after all events of that cycle with a smaller priority number."""

    def __init__(self, env: simpy.Environment, priority: EventPriority, delay: int = 0) -> None:
        self.env = env
        self.callbacks = []
        self._value = None
        self._ok = True
        env.schedule(self, priority, delay)
