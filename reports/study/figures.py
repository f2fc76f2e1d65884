"""Figures of a study for papers and slides, with matplotlib. Each takes a study, returns a Figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from npusim.base.files import Writer
from npusim.reports.run.figures import FAINT, FORMATS, GRID, INK, WIDTH_INCHES, save, styled
from npusim.reports.study import columns as study_columns
from npusim.reports.study.columns import Parameter, Value, level
from npusim.reports.study.effects import words_of_share
from npusim.reports.words import quantities as show
from npusim.study.sensitivity import ranked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from npusim.study.evaluate import Record
    from npusim.study.study import Study

FRONT, OTHER, LINE = "#c2561a", "#6f8296", "#1f6fb2"
MOST_PLOTS, MOST_TICKS = 6, 12


def front(study: Study) -> Figure:
    """The points by every pair of objectives, the front in orange."""
    from matplotlib.ticker import LogLocator

    objectives = [value for value in study_columns.values(study) if value.goal]
    pairs = list(combinations(objectives, 2))[:MOST_PLOTS]
    rows = -(-len(pairs) // 3)
    figure, axes = _figure(study, "Front", rows, min(len(pairs), 3), 3.4 if len(pairs) > 1 else 5.0)
    on_front = {record.point for record in study.front}
    rest = [record for record in study.feasible if record.point not in on_front]
    for panel, (x, y) in zip(axes, pairs, strict=False):
        for records, colour, size, label in ((rest, OTHER, 5, "feasible"), (study.front, FRONT, 18, "front")):
            places = _amounts(x, records), _amounts(y, records)
            alpha = 0.9 if records is study.front else 0.35
            panel.scatter(*places, size, colour, label=label, alpha=alpha, linewidths=0, rasterized=True)
        if study.base is not None and study.base.values:
            place = _amounts(x, [study.base]), _amounts(y, [study.base])
            panel.scatter(*place, 42, INK, marker="D", label=study.space.base.name)
        panel.set(xlabel=x.title, ylabel=y.title)
        scales = ["log" if value.logarithmic else "linear" for value in (x, y)]
        panel.set(xscale=scales[0], yscale=scales[1])
        for axis in (panel.xaxis, panel.yaxis):
            if axis.get_scale() == "log":
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
        panel.minorticks_off()
        panel.grid(True, color=GRID)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return figure


def parallel(study: Study) -> Figure:
    """The front as lines through all parameters and objectives, coloured by the first objective."""
    from matplotlib import colormaps

    columns: list[Parameter | Value] = [*study_columns.parameters(study), *study_columns.values(study)]
    figure, (axes,) = _figure(study, "Parallel coordinates of the front", 1, 1, 4.4)
    heights = np.array([_heights(column, study) for column in columns]).reshape(len(columns), -1)
    best = _heights(study_columns.values(study)[0], study)
    for line, shade in zip(heights.T.tolist(), best, strict=True):
        axes.plot(
            range(len(columns)), line, color=colormaps["cividis"](shade * 0.9), linewidth=0.9, alpha=0.7
        )
    for at, column in enumerate(columns):
        axes.axvline(at, color=FAINT, linewidth=0.8)
        for height, text in _ticks(column, study):
            axes.annotate(text, (at, height), xytext=(3, -3), textcoords="offset points", fontsize=7)
    names = [
        shown.path.replace(".", "\n", 1) if isinstance(shown, Parameter) else shown.title for shown in columns
    ]
    axes.set_xticks(range(len(columns)), names, fontsize=7.5, color=INK)
    axes.set(yticks=[], xlim=(-0.3, len(columns) - 0.4))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    return figure


def sensitivity(study: Study) -> Figure:
    """The effect of every parameter on every objective, by a model of all computed points."""
    by_path = {parameter.path: parameter for parameter in study_columns.parameters(study)}
    rows = ranked(study.sensitivities)
    objectives = [value for value in study_columns.values(study) if value.goal]
    figure, axes = _figure(study, "What matters", len(objectives), len(rows), 1.9, same=True)
    for at, panel in enumerate(axes):
        value, effect = objectives[at // len(rows)], rows[at % len(rows)][at // len(rows)]
        bars = [(place, known) for place, known in enumerate(effect.levels) if known.mean is not None]
        places = [place for place, _ in bars]
        means, lows, highs = (
            [value.amount(getattr(known, end)) for _, known in bars] for end in ("mean", "low", "high")
        )
        panel.vlines(places, lows, highs, color=LINE, linewidth=1, alpha=0.45)
        panel.plot(places, means, color=LINE, linewidth=1.4, marker="o", markersize=3)
        panel.set_title(words_of_share(effect), loc="right", fontsize=7.5, color=FAINT, pad=3)
        levels = by_path[effect.parameter].levels
        panel.set_xticks([0, len(effect.levels) - 1], [level(levels[0]), level(levels[-1])], fontsize=7.5)
        panel.set_xlim(-0.3, len(effect.levels) - 0.7)
        panel.grid(True, axis="y", color=GRID)
        if at % len(rows) == 0:
            panel.set_ylabel(value.title, fontsize=8)
        if at >= len(axes) - len(rows):
            panel.set_xlabel(effect.parameter.replace(".", "\n", 1), fontsize=7.5)
        panel.tick_params(axis="y", labelsize=7.5)
    return figure


FIGURES: Mapping[str, Callable[[Study], Figure]] = {
    "front": front,
    "parallel": parallel,
    "sensitivity": sensitivity,
}
"""Every figure by the name of its file. Their docstrings are shown in the list of files."""


def writers(study: Study) -> dict[str, Writer]:
    """Return the functions that write a study's figures as SVG, PNG and PDF, by file name."""
    if len(study.feasible) < 2 or len(study.objectives) < 2 or not study_columns.parameters(study):
        return {}
    writers: dict[str, Writer] = {}
    provenance = study.provenance
    for name, draw in FIGURES.items():
        if draw is sensitivity and not study.sensitivities:
            continue
        drawn = cache(partial(draw, study))
        writers |= {f"{name}.{kind}": partial(save, drawn, kind, provenance) for kind in FORMATS}
    return writers


