"""The comparison as one self-contained HTML page: `npusim compare --html`, styled like the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.isa.base.version import npusim_version
from npusim.numbers.causes import CAUSES
from npusim.reports.comparison import cells
from npusim.reports.comparison.terminal import sentence
from npusim.reports.page.page import page
from npusim.reports.words import quantities as show
from npusim.reports.words.names import CAUSE_COLOURS, COMPONENT_COLOURS, COMPONENT_NAMES, short_names

if TYPE_CHECKING:
    from npusim.comparison.comparison import Comparison
    from npusim.comparison.conditions import Verdict
    from npusim.comparison.rows import Change, Row

SCRIPTS = ("page.js", "comparison.js")
LONGEST_NAME = 40


class Line(NamedTuple):
    """A row of a table of all runs. colour: a variable of the style sheet; meaning: an explanation of the name."""

    name: str
    row: Row
    colour: str = ""
    meaning: str = ""


def render(comparison: Comparison, verdicts: Sequence[Verdict] = ()) -> str:
    """Return the page as HTML text."""
    names = [show.shortened(label, LONGEST_NAME) for label in comparison.labels]
    layers = short_names([row.name for row in comparison.layers], LONGEST_NAME)
    total = comparison.value("cycles.total" if comparison.same_clock else "latency_ms")
    losses = [_loss(row) for row in comparison.losses]
    energy = [_component(row) for row in comparison.energy]
    return page(
        "comparison.html",
        SCRIPTS,
        {},
        version=npusim_version(),
        title=f"Comparison of {', '.join(names)}",
        comparison=comparison,
        cells=cells,
        sortable=_sortable,
        runs=list(zip(comparison.letters, names, comparison.runs, strict=True)),
        leads=[_lead(comparison, run) for run in range(1, len(names))],
        claims=cells.claims(comparison),
        headline=[Line(row.quantity.label, row) for row in comparison.headline],
        losses=losses,
        energy=energy,
        bars_of={
            "losses": (total, _longest(losses)),
            "energy": (comparison.value("energy_uj.total"), _longest(energy)),
        },
        layers=list(zip(layers, comparison.layers, strict=True)),
        hardware=[(row.path, [cells.plain(value) for value in row.values]) for row in comparison.hardware],
        made=[(row.path, [cells.plain(value) for value in row.values]) for row in comparison.provenance],
        verdicts=[(verdict, sentence(verdict)) for verdict in verdicts],
    )


def _lead(comparison: Comparison, run: int) -> str:
    """Return a sentence with latency and energy of a run against the baseline."""
    latency, energy = comparison.value("latency_ms"), comparison.value("energy_uj.total")
    parts = [
        f"{cells.value(row.quantity.kind, row.values[run])}, {_than(row, run)}" for row in (latency, energy)
    ]
    return f"takes {parts[0]}, and {parts[1]}."


def _than(row: Row, run: int) -> str:
    change = row.change(run)
    if change is None or not change.delta:
        return "as much as A"
    more = "more" if change.delta > 0 else "less"
    return f"{cells.percent(change).lstrip('+-')} {more} than A"


def _sortable(change: Change | None) -> float:
    """Return the percentage by which a browser sorts; an infinite one would be no valid number in the page."""
    return max(-1e9, min(change.percent, 1e9)) if change else 0


def _loss(row: Row) -> Line:
    key = row.quantity.key
    colour = f"c-{key}" if key in CAUSE_COLOURS else "soft"
    meaning = CAUSES[key].meaning if key in CAUSES else "what no schedule can beat"
    return Line(cells.cause(key), row, colour, meaning)


def _component(row: Row) -> Line:
    key = row.quantity.key
    return Line(COMPONENT_NAMES.get(key, key), row, f"e-{key}" if key in COMPONENT_COLOURS else "soft")


def _longest(lines: Sequence[Line]) -> float:
    """Return the length of the longest stacked bar of the runs. Gains, which are negative, have no length."""
    runs = zip(*(line.row.values for line in lines), strict=True)
    return max((sum(max(number or 0, 0) for number in numbers) for numbers in runs), default=0) or 1
