"""The search for a faster schedule: coordinate descent over `Choices`, each candidate timed by the machine.

The scheduler does not know the machine; whoever calls brings what times a program. The first candidate is the
schedule of the estimates, so the result is never slower. The search is counted in schedules, not in seconds, and
draws from a seeded generator: the same model, machine and count give the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from npusim.isa.base.errors import CompileError
from npusim.isa.program.program import Program
from npusim.scheduler.compile import Schedule, schedule
from npusim.scheduler.fit.choices import Choices
from npusim.scheduler.network.network import Network
from npusim.scheduler.place.policies import estimated
from npusim.scheduler.search.changes import Change, item_changes, network_changes

_SEED = 0
_LEAST_SHARE = 1e-4
"""Layers that are waited for less than this share of all cycles come last."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What the machine says of a program: cycles, and per layer those in which all computing units wait for it."""

    cycles: int
    waiting: Sequence[int]


Evaluate = Callable[[Program], Timing]
Progress = Callable[[int, int], None]
"""Called with (schedules tried, schedules to try)."""


def search(
    network: Network, evaluate: Evaluate, schedules: int, progress: Progress | None = None
) -> Schedule:
    """The fastest of `schedules` schedules tried beside that of the estimates.

    Raises CompileError when the network does not fit the machine.
    """
    return _Descent(network, evaluate, schedules, progress).run()


class _Descent:
    """The best schedule so far and what was tried."""

    def __init__(
        self, network: Network, evaluate: Evaluate, schedules: int, progress: Progress | None
    ) -> None:
        self._network = network
        self._evaluate = evaluate
        self._schedules = schedules
        self._progress = progress
        self._tried: set[tuple[object, ...]] = set()
        self._count = 0
        self._random = Random(_SEED)
        self._best = schedule(network, estimated(network))
        self._timing = evaluate(self._best.program)

    def run(self) -> Schedule:
        """Pass after pass over all changes, those where most time is lost first; then pairs of them."""
        while self._left:
            changes = self._changes()
            if self._try_all(changes):
                continue
            if not self._left or not self._try_pairs(changes):
                break
        return self._best

    @property
    def _left(self) -> bool:
        return self._count < self._schedules

    def _changes(self) -> list[Change]:
        waiting, items = self._timing.waiting, self._network.items
        order = sorted(range(len(items)), key=lambda index: (-self._share(waiting[items[index].node]), index))
        changes = list(network_changes(self._best))
        for index in order:
            changes.extend(item_changes(self._best, index))
        return changes

    def _share(self, cycles: int) -> int:
        """Cycles, or 0 where they are too few to matter."""
        return cycles if cycles > _LEAST_SHARE * self._timing.cycles else 0

    def _try_all(self, changes: Iterable[Change]) -> bool:
        """Each change on top of those that helped; whether any did."""
        improved = False
        for change in changes:
            if not self._left:
                break
            improved |= self._try(change(self._best.choices))
        return improved

    def _try_pairs(self, changes: Sequence[Change]) -> bool:
        """Two changes at once, drawn at random, until a pair helps or none is left worth drawing."""
        if len(changes) < 2:
            return False
        fruitless = 0
        while self._left and fruitless < len(changes):
            first, second = self._random.sample(changes, 2)
            before = self._count
            if self._try(second(first(self._best.choices))):
                return True
            fruitless += self._count == before
        return False

    def _try(self, choices: Choices) -> bool:
        """Take a schedule if it is faster; whether it is. One that was tried before costs nothing."""
        key = choices.key()
        if key in self._tried:
            return False
        self._tried.add(key)
        self._count += 1
        if self._progress is not None:
            self._progress(self._count, self._schedules)
        try:
            candidate = schedule(self._network, choices)
        except CompileError:
            return False
        timing = self._evaluate(candidate.program)
        if timing.cycles >= self._timing.cycles:
            return False
        self._best, self._timing = candidate, timing
        return True
