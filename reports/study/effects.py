"""The effect of each parameter on the objectives, as words and small charts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.reports.study.columns import Parameter, Value, level
from npusim.reports.words import quantities as show
from npusim.study.sensitivity import FEWEST_OF_A_VALUE, FEWEST_POINTS, Level, Sensitivity, ranked

if TYPE_CHECKING:
    from npusim.study.study import Study

WIDTH, HEIGHT, MARGIN = 100.0, 40.0, 4.0
LEAST_RATIO = 1.02


class Effect(NamedTuple):
    """The effect of a parameter on an objective.

    line, dots, spread: paths in a box of 100 x 40: means, and two standard errors to either side of each; all boxes of
                an objective have one logarithmic (or linear) scale. Empty where no value has enough points.
    share:      what it explains of the variance, 0 to 1; with its error as text in `words_of_share`.
    swing:      the largest mean over the smallest, as text.
    words:      by value the mean, its range and the number of points, for those who do not see the line.
    """

    line: str
    dots: str
    spread: str
    share: float
    words_of_share: str
    swing: str
    words: str


class Bar(NamedTuple):
    """Points with a value of a parameter: on the front, feasible, beyond a limit, without a result.

    `part` is that of the front of its most frequent value; `parts` are those of the feasible points, those beyond a
    limit and those without a result of all points of the value with the most.
    """

    value: str
    front: int
    part: float
    counts: tuple[int, int, int]
    parts: tuple[float, float, float]

    @property
    def words(self) -> str:
        """The counts as text."""
        names = ("feasible", "beyond a limit", "without a result")
        shown = [f"{count} {name}" for count, name in zip(self.counts, names, strict=True) if count]
        return f"{self.value}: {', '.join(shown) or 'no points'}"


class Row(NamedTuple):
    """A parameter with its effects, one per objective, and the points with each of its values."""

    path: str
    ends: tuple[str, str]
    effects: tuple[Effect, ...]
    bars: tuple[Bar, ...]

    @property
    def each(self) -> str:
        """How many points with a result a value has: "34 to 48 each"."""
        counts = [bar.counts[0] + bar.counts[1] for bar in self.bars]
        ends = dict.fromkeys((min(counts), max(counts)))
        return f"{' to '.join(map(str, ends))} each"


def effects(study: Study, parameters: Sequence[Parameter], objectives: Sequence[Value]) -> list[Row]:
    """A row per parameter, the one that matters most first; none where too few points have a result."""
    by_path = {each.path: each for each in parameters}
    scales = {
        value.key: _Scale(
            [each for found in study.sensitivities if found.objective == value.key for each in found.levels]
        )
        for value in objectives
    }
    rows = []
    for found in ranked(study.sensitivities):
        parameter = by_path[found[0].parameter]
        made = tuple(
            _effect(each, value, scales[value.key]) for each, value in zip(found, objectives, strict=True)
        )
        ends = level(parameter.levels[0]), level(parameter.levels[-1])
        rows.append(Row(parameter.path, ends, made, _bars(study, parameter)))
    return rows


def words_of_share(found: Sensitivity) -> str:
    """A share with two standard errors: "38.5 % ± 4.6"."""
    return f"{show.percent(found.share)} \N{PLUS-MINUS SIGN} {200 * found.error:.1f}"


def basis(study: Study) -> str:
    """What the effects rest on, in a sentence or two; empty where nothing varies."""
    computed = sum(not record.reason for record in study.records)
    without = len(study.records) - computed
    if all(len(axis.values) < 2 for axis in study.parameters) or not study.records:
        return ""
    failed = (
        f"; {show.plural(without, 'point')} without a result {'is' if without == 1 else 'are'} left out"
        * bool(without)
    )
    if not study.sensitivities:
        return f"{show.plural(computed, 'point')} with a result: too few to tell, it takes {FEWEST_POINTS}{failed}."
    explained = {each.objective: each.explained for each in study.sensitivities}
    parts = ", ".join(f"{show.percent(part)} of {key}" for key, part in explained.items())
    return (
        f"From a model of all {show.plural(computed, 'point')} with a result, beyond limits or not{failed}. "
        f"Of the variance of points that it has not seen it explains {parts}."
    )


class _Scale:
    """Heights of the means of an objective in all its boxes: logarithms where they are all positive."""

    def __init__(self, levels: Sequence[Level]) -> None:
        told = [each for each in levels if each.mean is not None]
        means = [each.mean for each in told if each.mean is not None]
        ends = [end for each in told for end in (each.low, each.high) if end is not None]
        self._logarithmic = bool(means) and min(means) > 0
        heights = [self._height(each) for each in means] or [0.0]
        self._low, self._high = min(heights), max(heights)
        if self._logarithmic and self._high - self._low < math.log(LEAST_RATIO):
            middle = (self._low + self._high) / 2  # differences that small are drawn as such
            self._low, self._high = (middle + side * math.log(LEAST_RATIO) / 2 for side in (-1, 1))
        reach = self._high - self._low  # errors beyond twice the range of the means are cut off
        lowest = min([self._height(each) for each in ends] or [self._low])
        highest = max([self._height(each) for each in ends] or [self._high])
        self._low, self._high = (
            max(min(self._low, lowest), self._low - reach / 2),
            min(max(self._high, highest), self._high + reach / 2),
        )

    def _height(self, mean: float) -> float:
        return math.log(mean) if self._logarithmic else mean

    def y(self, mean: float) -> float:
        """From the bottom of the box upwards: more is higher."""
        part = (self._height(mean) - self._low) / ((self._high - self._low) or 1.0)
        return HEIGHT - MARGIN - min(max(part, 0.0), 1.0) * (HEIGHT - 2 * MARGIN)


def _effect(found: Sensitivity, value: Value, scale: _Scale) -> Effect:
    step = (WIDTH - 2 * MARGIN) / max(len(found.levels) - 1, 1)
    places = [
        (MARGIN + at * step, *(scale.y(end) for end in (each.mean, each.low, each.high)))
        for at, each in enumerate(found.levels)
        if each.mean is not None and each.low is not None and each.high is not None
    ]
    return Effect(
        "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in places) if places else "",
        "".join(f"M{x:.1f} {y:.1f}h0" for x, y, _, _ in places),
        "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, _, low, high in places),
        found.share,
        words_of_share(found),
        _swing(found),
        ", ".join(_words(each, value) for each in found.levels),
    )


def _words(found: Level, value: Value) -> str:
    """What is known at one value: "16: 3.12 ms (2.9 to 3.3, 24 points, 2 without a result)"."""
    counts = [show.plural(found.points, "point")]
    if found.without:
        counts.append(f"{found.without} without a result")
    if found.mean is None or found.low is None or found.high is None:
        return f"{name_of(found)}: {', '.join(counts)}, fewer than {FEWEST_OF_A_VALUE}"
    low, high = (show.digits(value.amount(end)) for end in (found.low, found.high))
    mean = f"{show.digits(value.amount(found.mean))} {value.unit}".strip()
    return f"{name_of(found)}: {mean} ({low} to {high}, {', '.join(counts)})"


def name_of(found: Level) -> str:
    """The value of a level, or the first and the last of a group."""
    ends = dict.fromkeys((level(found.values[0]), level(found.values[-1])))
    return " to ".join(ends)


def _swing(found: Sensitivity) -> str:
    if len(found.means) < 2 or not math.isfinite(found.swing):
        return ""
    return f"\N{MULTIPLICATION SIGN} {show.ratio(found.swing)}"


def _bars(study: Study, parameter: Parameter) -> tuple[Bar, ...]:
    """Points by value of a parameter."""
    front = {record.point for record in study.front}
    on_front: Counter[Any] = Counter()
    standing: Counter[tuple[Any, int]] = Counter()
    for record in study.records:
        value = study.space.point(record.point)[parameter.path]
        on_front[value] += record.point in front
        standing[value, 2 if record.reason else 0 if study.within_limits(record) else 1] += 1
    counts = {each: tuple(standing[each, how] for how in range(3)) for each in parameter.levels}
    most_front = max(on_front.values(), default=0) or 1
    most = max(map(sum, counts.values())) or 1
    return tuple(
        Bar(level(each), on_front[each], on_front[each] / most_front, of, tuple(n / most for n in of))  # type: ignore[arg-type]
        for each, of in counts.items()
    )
