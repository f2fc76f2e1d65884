"""How far a search is: a bar on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import numpy as np

from npusim.base.console import console
from npusim.reports.words.quantities import digits
from npusim.study import pareto
from npusim.study.evaluate import Record
from npusim.study.space import Space

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Watch:
    """A bar on stderr, if that is a terminal: points, points per second, time left, the front so far.

    with Watch(space) as watch:
        explore(..., watch=watch)
    """

    INTERVAL_S = 0.2

    def __init__(self, space: Space, file: TextIO, known: int = 0) -> None:
        self._space, self._file, self._known = space, file, known
        self._front: list[list[float]] = []
        self._best: list[float] = []
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._done = 0
        self._begin = self._next = time.monotonic()

    def __enter__(self) -> Watch:
        if self._file.isatty():
            self._bar = _bar(self._file)
            self._bar.start()
            self._task = self._bar.add_task("", total=None, state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, record: Record, total: int) -> None:
        """A point is known."""
        if self._bar is None or self._task is None:
            return
        self._done += 1
        self._add(record)
        now = time.monotonic()
        if now >= self._next or self._done == total:
            self._next = now + self.INTERVAL_S
            self._bar.update(self._task, completed=self._done, total=total, state=self._state(now, total))

    def _add(self, record: Record) -> None:
        space = self._space
        if record.reason or any(limit.excess(record.values[limit.key]) > 0 for limit in space.limits):
            return
        costs = [each.cost(record.values[each.key]) for each in space.objectives]
        self._best = [min(pair) for pair in zip(self._best or costs, costs, strict=True)]
        together = np.array([*self._front, costs], np.float64)
        kept = pareto.front(together)
        self._front = together[kept].tolist()

    def _state(self, now: float, total: int) -> str:
        fresh = self._done - self._known
        rate = fresh / (now - self._begin) if fresh > 0 and now > self._begin else 0.0
        left = f"{rate:.1f}/s, {_duration((total - self._done) / rate)} left, " if rate else ""
        goals = zip(self._space.objectives, self._best, strict=False)
        best = ", ".join(f"{each.key} {digits(each.cost(cost))}" for each, cost in goals)
        return f"{self._done}/{total} points, {left}{len(self._front)} on the front, best {best}"


def _bar(file: TextIO) -> Progress:
    """A short bar and a line of words, cut where the terminal ends."""
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    words = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        BarColumn(bar_width=10),
        TextColumn("{task.fields[state]}", markup=False, table_column=words),
        console=console(file),
        transient=True,
        expand=True,
        refresh_per_second=5,
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    )
