"""The effects of parameters on the objectives of a study, as words and small charts."""

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

    line, dots, spread: SVG paths in a box of 100 x 40: the means, and two standard errors to either side of each. All
                boxes of an objective share one scale. Empty if no value has enough points.
    share:      share of the variance that the parameter explains, 0 to 1; `words_of_share` has it with its error.
    swing:      ratio of the largest mean to the smallest, as text.
    words:      mean, range and number of points by value, for readers who cannot see the chart.
    """

    line: str
    dots: str
    spread: str
    share: float
    words_of_share: str
    swing: str
    words: str


class Bar(NamedTuple):
    """The bar of one value of a parameter: how many points of each kind have the value.

    front:  number of its points on the front; part: its ratio to that of the value with the most.
    counts: numbers of feasible points, points beyond a limit, and points without a result.
    parts:  ratios of `counts` to the number of points of the value with the most.
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
    """A parameter with its effects, one per objective, and a bar for each of its values."""

    path: str
    ends: tuple[str, str]
    effects: tuple[Effect, ...]
    bars: tuple[Bar, ...]

    @property
    def each(self) -> str:
        """The number of points with a result per value, such as "34 to 48 each"."""
        counts = [bar.counts[0] + bar.counts[1] for bar in self.bars]
        ends = dict.fromkeys((min(counts), max(counts)))
        return f"{' to '.join(map(str, ends))} each"


def effects(study: Study, parameters: Sequence[Parameter], objectives: Sequence[Value]) -> list[Row]:
    """Return a row per parameter, the one with the largest effect first; none if too few points have a result."""
    by_path = {parameter.path: parameter for parameter in parameters}
    scales = {
        value.key: _Scale(
            [
                entry
                for effect in study.sensitivities
                if effect.objective == value.key
                for entry in effect.levels
            ]
        )
        for value in objectives
    }
    rows = []
    for group in ranked(study.sensitivities):
        parameter = by_path[group[0].parameter]
        cells = tuple(
            _effect(effect, value, scales[value.key]) for effect, value in zip(group, objectives, strict=True)
        )
        ends = level(parameter.levels[0]), level(parameter.levels[-1])
        rows.append(Row(parameter.path, ends, cells, _bars(study, parameter)))
    return rows


def words_of_share(effect: Sensitivity) -> str:
    """Return a share with two standard errors, such as "38.5 % ± 4.6"."""
    return f"{show.percent(effect.share)} \N{PLUS-MINUS SIGN} {200 * effect.error:.1f}"


def basis(study: Study) -> str:
    """Return a sentence or two about the model behind the effects; empty if no parameter varies."""
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
    explained = {sensitivity.objective: sensitivity.explained for sensitivity in study.sensitivities}
    parts = ", ".join(f"{show.percent(part)} of {key}" for key, part in explained.items())
    return (
        f"From a model of all {show.plural(computed, 'point')} with a result, beyond limits or not{failed}. "
        f"Of the variance of points that it has not seen it explains {parts}."
    )


class _Scale:
    """The vertical scale of all boxes of an objective, logarithmic if all means are positive."""

    def __init__(self, levels: Sequence[Level]) -> None:
        known = [entry for entry in levels if entry.mean is not None]
        means = [entry.mean for entry in known if entry.mean is not None]
        ends = [end for entry in known for end in (entry.low, entry.high) if end is not None]
        self._logarithmic = bool(means) and min(means) > 0
        heights = [self._height(entry) for entry in means] or [0.0]
        self._low, self._high = min(heights), max(heights)
        if self._logarithmic and self._high - self._low < math.log(LEAST_RATIO):
            # Means that differ by less get a range of LEAST_RATIO, so that small differences look small.
            middle = (self._low + self._high) / 2
            self._low, self._high = (middle + side * math.log(LEAST_RATIO) / 2 for side in (-1, 1))
        # Large errors must not flatten the line of means, so they extend the scale by half its range at most.
        reach = self._high - self._low
        lowest = min([self._height(entry) for entry in ends] or [self._low])
        highest = max([self._height(entry) for entry in ends] or [self._high])
        self._low, self._high = (
            max(min(self._low, lowest), self._low - reach / 2),
            min(max(self._high, highest), self._high + reach / 2),
        )

    def _height(self, mean: float) -> float:
        return math.log(mean) if self._logarithmic else mean

    def y(self, mean: float) -> float:
        """Return the y coordinate of a mean in the SVG box; a larger mean is drawn higher."""
        part = (self._height(mean) - self._low) / ((self._high - self._low) or 1.0)
        return HEIGHT - MARGIN - min(max(part, 0.0), 1.0) * (HEIGHT - 2 * MARGIN)


def _effect(effect: Sensitivity, value: Value, scale: _Scale) -> Effect:
    step = (WIDTH - 2 * MARGIN) / max(len(effect.levels) - 1, 1)
    places = [
        (MARGIN + at * step, *(scale.y(end) for end in (entry.mean, entry.low, entry.high)))
        for at, entry in enumerate(effect.levels)
        if entry.mean is not None and entry.low is not None and entry.high is not None
    ]
    return Effect(
        "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in places) if places else "",
        "".join(f"M{x:.1f} {y:.1f}h0" for x, y, _, _ in places),
        "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, _, low, high in places),
        effect.share,
        words_of_share(effect),
        _swing(effect),
        ", ".join(_words(entry, value) for entry in effect.levels),
    )


def _words(group: Level, value: Value) -> str:
    """Return the statistics of one value, such as "16: 3.12 ms (2.9 to 3.3, 24 points, 2 without a result)"."""
    counts = [show.plural(group.points, "point")]
    if group.without:
        counts.append(f"{group.without} without a result")
    if group.mean is None or group.low is None or group.high is None:
        return f"{name_of(group)}: {', '.join(counts)}, fewer than {FEWEST_OF_A_VALUE}"
    low, high = (show.digits(value.amount(end)) for end in (group.low, group.high))
    mean = f"{show.digits(value.amount(group.mean))} {value.unit}".strip()
    return f"{name_of(group)}: {mean} ({low} to {high}, {', '.join(counts)})"


def name_of(group: Level) -> str:
    """Return the value of a level as text; for a group of values, the first and the last."""
    ends = dict.fromkeys((level(group.values[0]), level(group.values[-1])))
    return " to ".join(ends)


def _swing(effect: Sensitivity) -> str:
    if len(effect.means) < 2 or not math.isfinite(effect.swing):
        return ""
    return f"\N{MULTIPLICATION SIGN} {show.ratio(effect.swing)}"


def _bars(study: Study, parameter: Parameter) -> tuple[Bar, ...]:
    """Return a bar for each value of a parameter."""
    front = {record.point for record in study.front}
    on_front: Counter[Any] = Counter()
    standing: Counter[tuple[Any, int]] = Counter()
    for record in study.records:
        value = study.space.point(record.point)[parameter.path]
        on_front[value] += record.point in front
        standing[value, 2 if record.reason else 0 if study.within_limits(record) else 1] += 1
    counts = {
        setting: tuple(standing[setting, outcome] for outcome in range(3)) for setting in parameter.levels
    }
    most_front = max(on_front.values(), default=0) or 1
    most = max(map(sum, counts.values())) or 1
    return tuple(
        Bar(level(key), on_front[key], on_front[key] / most_front, of, tuple(n / most for n in of))  # type: ignore[arg-type]
        for key, of in counts.items()
    )
