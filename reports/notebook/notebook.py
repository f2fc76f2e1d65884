"""The display of results in notebooks: small HTML tables in which every name is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

from npusim.reports.comparison import cells
from npusim.reports.run.what_if import GROUPS, advice, felt, how, per_mm2, percent, value
from npusim.reports.words import quantities as show
from npusim.reports.words.names import COMPONENT_NAMES, UNIT_NAMES, bound_name, limit_of, short_names
from npusim.reports.words.reason import ending

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from npusim.comparison.comparison import Comparison
    from npusim.comparison.rows import Row
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import WhatIf
    from npusim.study.study import Study

MOST_LAYERS = 20
LONGEST_NAME = 48
DOTS_PER_INCH = 90

_RIGHT = ' style="text-align:right;white-space:nowrap"'
_LEFT = ' style="text-align:left"'
_COLOURS = {"better": "#2e7d32", "worse": "#c62828", "same": "inherit", "other": "inherit"}


def result(run: RunResult) -> str:
    """Return the main numbers of a run, and its longest layers."""
    facts = [
        (
            "Latency",
            show.time(run.latency_ms),
            f"{show.whole(run.cycles)} cycles; {run.uncertainty.words('latency')}",
        ),
        ("Energy", show.energy(run.energy_uj), f"with DRAM and host; {run.uncertainty.words('energy')}"),
        ("Power", show.power(run.power_mw.average), f"peak {show.peaks(run.power_mw)}"),
        ("MAC utilization", show.percent(run.mac_utilization), f"{show.count(run.macs)} MACs"),
        (
            "Lower bound",
            show.time(run.hardware.us_of_cycles(run.lower_bound.cycles) * 1e-3),
            f"{show.whole(run.lower_bound.cycles)} cycles, set by {limit_of(run.lower_bound)}",
        ),
    ]
    facts += [
        (show.memory(name), show.size(sum(moved.values())), f"{show.size(moved['write'])} written")
        for name, moved in run.memory_bytes.items()
    ]
    if not run.hardware.is_host_alone:
        facts.append(
            (
                "Area",
                show.area(run.area.total),
                f"{show.digits(run.tops.peak)} TOPS at most, {show.digits(run.tops.reached)} reached",
            )
        )
    facts += [
        (line.title, line.value, ": ".join(filter(None, (line.words, " ".join(line.paste)))))
        for line in ending(run)
    ]
    layers = sorted(run.layers, key=lambda layer: -layer.cycles)
    names, total = short_names([layer.name for layer in layers], LONGEST_NAME), run.cycles or 1
    rows = [
        (
            names[at],
            layer.op,
            UNIT_NAMES[layer.unit],
            show.whole(layer.cycles),
            show.percent(layer.cycles / total),
            show.percent(layer.utilization) if layer.unit == "mac" else "",
            bound_name(layer.bound_by),
            show.size(layer.bytes),
            show.energy(layer.energy_uj),
        )
        for at, layer in enumerate(layers[:MOST_LAYERS])
    ]
    head = ("layer", "operator", "unit", "cycles", "share", "MAC util.", "bound by", "DRAM bytes", "energy")
    title = f"{run.model} on {run.machine_name}"
    return _block(
        title,
        _table((), facts, left=(0, 2)),
        _longest(len(rows), len(layers)),
        _table(head, rows, left=(0, 1, 2, 6)),
    )


def figure(name: str, run: RunResult) -> Figure:
    """Return a figure of `npusim.reports.run.figures` that a notebook shows, even without `%matplotlib inline`."""
    from npusim.reports.run import figures

    drawn: Figure = getattr(figures, name)(run)
    vars(drawn)["_repr_png_"] = partial(_png, drawn)  # of a kind that IPython asks every object for
    return drawn


def _png(drawn: Figure) -> bytes:
    from npusim.reports.run import figures

    file = BytesIO()
    with figures.styled():
        drawn.savefig(file, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight")
    return file.getvalue()


def comparison(result: Comparison) -> str:
    """Return the main numbers and layers of a comparison, with their changes."""
    legend = [
        (letter, show.shortened(label, LONGEST_NAME), f"{run.model} on {run.hardware}")
        for letter, label, run in zip(result.letters, result.labels, result.runs, strict=True)
    ]
    headline = [row for row in result.headline if row.changed]
    energy = [
        (COMPONENT_NAMES.get(row.quantity.key, row.quantity.key), row) for row in result.energy if row.changed
    ]
    losses = [(cells.cause(row.quantity.key), row) for row in result.losses if row.changed]
    changed = [row for row in result.layers if row.cost.changed]
    names = short_names([row.name for row in changed[:MOST_LAYERS]], LONGEST_NAME)
    layers = [(name, row.cost) for name, row in zip(names, changed, strict=False)]
    hardware, provenance = (
        [(row.path, *map(cells.plain, row.values)) for row in rows]
        for rows in (result.hardware, result.provenance)
    )
    return _block(
        "Comparison",
        _table((), legend, left=(0, 1, 2)),
        *(_text(note) for note in result.notes),
        _changes(result, [(row.quantity.label, row) for row in headline]),
        _section("Hardware", _table(("", *result.letters), hardware) if hardware else _text("the same")),
        *([_section("Made", _table(("", *result.letters), provenance))] if provenance else []),
        _section(
            "Where the cycles went" if result.same_clock else "Where the time went", _changes(result, losses)
        ),
        _section("Energy, by component", _changes(result, energy)),
        _section(
            f"Layers, {len(layers)} of {len(result.layers)}, largest change first", _changes(result, layers)
        ),
    )


def what_if(result: WhatIf) -> str:
    """Return the table of what-if changes of hardware parameters."""
    rows = [
        (
            variant.parameter,
            value(variant.before),
            value(variant.after),
            *map(percent, (variant.latency_percent, variant.energy_percent, variant.area_percent)),
            per_mm2(variant),
        )
        for chosen in GROUPS
        for group in felt(result, chosen)
        for variant in group.ran
    ]
    head = ("parameter", "now", "then", "latency", "energy", "area", "% per mm2")
    title = f"{result.model} on {result.hardware.name}: what if"
    return _block(title, _text(advice(result)), _table(head, rows), _text(how(result)))


def study(result: Study) -> str:
    """Return at most `MOST_LAYERS` points of a study's front, and the variance that each parameter explains."""
    from npusim.reports.study import columns as study_columns
    from npusim.reports.study import page as study_page
    from npusim.reports.study.columns import claims
    from npusim.reports.study.effects import basis

    parameters, values = study_columns.parameters(result), study_columns.values(result)
    shown = result.front[:: max(1, -(-len(result.front) // MOST_LAYERS))]
    points = [result.space.point(record.point) for record in shown]
    rows = [
        (
            str(record.point),
            *(study_page.amount(value, record.values[value.key]) for value in values),
            *(study_columns.level(point[parameter.path]) for parameter in parameters),
        )
        for record, point in zip(shown, points, strict=True)
    ]
    head = ("point", *(value.label for value in values), *(parameter.path for parameter in parameters))
    counts = (
        f"{show.plural(len(result.records), 'point')} of {show.whole(result.space.size)}, "
        f"{show.whole(len(result.feasible))} feasible, {show.whole(len(result.front))} on the front"
    )
    some = f", {len(shown)} of {len(result.front)}, evenly spread" if len(shown) < len(result.front) else ""
    return _block(
        study_page.title(result),
        _text(f"{counts}. {claims(result)}"),
        *([_section(f"Front{some}", _table(head, rows, left=()))] if rows else []),
        *(
            [_section("What matters: share of the variance", _shares(result) + _text(basis(result)))]
            if result.sensitivities
            else []
        ),
    )


def _shares(result: Study) -> str:
    from npusim.reports.study.effects import words_of_share
    from npusim.study.sensitivity import ranked

    keys = [objective.key for objective in result.objectives]
    rows = [(effects[0].parameter, *map(words_of_share, effects)) for effects in ranked(result.sensitivities)]
    return _table(("parameter", *keys), rows)


def _changes(result: Comparison, rows: Sequence[tuple[str, Row]]) -> str:
    """Return rows with the numbers of all runs, and the change of each but the baseline."""
    head = [""]
    for run, letter in enumerate(result.letters):
        head += [letter, "change"] if run else [letter]
    return _table(head, [(name, *_cells(row)) for name, row in rows], markup=True)


def _cells(row: Row) -> Iterable[str]:
    for run, number in enumerate(row.values):
        yield escape(cells.value(row.quantity.kind, number))
        if run:
            colour = _COLOURS[cells.judgement(row, run)]
            yield f'<span style="color:{colour}">{escape(cells.change(row, run))}</span>'


def _longest(shown: int, layers: int) -> str:
    return _text(
        f"The {shown} longest of {layers} layers:" if shown < layers else "Layers, the longest first:"
    )


def _text(words: str) -> str:
    return f"<p>{escape(words)}</p>"


def _section(title: str, body: str) -> str:
    return f"<p><b>{escape(title)}</b></p>{body}"


def _block(title: str, *parts: str) -> str:
    return f"<div><p><b>{escape(show.printable(title))}</b></p>{''.join(parts)}</div>"


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,), markup: bool = False
) -> str:
    """Return an HTML table whose cells are escaped.

    markup: the cells after the first of a row are HTML of npusim itself and are not escaped.
    """

    def row(texts: Sequence[str], tag: str) -> str:
        parts = []
        for column, text in enumerate(texts):
            safe = text if markup and column and tag == "td" else escape(show.printable(text))
            parts.append(f"<{tag}{_LEFT if column in left else _RIGHT}>{safe}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>"

    top = f"<thead>{row(head, 'th')}</thead>" if head else ""
    body = "".join(row(texts, "td") for texts in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>"
