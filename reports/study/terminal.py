"""The summary of a study for a terminal: the front, the parameters with most effect, and failed points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from npusim.reports.study.columns import claims, level
from npusim.reports.study.effects import basis, words_of_share
from npusim.reports.words.quantities import columns, digits, printable
from npusim.study.metrics import COMBINE
from npusim.study.sensitivity import ranked
from npusim.study.study import Study

MOST_ROWS = 20
MOST_REASONS = 3


def summary(study: Study) -> str:
    """Return the text that `npusim explore` prints at the end of a search."""
    parts = [_head(study), _front(study), _sensitivities(study), _failed(study)]
    return "\n\n".join(part for part in parts if part)


def _head(study: Study) -> str:
    names = ", ".join(
        printable(model.name) if len(study.models) == 1 else f"{printable(model.name)} x {model.weight:g}"
        for model in study.models
    )
    counts = f"{len(study.records)} points, {len(study.feasible)} feasible, {len(study.front)} on the front"
    lines = [
        f"{path} changes no objective: all of its values give equal ones." for path in study.without_effect
    ]
    lines += [f"{names} on {study.space.base.name}: {counts} of a space of {study.space.size}"]
    if len(study.models) > 1:
        lines.append(f"Values of several models: {COMBINE[study.space.combine]}.")
    lines.append(claims(study))
    if study.space.programs == "shared":
        lines.append("Programs are shared between points that differ in timing, energy or clock only.")
    return "\n".join(lines)


def _front(study: Study) -> str:
    """Return the table of the front; parameters with one value on it are in a line of their own."""
    if not study.front:
        return ""
    points = [study.space.point(record.point) for record in study.front]
    varying = [path for path in points[0] if len({point[path] for point in points}) > 1]
    same = [f"{path} = {level(value)}" for path, value in points[0].items() if path not in varying]
    head = [
        "point",
        *_short(varying),
        *(f"{objective.key}{_goal(objective.goal)}" for objective in study.objectives),
    ]
    rows = [
        [
            str(record.point),
            *(level(point[path]) for path in varying),
            *(digits(record.values[objective.key]) for objective in study.objectives),
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
    """Return parameter names without their table if they stay unique; the next table shows them in full."""
    last = [path.rpartition(".")[2] for path in paths]
    return [name if last.count(name) == 1 else path for name, path in zip(last, paths, strict=True)]


def _goal(goal: str) -> str:
    return " (max)" if goal == "max" else ""


def _spread(rows: Sequence[list[str]], most: int) -> list[list[str]]:
    """Return at most `most` rows, evenly spread, with the first and the last."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def _sensitivities(study: Study) -> str:
    title = "What matters (share of the variance, ± two standard errors):"
    statement = basis(study)
    if not study.sensitivities:
        return f"What matters: {statement}" if statement else ""
    rows = [[effects[0].parameter, *map(words_of_share, effects)] for effects in ranked(study.sensitivities)]
    keys = [objective.key for objective in study.objectives]
    table = columns(["parameter", *keys], rows, right=tuple(range(1, len(keys) + 1)))
    return f"{title}\n{table}\n{statement}"


def _failed(study: Study) -> str:
    reasons = Counter(filter(None, map(study.reason, study.records)))
    if not reasons:
        return ""
    lines = [f"  {count} x {printable(reason)}" for reason, count in reasons.most_common(MOST_REASONS)]
    more = len(reasons) - MOST_REASONS
    title = f"{sum(reasons.values())} points are not feasible:"
    return "\n".join([title, *lines, *([f"  and {more} other reasons in points.csv"] if more > 0 else [])])
