"""The order of what happens within one cycle.

First everything ends that ends in the cycle, is counted, dispatched and starts, in any order. Then the ports of the
scratchpad's banks are granted, and what is granted starts as well; last the ports of the memories decide whom they
serve next. So each decision is made once all who ask in its cycle have asked, and depends on nothing but who they are.
"""

from __future__ import annotations

import simpy
from simpy.events import EventPriority

BANK_PORTS_DECIDE = EventPriority(2)
"""Behind SimPy's own priorities, 0 and 1."""

MEMORY_PORTS_DECIDE = EventPriority(3)


class Settled(simpy.Event):
    """An event `delay` cycles from now, behind everything of a smaller priority that happens in that cycle."""

    def __init__(self, env: simpy.Environment, priority: EventPriority, delay: int = 0) -> None:
        self.env = env
        self.callbacks = []
        self._value = None
        self._ok = True
        env.schedule(self, priority, delay)
