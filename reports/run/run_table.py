"""Tables of runs of several models on several machines, as text, CSV and page: `npusim run MODEL... --hw A --hw B`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.base.csv_text import csv_text
from npusim.isa.hardware.agreement import agreements
from npusim.numbers.variants import is_host_alone
from npusim.reports.page.page import page
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import of_json
from npusim.reports.words.quantities import columns

if TYPE_CHECKING:
    from npusim.numbers.variants import Run, RunTable

Values = Mapping[str, Any]


class Quantity(NamedTuple):
    """A number of a run: title, accessor (None if the machine lacks it), formatter, and whether more is better."""

    title: str
    get: Callable[[Values], float | None]
    shown: Callable[[float], str]
    more: bool = False


def _of_array(get: Callable[[Values], float]) -> Callable[[Values], float | None]:
    """Make the accessor of a number that describes the NPU; it returns None for a CPU alone."""
    return lambda run: None if is_host_alone(run) else get(run)


QUANTITIES = (
    Quantity("latency", lambda run: run["latency_ms"], show.time),
    Quantity("energy", lambda run: run["energy_uj"]["total"], show.energy),
    Quantity("power", lambda run: run["power_mw"]["average"], show.power),
    Quantity("MAC use", _of_array(lambda run: run["mac_utilization"]), show.percent, more=True),
    Quantity("area", _of_array(lambda run: run["area_mm2"]["total"]), show.area),
)
"""The numbers of the table. With several models and several machines, the first two have a table each."""

_KEYS: tuple[tuple[str, Callable[[Values], Any]], ...] = (
    ("cycles", lambda run: run["cycles"]["total"]),
    ("latency_ms", lambda run: run["latency_ms"]),
    ("inferences_per_s", lambda run: run["inferences_per_s"]),
    ("energy_uj", lambda run: run["energy_uj"]["total"]),
    ("power_average_mw", lambda run: run["power_mw"]["average"]),
    ("macs", lambda run: run["macs"]),
    ("mac_utilization", _of_array(lambda run: run["mac_utilization"])),
    ("lower_bound_cycles", lambda run: run["lower_bound_cycles"]),
    ("bound_by", lambda run: run["bound_by"]),
    ("dram_read_bytes", lambda run: run["dram_bytes"]["read"]),
    ("dram_write_bytes", lambda run: run["dram_bytes"]["write"]),
    ("scratchpad_peak_bytes", lambda run: run["scratchpad_peak_bytes"]),
    ("area_mm2", _of_array(lambda run: run["area_mm2"]["total"])),
    ("exec_time", lambda run: run["performance_info"]["execTime"]),
    ("power_usage", lambda run: run["performance_info"]["powerUsage"]),
    ("latency_error", lambda run: run["latency_error"]),
    ("energy_error", lambda run: run["energy_error"]),
)


def to_csv(table: RunTable) -> str:
    """Return CSV with a row per run; a failed run has its `fault` only."""
    head = ["model", "hardware", *(name for name, _ in _KEYS), "fault"]
    rows = [
        [
            run.model,
            run.hardware,
            *(None if run.values is None else get(run.values) for _, get in _KEYS),
            run.fault,
        ]
        for run in table.runs
    ]
    return csv_text(head, rows)


def text(table: RunTable, width: int) -> str:
    """Return tables of latency and energy, models by machines; a line per run if `width` is too small for them."""
    parts = []
    if len(table.models) > 1 and len(table.machines) > 1:
        parts = [_by_machine(table, quantity) for quantity in QUANTITIES[:2]]
    if not parts or max(len(line) for part in parts for line in part.splitlines()) > width:
        parts = [_listed(table)]
    faults = "\n".join(
        f"{model} on {', '.join(machines)}: {fault.removeprefix(f'{model}: ')}"
        for (model, fault), machines in faults_of(table).items()
    )
    errors = "\n".join(f"{who}: {words}" for who, words in claims(table))
    return "\n\n".join([*parts, *filter(None, (errors, faults))])


def faults_of(table: RunTable) -> dict[tuple[str, str], list[str]]:
    """Group the machines without a result by model and reason."""
    machines: dict[tuple[str, str], list[str]] = {}
    for run in table.faults:
        machines.setdefault((run.model, run.fault), []).append(run.hardware)
    return machines


def claims(table: RunTable) -> list[tuple[str, str]]:
    """Return the statements about the error of latency and energy, each with what it holds for.

    It holds for machines, or for single runs if the runs of a machine differ.
    """
    by_machine: dict[str, dict[str, list[str]]] = {}
    for run in table.runs:
        if run.values is not None:
            by_machine.setdefault(run.hardware, {}).setdefault(of_json(run.values), []).append(run.model)
    return [
        (machine if len(by_words) == 1 else f"{', '.join(models)} on {machine}", words)
        for machine, by_words in by_machine.items()
        for words, models in by_words.items()
    ]


def _by_machine(table: RunTable, quantity: Quantity) -> str:
    rows = [[name, *(_cell(run, quantity) for run in table.of(name))] for name in table.models]
    return columns((quantity.title, *table.machines), rows, right=tuple(range(1, len(table.machines) + 1)))


def _listed(table: RunTable) -> str:
    head = ("model", "hardware", *(quantity.title for quantity in QUANTITIES))
    rows = [(run.model, run.hardware, *(_cell(run, measure) for measure in QUANTITIES)) for run in table.runs]
    return columns(head, rows, right=tuple(range(2, len(head))))


def _cell(run: Run, quantity: Quantity) -> str:
    number = None if run.values is None else quantity.get(run.values)
    return "-" if number is None else quantity.shown(number)


CHIPS, IDEALISED = "Chips", "Idealised arrays"

DEEPEST = 45
"""Percent of the accent colour behind the best cell; with more, text would lose its contrast."""


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


class Section(NamedTuple):
    """The matrices of one quantity, and the bars of all runs on one axis; ticks are places from 0 to 1 with labels."""

    title: str
    matrices: tuple[Matrix, ...]
    ticks: tuple[tuple[float, str], ...]
    bars: tuple[Bar, ...]


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
        sections=[
            _section(table, quantity, groups, by_run) for quantity in QUANTITIES if quantity.title != "area"
        ],
        claims=claims(table),
        areas=_areas(table, groups),
    )


def machine_groups(table: RunTable) -> dict[str, tuple[str, ...]]:
    """Group the machines: those with reference values of a chip, and idealised arrays. Empty groups are left out."""
    groups: dict[str, list[str]] = {CHIPS: [], IDEALISED: []}
    for machine in table.machines:
        values = _values(table, machine)
        preset = values["agreement"]["preset"] if values else machine
        groups[CHIPS if agreements(preset) else IDEALISED].append(machine)
    return {title: tuple(machines) for title, machines in groups.items() if machines}


def _values(table: RunTable, machine: str) -> Values | None:
    """Return the values of the first run of a machine that has some."""
    return next((run.values for run in table.runs if run.hardware == machine and run.values), None)


def _section(
    table: RunTable,
    quantity: Quantity,
    groups: Mapping[str, Sequence[str]],
    pages: Mapping[tuple[str, str], str],
) -> Section:
    """Return one quantity: shares on a linear axis, other numbers on a logarithmic one with whole decades."""
    known = [number for number in _numbers(table.runs, quantity) if number]
    low, high = (floor(log10(min(known))), ceil(log10(max(known)))) if known else (0, 1)
    high = max(high, low + 1)

    def place(number: float) -> float:
        if quantity.more:
            return number
        return max(0.0, (log10(number) - low) / (high - low)) if number else 0.0

    marks = [10.0**ten for ten in range(low, high + 1, -(-(high - low) // 6))]
    ticks = [
        (place(mark), quantity.shown(mark))
        for mark in ([0, 0.25, 0.5, 0.75, 1.0] if quantity.more else marks)
    ]
    rows: dict[str, list[tuple[str, tuple[Cell, ...]]]] = {title: [] for title in groups}
    bars: list[Bar] = []
    for model in table.models:
        first = len(bars)
        for title, machines in groups.items():
            runs = [run for run in table.of(model) if run.hardware in machines]
            cells = _cells(runs, quantity, pages)
            rows[title].append((model, cells))
            for run, cell, number in zip(runs, cells, _numbers(runs, quantity), strict=True):
                part = 0.0 if number is None else place(number)
                bars.append(Bar("" if len(bars) > first else model, run.hardware, cell.text, part, cell.best))
    matrices = [
        Matrix(title if len(groups) > 1 else "", tuple(machines), tuple(rows[title]))
        for title, machines in groups.items()
    ]
    return Section(quantity.title, tuple(matrices), tuple(ticks), tuple(bars))


def _numbers(runs: Iterable[Run], quantity: Quantity) -> list[float | None]:
    return [None if run.values is None else quantity.get(run.values) for run in runs]


def _cells(runs: Sequence[Run], quantity: Quantity, pages: Mapping[tuple[str, str], str]) -> tuple[Cell, ...]:
    """Return the cells of a model's runs; colour depth falls with the logarithm of the ratio to the best."""
    numbers = _numbers(runs, quantity)
    known = [number for number in numbers if number is not None]
    best = (max if quantity.more else min)(known, default=None)
    # How many times worse than the best; unknown if either is 0.
    times = [
        (best / number if quantity.more else number / best) if number and best else None for number in numbers
    ]
    worst = max((ratio for ratio in times if ratio), default=1.0)
    cells, alone = [], len(runs) == 1
    for run, number, far in zip(runs, numbers, times, strict=True):
        link = pages.get((run.model, run.hardware), "")
        if number is None:
            cells.append(Cell("-", page=link))
            continue
        near = 0.0 if far is None else 1.0 if worst == 1 else 1 - log10(far) / log10(worst)
        ratio, depth = "" if far is None or alone else f"{far:.3g}x", 0 if alone else round(DEEPEST * near)
        cells.append(Cell(quantity.shown(number), ratio, number == best and not alone, depth, link))
    return tuple(cells)


def _areas(table: RunTable, groups: Mapping[str, Sequence[str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the area of each machine by group; a CPU alone has no NPU area."""
    area = next(quantity for quantity in QUANTITIES if quantity.title == "area")
    areas = []
    for title, machines in groups.items():
        rows = []
        for machine in machines:
            values = _values(table, machine)
            number = None if values is None else area.get(values)
            rows.append((machine, "-" if number is None else area.shown(number)))
        areas.append((title if len(groups) > 1 else "", rows))
    return areas


def _few(names: Sequence[str], noun: str) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} {noun}s"
