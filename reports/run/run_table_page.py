"""Runs of several models on several machines as one page: `table.html` of `npusim run --report`.

Idealised arrays have tables of their own: they lack the overheads of real chips, so a comparison would mislead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

from npusim.isa.hardware.agreement import agreements_of
from npusim.reports.page.page import page
from npusim.reports.run.run_table import QUANTITIES, Quantity, claims

if TYPE_CHECKING:
    from npusim.numbers.runs import Run, RunTable

CHIPS, IDEALISED = "Chips", "Idealised arrays"

DEEPEST = 45
"""Percent of the accent colour behind the best cell: few enough that text keeps its contrast."""


class Cell(NamedTuple):
    """A cell of the matrix: the run's number, its ratio to the best of the row, and its colour depth in percent."""

    text: str
    times: str = ""
    best: bool = False
    depth: int = 0
    page: str = ""


class Matrix(NamedTuple):
    """Models by machines of one group, for one quantity."""

    title: str
    machines: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


class Bar(NamedTuple):
    """A bar of the chart: model (empty if the same as above), machine, number, and length of the bar, 0 to 1."""

    model: str
    machine: str
    text: str
    part: float
    best: bool


class Chart(NamedTuple):
    """Bars of all runs on one axis; ticks are positions from 0 to 1 with labels."""

    ticks: tuple[tuple[float, str], ...]
    bars: tuple[Bar, ...]


class Section(NamedTuple):
    """The matrices and the chart of one quantity."""

    title: str
    matrices: tuple[Matrix, ...]
    chart: Chart


def render(table: RunTable, pages: Mapping[int, str] | None = None) -> str:
    """Render the page. `pages` are the links to the pages of runs, relative to this one, by index in the table."""
    groups = machine_groups(table)
    by_run = {
        (table.runs[place].model, table.runs[place].hardware): name for place, name in (pages or {}).items()
    }
    return page(
        "run_table.html",
        ("page.js",),
        {},
        title=f"{_few(table.models, 'model')} on {_few(table.machines, 'machine')}",
        table=table,
        sections=[_section(table, each, groups, by_run) for each in QUANTITIES if each.title != "area"],
        claims=claims(table),
        areas=_areas(table, groups),
    )


def machine_groups(table: RunTable) -> dict[str, tuple[str, ...]]:
    """Group the machines: those with reference values of a chip, and idealised arrays. Empty groups are left out."""
    found: dict[str, list[str]] = {CHIPS: [], IDEALISED: []}
    for machine in table.machines:
        values = next((run.values for run in table.runs if run.hardware == machine and run.values), None)
        preset = values["agreement"]["preset"] if values else machine
        found[CHIPS if agreements_of(preset) else IDEALISED].append(machine)
    return {title: tuple(machines) for title, machines in found.items() if machines}


def _section(
    table: RunTable,
    quantity: Quantity,
    groups: Mapping[str, Sequence[str]],
    pages: Mapping[tuple[str, str], str],
) -> Section:
    matrices = [
        Matrix(
            title if len(groups) > 1 else "",
            tuple(machines),
            tuple((model, _cells(_runs(table, model, machines), quantity, pages)) for model in table.models),
        )
        for title, machines in groups.items()
    ]
    return Section(quantity.title, tuple(matrices), _chart(table, quantity, groups))


def _runs(table: RunTable, model: str, machines: Sequence[str]) -> list[Run]:
    return [run for run in table.of(model) if run.hardware in machines]


def _numbers(runs: Iterable[Run], quantity: Quantity) -> list[float | None]:
    return [None if run.values is None else quantity.get(run.values) for run in runs]


def _times(number: float | None, best: float | None, more: bool) -> float | None:
    """Return how many times worse than the best a number is; None if either is 0 or missing."""
    if not number or not best:
        return None
    return best / number if more else number / best


def _cells(runs: Sequence[Run], quantity: Quantity, pages: Mapping[tuple[str, str], str]) -> tuple[Cell, ...]:
    """Return the cells of a model's runs; colour depth falls with the logarithm of the ratio to the best."""
    numbers = _numbers(runs, quantity)
    best = _best(numbers, quantity)
    times = [_times(number, best, quantity.more) for number in numbers]
    worst = max((each for each in times if each), default=1.0)
    cells = []
    for run, number, far in zip(runs, numbers, times, strict=True):
        link = pages.get((run.model, run.hardware), "")
        if number is None:
            cells.append(Cell("-", page=link))
            continue
        near = 0.0 if far is None else 1.0 if worst == 1 else 1 - log10(far) / log10(worst)
        alone = len(runs) == 1
        cells.append(
            Cell(
                quantity.shown(number),
                "" if far is None or alone else f"{far:.3g}x",
                number == best and not alone,
                0 if alone else round(DEEPEST * near),
                link,
            )
        )
    return tuple(cells)


def _best(numbers: Sequence[float | None], quantity: Quantity) -> float | None:
    known = [number for number in numbers if number is not None]
    return (max if quantity.more else min)(known, default=None)


def _chart(table: RunTable, quantity: Quantity, groups: Mapping[str, Sequence[str]]) -> Chart:
    """Return a bar for every run: shares on a linear axis, other numbers on a logarithmic one with whole decades."""
    known = [number for number in _numbers(table.runs, quantity) if number]
    low, high = (floor(log10(min(known))), ceil(log10(max(known)))) if known else (0, 1)
    high = max(high, low + 1)

    def place(number: float) -> float:
        if quantity.more:
            return number
        return max(0.0, (log10(number) - low) / (high - low)) if number else 0.0

    if quantity.more:
        ticks = tuple((share / 4, quantity.shown(share / 4)) for share in range(5))
    else:
        step = -(-(high - low) // 6)
        ticks = tuple((place(10.0**ten), quantity.shown(10.0**ten)) for ten in range(low, high + 1, step))
    bars = []
    for model in table.models:
        first = True
        for machines in groups.values():
            runs = _runs(table, model, machines)
            numbers = _numbers(runs, quantity)
            best = _best(numbers, quantity) if len(runs) > 1 else None
            for run, number in zip(runs, numbers, strict=True):
                text, part = ("-", 0.0) if number is None else (quantity.shown(number), place(number))
                marked = number is not None and number == best
                bars.append(Bar(model if first else "", run.hardware, text, part, marked))
                first = False
    return Chart(ticks, tuple(bars))


def _areas(table: RunTable, groups: Mapping[str, Sequence[str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the area of each machine by group; a CPU alone has no NPU area."""
    area = next(each for each in QUANTITIES if each.title == "area")
    found = []
    for title, machines in groups.items():
        rows = []
        for machine in machines:
            values = next((run.values for run in table.runs if run.hardware == machine and run.values), None)
            number = None if values is None else area.get(values)
            rows.append((machine, "-" if number is None else area.shown(number)))
        found.append((title if len(groups) > 1 else "", rows))
    return found


def _few(names: Sequence[str], what: str) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} {what}s"
