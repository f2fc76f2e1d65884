"""How costly something is beside a fixed piece of work that is measured in the same moment.

Seconds of a processor are not the same on a busy computer: cores share caches, clocks fall, hypervisors steal.
Both sides of the ratio suffer alike, so a limit on it does not depend on who else is computing. Garbage is not
collected meanwhile, as in `timeit`: a collection visits all objects of the process, those of earlier tests included.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable

_ROUNDS = 7


def cost(work: Callable[[], object], limit: float, rounds: int = _ROUNDS) -> float:
    """Return the processor time of `work` over that of a yardstick, about 10 ms of plain Python.

    It is the first below the limit, otherwise the least of some rounds: a busy computer makes a round longer, never
    shorter.
    """
    return _least(lambda: _seconds(work) / _seconds(_yardstick), limit, rounds)


def process_cost(*words: str, limit: float) -> float:
    """Return the processor time of `python WORDS` over that of a Python that does nothing, as `cost` does."""
    return _least(lambda: _child_seconds(*words) / _child_seconds("-c", "pass"), limit, _ROUNDS)


def yardstick_s() -> float:
    """Processor time of the yardstick now, in seconds: the least of some rounds; about 10 ms on a quiet computer."""
    return min(_seconds(_yardstick) for _ in range(_ROUNDS))


def _least(measured: Callable[[], float], limit: float, rounds: int) -> float:
    least = float("inf")
    for _ in range(rounds):
        least = min(least, measured())
        if least < limit:
            break
    return least


def _yardstick() -> int:
    return sum(i * i % 7 for i in range(150_000))


def _seconds(work: Callable[[], object]) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        begin = time.process_time()
        work()
        return time.process_time() - begin
    finally:
        if collecting:
            gc.enable()


def _child_seconds(*words: str) -> float:
    import resource  # Only POSIX has it, and all tests import this file.

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
