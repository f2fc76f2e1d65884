"""Main effects as small charts: what the mean of an objective does along each parameter, and where the front is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.reports import quantities as show
from npusim.reports.study_columns import Parameter, Value, level

if TYPE_CHECKING:
    from npusim.explore.sensitivity import Sensitivity
    from npusim.explore.study import Study

WIDTH, HEIGHT, MARGIN = 100.0, 40.0, 4.0
LEAST_RATIO = 1.02


class Effect(NamedTuple):
    """The main effect of a parameter on an objective.

    line, dots: paths in a box of 100 x 40; all boxes of an objective have one logarithmic (or linear) scale.
    share:      what it explains of the variance by itself, 0 to 1.
    swing:      the largest mean over the smallest, as text.
    words:      the means by value, for those who do not see the line.
    """

    line: str
    dots: str
    share: float
    swing: str
    words: str


class Bar(NamedTuple):
    """How often a value of a parameter stands on the front, as a part of the most frequent."""

    value: str
    points: int
    part: float


class Row(NamedTuple):
    """A parameter with its effects, one per objective, and its values on the front."""

    path: str
    ends: tuple[str, str]
    effects: tuple[Effect, ...]
    front: tuple[Bar, ...]


def effects(study: Study, parameters: Sequence[Parameter], objectives: Sequence[Value]) -> list[Row]:
    """A row per parameter, the one that matters most first; none for fewer than two feasible points."""
    if len(study.feasible) < 2:
        return []
    found = {(each.parameter, each.objective): each for each in study.sensitivities}
    scales = {
        value.key: _Scale([m for each in parameters for m in found[each.path, value.key].means.values()])
        for value in objectives
    }
    points = [study.space.point(record.point) for record in study.front]
    rows = []
    for each in parameters:
        made = tuple(
            _effect(each, value, found[each.path, value.key], scales[value.key]) for value in objectives
        )
        bars = _bars(each, Counter(point[each.path] for point in points))
        rows.append(Row(each.path, (level(each.levels[0]), level(each.levels[-1])), made, bars))
    return sorted(rows, key=lambda row: -max(effect.share for effect in row.effects))


class _Scale:
    """Heights of the means of an objective in all its boxes: logarithms where they are all positive."""

    def __init__(self, means: Sequence[float]) -> None:
        self._logarithmic = min(means) > 0
        heights = [self._height(each) for each in means]
        self._low, self._high = min(heights), max(heights)
        if self._logarithmic and self._high - self._low < math.log(LEAST_RATIO):
            middle = (self._low + self._high) / 2  # differences that small are drawn as such
            self._low, self._high = (middle + side * math.log(LEAST_RATIO) / 2 for side in (-1, 1))

    def _height(self, mean: float) -> float:
        return math.log(mean) if self._logarithmic else mean

    def y(self, mean: float) -> float:
        """From the bottom of the box upwards: more is higher."""
        part = (self._height(mean) - self._low) / ((self._high - self._low) or 1.0)
        return HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN)


def _effect(parameter: Parameter, value: Value, found: Sensitivity, scale: _Scale) -> Effect:
    known = [(at, found.means[each]) for at, each in enumerate(parameter.levels) if each in found.means]
    step = (WIDTH - 2 * MARGIN) / max(len(parameter.levels) - 1, 1)
    places = [(MARGIN + at * step, scale.y(mean)) for at, mean in known]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places) if len(places) <= 24 else ""
    words = ", ".join(f"{level(parameter.levels[at])}: {_mean(value, mean)}" for at, mean in known)
    return Effect(line, dots, found.share, _swing(found.swing), words)


def _mean(value: Value, mean: float) -> str:
    return f"{show.digits(value.amount(mean))} {value.unit}".strip()


def _swing(swing: float) -> str:
    return f"\N{MULTIPLICATION SIGN} {show.ratio(swing)}" if math.isfinite(swing) else ""


def _bars(parameter: Parameter, counts: Counter[Any]) -> tuple[Bar, ...]:
    most = max(counts.values(), default=1)
    return tuple(Bar(level(each), counts[each], counts[each] / most) for each in parameter.levels)