def listed(written: Mapping[str, Writer]) -> list[tuple[str, str]]:
    """Return the names of the files of each figure, with what it shows."""
    rows = []
    for name, draw in FIGURES.items():
        if f"{name}.svg" in written:
            purpose = (draw.__doc__ or "").rstrip(".")
            files = ", ".join(f"{name}.{kind}" for kind in FORMATS)
            rows.append((files, f"figure: {purpose[0].lower()}{purpose[1:]}"))
    return rows


def _figure(
    study: Study, title: str, rows: int, columns: int, height: float, *, same: bool = False
) -> tuple[Figure, list[Axes]]:
    """Create an empty figure of rows x columns axes.

    height: height of a row in inches; same: all axes of a row share one vertical scale.
    """
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(WIDTH_INCHES, rows * height), layout="constrained")
        axes = (
            figure.subplots(rows, columns, squeeze=False, sharey="row" if same else "none").ravel().tolist()
        )
        models = ", ".join(show.printable(model.name) for model in study.models)
        named = f"{title}: {models} on {show.printable(study.space.base.name)}"
        figure.suptitle(named, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return figure, axes


def _amounts(value: Value, records: tuple[Record, ...] | list[Record]) -> list[float]:
    return [value.amount(record.values[value.key]) for record in records]


def _heights(column: Parameter | Value, study: Study) -> list[float]:
    """Return where the points of the front cross an axis, 0 to 1."""
    if isinstance(column, Parameter):
        last = max(len(column.levels) - 1, 1)
        points = [study.space.point(record.point)[column.path] for record in study.front]
        return [column.levels.index(point) / last for point in points]
    amounts = np.array(_amounts(column, study.front))
    if column.logarithmic:
        amounts = np.log(amounts)
    low, high = amounts.min(), amounts.max()
    heights: list[float] = ((amounts - low) / ((high - low) or 1)).tolist()
    return heights


def _ticks(column: Parameter | Value, study: Study) -> list[tuple[float, str]]:
    """Return the ticks of an axis as heights with labels: every value if they are few, else both ends."""
    if isinstance(column, Value):
        amounts = _amounts(column, study.front)
        return [(0.0, show.digits(min(amounts))), (1.0, show.digits(max(amounts)))]
    levels, last = column.levels, max(len(column.levels) - 1, 1)
    places = range(len(levels)) if len(levels) <= MOST_TICKS else (0, last)
    return [(at / last, level(levels[at])) for at in places]
