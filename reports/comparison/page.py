"""The comparison as one self-contained HTML page: `npusim compare --html`, styled like the report of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    from npusim.comparison.rows import LayerRow, Row

SCRIPTS = ("page.js", "comparison.js")
LONGEST_NAME = 40


class Cell(NamedTuple):
    """A number of a run as text, with its change against the baseline. Tables sort by `amount` and `percent`."""

    text: str
    amount: float | None
    change: str = ""
    percent: float | None = None
    judgement: str = ""


class Line(NamedTuple):
    """A row of a table of all runs. colour: a variable of the style sheet; meaning: an explanation of the name."""

    name: str
    cells: tuple[Cell, ...]
    colour: str = ""
    meaning: str = ""


class Piece(NamedTuple):
    """A segment of a stacked bar; `share` is its length, of the longest bar."""

    name: str
    colour: str
    share: float
    text: str


class Bar(NamedTuple):
    """The stacked bar of a run, on a scale that all runs share."""

    letter: str
    total: str
    pieces: tuple[Piece, ...]


class LayerLine(NamedTuple):
    """A row of the table of layers: cost and energy in every run, and reasons of change in all but the baseline."""

    name: str
    full_name: str
    op: str
    cost: tuple[Cell, ...]
    energy: tuple[Cell, ...]
    reasons: tuple[str, ...]


def render(comparison: Comparison, verdicts: Sequence[Verdict] = ()) -> str:
    """Return the page as HTML text."""
    names = [show.shortened(label, LONGEST_NAME) for label in comparison.labels]
    losses, energy = list(_losses(comparison)), list(_energy(comparison))
    total = comparison.value("cycles.total" if comparison.same_clock else "latency_ms")
    return page(
        "comparison.html",
        SCRIPTS,
        {},
        version=npusim_version(),
        title=f"Comparison of {', '.join(names)}",
        comparison=comparison,
        runs=list(zip(comparison.letters, names, comparison.runs, strict=True)),
        leads=[_lead(comparison, run) for run in range(1, len(names))],
        claims=cells.claims(comparison),
        headline=[_line(row.quantity.label, row) for row in comparison.headline],
        losses=losses,
        loss_bars=_bars(comparison, losses, total),
        energy=energy,
        energy_bars=_bars(comparison, energy, comparison.value("energy_uj.total")),
        layers=_layers(comparison),
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


def _line(name: str, row: Row, colour: str = "", meaning: str = "") -> Line:
    return Line(name, _cells(row), colour, meaning)


def _cells(row: Row) -> tuple[Cell, ...]:
    kind, first = row.quantity.kind, row.values[0]
    cells_of_runs = [Cell(cells.value(kind, first), first)]
    for run, number in enumerate(row.values[1:], 1):
        change = row.change(run)
        # An infinite percentage is no valid number in the page, by which browsers sort.
        percent = max(-1e9, min(change.percent, 1e9)) if change else None
        cells_of_runs.append(
            Cell(
                cells.value(kind, number), number, cells.change(row, run), percent, cells.judgement(row, run)
            )
        )
    return tuple(cells_of_runs)


def _losses(comparison: Comparison) -> Iterable[Line]:
    for row in comparison.losses:
        key = row.quantity.key
        colour = f"c-{key}" if key in CAUSE_COLOURS else "soft"
        yield _line(
            cells.cause(key),
            row,
            colour,
            CAUSES[key].meaning if key in CAUSES else "what no schedule can beat",
        )


def _energy(comparison: Comparison) -> Iterable[Line]:
    for row in comparison.energy:
        key = row.quantity.key
        colour = f"e-{key}" if key in COMPONENT_COLOURS else "soft"
        yield _line(COMPONENT_NAMES.get(key, key), row, colour)


def _bars(comparison: Comparison, lines: Sequence[Line], total: Row) -> list[Bar]:
    """Return a bar for every run, to the scale of the longest. Gains, which are negative, have no length."""
    longest = max(
        sum(max(line.cells[run].amount or 0, 0) for line in lines) for run in range(len(total.values))
    )
    bars = []
    for run, letter in enumerate(comparison.letters):
        pieces = tuple(
            Piece(
                line.name, line.colour, (line.cells[run].amount or 0) / (longest or 1), line.cells[run].text
            )
            for line in lines
            if (line.cells[run].amount or 0) > 0
        )
        bars.append(Bar(letter, cells.value(total.quantity.kind, total.values[run]), pieces))
    return bars


def _layers(comparison: Comparison) -> list[LayerLine]:
    names = short_names([row.name for row in comparison.layers], LONGEST_NAME)
    return [_layer(name, row, comparison) for name, row in zip(names, comparison.layers, strict=True)]


def _layer(name: str, row: LayerRow, comparison: Comparison) -> LayerLine:
    return LayerLine(
        name=name,
        full_name=row.name,
        op=row.op,
        cost=_cells(row.cost),
        energy=_cells(row.number("energy_uj", "energy", "energy_uj")),
        reasons=tuple(cells.reason(row, run, comparison.letters) for run in range(1, len(comparison.runs))),
    )
