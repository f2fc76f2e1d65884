"""A study as one self-contained HTML page: `study.html` of `npusim explore`, styled like the report of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.base import files
from npusim.isa.base.version import npusim_version
from npusim.reports.page.page import page
from npusim.reports.study import columns as study_columns
from npusim.reports.study import data as study_data
from npusim.reports.study import figures as study_figures
from npusim.reports.study.columns import Parameter, Value, claims, level
from npusim.reports.study.effects import basis, effects
from npusim.reports.words import quantities as show
from npusim.study import metrics
from npusim.study.metrics import COMBINE
from npusim.study.progress import progress
from npusim.study.sensitivity import most_by_objective
from npusim.study.study import FILES, Study

if TYPE_CHECKING:
    from npusim.study.evaluate import Record

SCRIPTS = ("page.js", "study.js", "study_kit.js", "study_plots.js", "study_lines.js", "study_table.js")
MOST_REASONS = 12
MOST_LISTED_VALUES = 12
MOST_STATIC_ROWS = 100
REACHED = 0.99
"""Share of the final hypervolume of which the page says after how many points it was reached."""

_SAMPLERS = {
    "grid": "every point of the grid",
    "random": "points at random",
    "nsga2": "Optuna's NSGA-II",
    "tpe": "Optuna's TPE",
}


class Cell(NamedTuple):
    """A number with its unit, whether it is the best, and its ratio to that of the base hardware, such as "x 0.42"."""

    text: str
    best: bool = False
    against_base: str = ""
    judgement: str = ""


class Pick(NamedTuple):
    """A notable point: the best in an objective, the balanced one, or the base hardware."""

    title: str
    point: int | None
    settings: tuple[str, ...]
    cells: tuple[Cell, ...]


def render(study: Study, files: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page as HTML text.

    files: names of the files beside the page, with their purposes.
    """
    parameters, values = study_columns.parameters(study), study_columns.values(study)
    objectives = [value for value in values if value.goal]
    data = study_data.data(study, parameters, values)
    steps = progress(study)
    data["progress"] = {
        "points": [step.points for step in steps],
        "share": [round(step.share, 4) for step in steps],
    }
    return page(
        "study.html",
        SCRIPTS,
        data,
        title=f"Exploration of {title(study)}",
        version=npusim_version(),
        study=study,
        files=files,
        sampler=_SAMPLERS[study.sampler["kind"]],
        combine=COMBINE[study.space.combine],
        parameters=parameters,
        values=values,
        objectives=objectives,
        picks=_picks(study, parameters, objectives),
        against_base=_against_base(study),
        claims=claims(study),
        reasons=_reasons(study),
        front=_front(study, parameters, values),
        effects=effects(study, parameters, objectives),
        most=[
            (value.label, sensitivity)
            for sensitivity in most_by_objective(study.sensitivities)
            for value in objectives
            if value.key == sensitivity.objective
        ],
        basis=basis(study),
        made=study.provenance,
        everywhere=_everywhere(study, parameters),
        space=[(axis.path, _listed(axis.values)) for axis in study.parameters],
        progress=steps,
        reached=next((step.points for step in steps if step.share >= REACHED), None),
        level=level,
        unit=study_data.show_unit,
    )


def title(study: Study) -> str:
    """Return a short title: the models and the hardware that was searched."""
    names = ", ".join(show.printable(model.name) for model in study.models)
    return f"{names} on {show.printable(study.space.base.name)}"


def _picks(study: Study, parameters: Sequence[Parameter], objectives: Sequence[Value]) -> list[Pick]:
    """Return the notable points: the best of every objective, the balanced one of the front, the base hardware."""
    if not study.front:
        return []
    costs = study.costs(study.front)
    orders = [np.lexsort([*np.delete(costs, at, 1).T, costs[:, at]]) for at in range(len(objectives))]
    places = [(f"best {value.label}", int(order[0])) for value, order in zip(objectives, orders, strict=True)]
    if len(objectives) > 1 and len(study.front) > 2:
        places.append(("balanced", _balanced(costs)))
    picks = []
    for name, place in places:
        record = study.front[place]
        point = study.space.point(record.point)
        settings = tuple(level(point[parameter.path]) for parameter in parameters)
        cells = tuple(_cell(study, value, record) for value in objectives)
        picks.append(Pick(name, record.point, settings, cells))
    base = study.space.base
    if study.base is not None and study.base.values:
        own = tuple(level(reduce(getattr, parameter.path.split("."), base)) for parameter in parameters)
        cells = tuple(_cell(study, value, study.base) for value in objectives)
        picks.append(Pick(base.name, None, own, cells))
    return picks


