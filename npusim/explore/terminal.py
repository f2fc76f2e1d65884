"""A study as text for a terminal: the front, what matters, and what failed. And how far a search is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from npusim.base.terminal import console
from npusim.explore import pareto
from npusim.explore.evaluate import Record
from npusim.explore.metrics import COMBINE
from npusim.explore.sensitivity import ranked
from npusim.explore.space import Space
from npusim.explore.study import Study
from npusim.reports.words.columns import columns
from npusim.reports.words.quantities import digits, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

MOST_ROWS = 20
MOST_REASONS = 3


def summary(study: Study) -> str:
    """The text at the end of a search."""
    parts = [_head(study), _front(study), _sensitivities(study), _failed(study)]
    return "\n\n".join(part for part in parts if part)


def _head(study: Study) -> str:
    names = ", ".join(
        printable(model.name) if len(study.models) == 1 else f"{printable(model.name)} x {model.weight:g}"
        for model in study.models
    )
    counts = f"{len(study.records)} points, {len(study.feasible)} feasible, {len(study.front)} on the front"
    lines = [f"{names} on {study.space.base.name}: {counts} of a space of {study.space.size}"]
    if len(study.models) > 1:
        lines.append(f"Values of several models: {COMBINE[study.space.combine]}.")
    if study.space.programs == "shared":
        lines.append("Programs are shared between points that differ in timing, energy or clock only.")
    return "\n".join(lines)


def _front(study: Study) -> str:
    """The front, the parameters that are the same everywhere on it in a line of their own."""
    if not study.front:
        return ""
    points = [study.space.point(record.point) for record in study.front]
    varying = [path for path in points[0] if len({point[path] for point in points}) > 1]
    same = [f"{path} = {_value(value)}" for path, value in points[0].items() if path not in varying]
    head = ["point", *_short(varying), *(f"{each.key}{_goal(each.goal)}" for each in study.objectives)]
    rows = [
        [
            str(record.point),
            *(_value(point[path]) for path in varying),
            *(digits(record.values[each.key]) for each in study.objectives),
        ]
        for record, point in zip(study.front, points, strict=True)
    ]
    shown = _spread(rows, MOST_ROWS)
    lines = ["Pareto front:", columns(head, shown, right=tuple(range(len(head))))]
    if len(shown) < len(rows):
        lines.append(f"{len(shown)} of {len(rows)} points, evenly spread; all of them are in front.csv.")
    if same:
        lines.append(f"Everywhere on it: {', '.join(same)}.")
    return "\n".join(lines)


def _short(paths: Sequence[str]) -> list[str]:
    """Parameters without their table, where that is clear: the next table has them in full."""
    last = [path.rpartition(".")[2] for path in paths]
    return [name if last.count(name) == 1 else path for name, path in zip(last, paths, strict=True)]


def _goal(goal: str) -> str:
    return " (max)" if goal == "max" else ""


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:g}"


def _spread(rows: Sequence[list[str]], most: int) -> list[list[str]]:
    """At most so many rows, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def _sensitivities(study: Study) -> str:
    from npusim.reports.study.effects import basis, words_of_share

    title = "What matters (share of the variance, ± two standard errors):"
    said = basis(study)
    if not study.sensitivities:
        return f"What matters: {said}" if said else ""
    rows = [[effects[0].parameter, *map(words_of_share, effects)] for effects in ranked(study.sensitivities)]
    keys = [each.key for each in study.objectives]
    table = columns(["parameter", *keys], rows, right=tuple(range(1, len(keys) + 1)))
    return f"{title}\n{table}\n{said}"


def _failed(study: Study) -> str:
    reasons = Counter(filter(None, map(study.reason, study.records)))
    if not reasons:
        return ""
    lines = [f"  {count} x {printable(reason)}" for reason, count in reasons.most_common(MOST_REASONS)]
    more = len(reasons) - MOST_REASONS
    title = f"{sum(reasons.values())} points are not feasible:"
    return "\n".join([title, *lines, *([f"  and {more} other reasons in points.csv"] if more > 0 else [])])


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
