"""The effect of each parameter on each objective, by a model of all computed points (`npusim.study.response`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.study.metrics import of_hardware

if TYPE_CHECKING:
    from npusim.study.evaluate import Record
    from npusim.study.response import Response
    from npusim.study.space import Axis, Space

FEWEST_POINTS = 10
"""Least number of points with a result for which effects are stated."""

FEWEST_OF_A_VALUE = 5
"""Least number of points with a value of a parameter for which its mean is stated."""


MOST_LEVELS = 12
"""Most levels of a parameter. More values are grouped with their neighbours, because each has too few points."""


@dataclass(frozen=True, slots=True)
class Level:
    """An objective at one value of a parameter, or at a group of neighbouring values.

    values:    the value, or all values of the group in ascending order.
    points:    number of points with a result, those beyond a limit included.
    without:   number of points without a result, whose hardware is invalid or has no program that fits.
    mean:      mean of the objective over the grid with this value, by the model; a geometric mean for a positive
               objective. None for fewer than `FEWEST_OF_A_VALUE` points.
    low, high: the mean minus and plus two standard errors; None without a mean.
    """

    values: tuple[Any, ...]
    points: int
    without: int
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The effect of one parameter on one objective, over the whole grid instead of the computed points.

    share:     its Shapley effect: the part of the objective's variance that it explains by itself, and half of what
               it explains together with each other parameter, 0 to 1. The shares of an objective add up to `explained`.
    error:     the standard error of the share (jackknife over ten groups of points).
    alone:     the part of the share that it explains by itself.
    explained: the part of the variance of points that the model has not seen which it predicts (cross-validation).
    levels:    what is known for each value, in ascending order.
    """

    parameter: str
    objective: str
    share: float
    error: float
    alone: float
    explained: float
    levels: tuple[Level, ...]

    @property
    def means(self) -> Mapping[Any, float]:
        """The stated means, by value, or by the first value of a group."""
        return {level.values[0]: level.mean for level in self.levels if level.mean is not None}

    @property
    def swing(self) -> float:
        """The ratio of the largest mean to the smallest; 1 for fewer than two means."""
        means = list(self.means.values())
        if len(means) < 2 or max(means) <= 0:
            return 1.0
        return max(means) / min(means) if min(means) > 0 else float("inf")


def sensitivities(space: Space, records: Sequence[Record]) -> list[Sensitivity]:
    """Return the effects of all varying parameters, objective by objective, the largest share first.

    There are none for fewer than `FEWEST_POINTS` records with a result.
    """
    computed = [record for record in records if not record.reason]
    axes = [axis for axis in space.axes if len(axis.values) > 1]
    if len(computed) < FEWEST_POINTS or not axes:
        return []
    from npusim.study import response

    settings = [space.point(record.point) for record in computed]
    failed = [space.point(record.point) for record in records if record.reason]
    place = {axis.path: {value: at for at, value in enumerate(_values(axis))} for axis in axes}
    places = np.array([[place[axis.path][point[axis.path]] for axis in axes] for point in settings], np.int64)
    values = np.array(
        [[record.values[objective.key] for objective in space.objectives] for record in computed], np.float64
    )
    models = response.responses(
        [response.Axis(len(axis.values), axis.ordered, _groups(axis)) for axis in axes], places, values
    )
    result = []
    for objective, model in zip(space.objectives, models, strict=True):
        effects = [
            _sensitivity(axis, at, objective.key, model, settings, failed) for at, axis in enumerate(axes)
        ]
        result += sorted(effects, key=lambda effect: -effect.share)
    return result


def _sensitivity(
    axis: Axis,
    at: int,
    objective: str,
    model: Response,
    settings: Sequence[Mapping[str, Any]],
    failed: Sequence[Mapping[str, Any]],
) -> Sensitivity:
    points = Counter(setting[axis.path] for setting in settings)
    without = Counter(setting[axis.path] for setting in failed)
    numbers = zip(model.means[at].tolist(), model.lows[at].tolist(), model.highs[at].tolist(), strict=True)
    every_value = _values(axis)
    levels = []
    for group, of in zip(_groups(axis), numbers, strict=True):
        values = tuple(every_value[place] for place in group)
        count = sum(points[value] for value in values)
        statistics = of if count >= FEWEST_OF_A_VALUE else (None, None, None)
        levels.append(Level(values, count, sum(without[value] for value in values), *statistics))
    return Sensitivity(
        axis.path,
        objective,
        float(model.shares[at]),
        float(model.share_errors[at]),
        float(model.alone[at]),
        model.explained,
        tuple(levels),
    )


def _values(axis: Axis) -> Sequence[Any]:
    """Return the values of an axis; numbers are ascending, so that neighbours are similar."""
    return sorted(axis.values) if axis.ordered else axis.values


def _groups(axis: Axis) -> tuple[tuple[int, ...], ...]:
    """Return the groups of values that share a level, as indices into `_values`."""
    count = len(axis.values)
    groups = min(count, MOST_LEVELS) if axis.ordered else count
    ends = [round(at * count / groups) for at in range(groups + 1)]
    return tuple(tuple(range(begin, end)) for begin, end in pairwise(ends))


def ranked(all_effects: Sequence[Sensitivity]) -> list[tuple[Sensitivity, ...]]:
    """Return the effects of each parameter on the objectives; the parameter with the largest share comes first.

    Only simulated objectives count, if there are any: an area follows from the parameters without a run.
    """
    by_parameter: dict[str, list[Sensitivity]] = {}
    for objective in dict.fromkeys(effect.objective for effect in all_effects):
        for effect in all_effects:
            if effect.objective == objective:
                by_parameter.setdefault(effect.parameter, []).append(effect)
    rows = [tuple(effects) for effects in by_parameter.values()]
    simulated = [row for row in map(_simulated, rows) if row]
    return sorted(
        rows, key=lambda row: -max(of_row.share for of_row in (simulated and _simulated(row)) or row)
    )


def _simulated(effects: Sequence[Sensitivity]) -> list[Sensitivity]:
    return [effect for effect in effects if not of_hardware(effect.objective)]


def most_by_objective(effects: Sequence[Sensitivity]) -> list[Sensitivity]:
    """Return the effect with the largest share for each objective; only simulated objectives, if there are any."""
    chosen = _simulated(effects) or effects
    by_objective = {effect.objective: effect for effect in sorted(chosen, key=lambda effect: effect.share)}
    return [by_objective[key] for key in dict.fromkeys(effect.objective for effect in chosen)]


def without_effect(space: Space, records: Sequence[Record]) -> list[str]:
    """Return the parameters without any effect: all records that differ only in the parameter have equal results.

    A parameter is not among them if no two records differ in it alone.
    """
    paths = []
    for axis in space.axes:
        outcomes: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for record in records:
            point = space.point(record.point)
            others = tuple(value for path, value in point.items() if path != axis.path)
            outcomes.setdefault(others, []).append((record.reason, tuple(record.values.items())))
        groups = [group for group in outcomes.values() if len(group) > 1]
        if groups and all(values == group[0] for group in groups for values in group):
            paths.append(axis.path)
    return paths