def _balanced(costs: metrics.Costs) -> int:
    """Return the front's point that is nearest to the best of all objectives, each scaled to a range of 1."""
    low, high = costs.min(axis=0), costs.max(axis=0)
    scaled = (costs - low) / np.where(high > low, high - low, 1)
    return int((scaled**2).sum(axis=1).argmin())


def _cell(study: Study, value: Value, record: Record) -> Cell:
    recorded = record.values[value.key]
    text = amount(value, recorded)
    goal = min if value.goal == "min" else max
    best = recorded == goal(other.values[value.key] for other in study.front)
    if record is study.base or study.base is None or not study.base.values.get(value.key):
        return Cell(text, best)
    ratio = recorded / study.base.values[value.key]
    better = ratio < 1 if value.goal == "min" else ratio > 1
    judgement = "same" if ratio == 1 else "better" if better else "worse"
    return Cell(text, best, f"\N{MULTIPLICATION SIGN} {show.ratio(ratio)}", judgement)


def amount(value: Value, recorded: float | None) -> str:
    """Return a recorded value as text in the unit of its column."""
    if recorded is None:
        return ""
    unit = study_data.show_unit(value.unit)
    return f"{show.digits(value.amount(recorded))}{f' {unit}' if unit else ''}"


def _against_base(study: Study) -> str:
    """Return a sentence that compares the base hardware with the front; empty if its values are unknown."""
    name, base = show.printable(study.space.base.name), study.base
    if base is None:
        return ""
    if base.reason:
        return f"{name}, which it starts from, has no result itself: {base.reason}."
    if not study.feasible:
        return ""
    own, costs = study.costs([base])[0], study.costs(study.front)
    beaten = int(((costs <= own).all(axis=1) & (costs < own).any(axis=1)).sum())
    all_of = "It beats" if len(study.front) == 1 else "All of them beat"
    some = f"{show.whole(beaten)} of them {'beats' if beaten == 1 else 'beat'}"
    if beaten:
        who = all_of if beaten == len(study.front) else some
        sentence = f"{who} {name}: no worse in anything, better in something."
    else:
        sentence = f"None of them beats {name} in everything: it would stand on the front itself."
    broken = study.reason(base)
    return f"{sentence} ({name} {broken}.)" if broken else sentence


def _reasons(study: Study) -> list[tuple[str, int]]:
    """Return why points are not feasible, with the number of points, the most frequent reason first."""
    counts = Counter(filter(None, map(study.reason, study.records)))
    shown = counts.most_common(MOST_REASONS)
    rest = counts.total() - sum(points for _, points in shown)
    more = f"{len(counts) - len(shown)} other reasons, listed in points.csv"
    return [*shown, *([(more, rest)] if rest else [])]


def _front(
    study: Study, parameters: Sequence[Parameter], values: Sequence[Value]
) -> list[tuple[int, list[str], list[str]]]:
    """Return the table of the front that is shown without scripts."""
    rows = []
    for record in study.front[:MOST_STATIC_ROWS]:
        point = study.space.point(record.point)
        settings = [level(point[parameter.path]) for parameter in parameters]
        numbers = [show.digits(column.amount(record.values[column.key])) for column in values]
        rows.append((record.point, settings, numbers))
    return rows


def _everywhere(study: Study, parameters: Sequence[Parameter]) -> list[tuple[str, str]]:
    """Return the parameters that have the same value at every point of the front."""
    if len(study.front) < 2:
        return []
    points = [study.space.point(record.point) for record in study.front]
    return [
        (parameter.path, level(points[0][parameter.path]))
        for parameter in parameters
        if len({point[parameter.path] for point in points}) == 1
    ]


def _listed(values: Sequence[Any]) -> str:
    """Return the values of an axis as text; only both ends if they are many."""
    texts = [level(value) for value in values]
    if len(texts) <= MOST_LISTED_VALUES:
        return ", ".join(texts)
    return f"{', '.join(texts[:4])}, ..., {texts[-1]} ({len(texts)} values)"


PAGE = "study.html"


def write_page(study: Study) -> list[Path]:
    """Write study.html and its figures; return the files written."""
    figures = study_figures.writers(study)
    listed = [*FILES, *study_figures.listed(figures)]
    written = {study.path / PAGE: files.text(render(study, listed))}
    written |= {study.path / name: write for name, write in figures.items()}
    files.write_all(written, follow=False)
    return list(written)
