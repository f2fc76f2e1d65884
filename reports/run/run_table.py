"""Runs of several models on several machines as text and CSV: `npusim run MODEL... --hw A --hw B`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.base.csv_text import csv_text
from npusim.numbers.runs import is_host_alone
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import of_json
from npusim.reports.words.text_table import columns

if TYPE_CHECKING:
    from npusim.numbers.runs import Run, RunTable

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
"""What the table tells; the first two have a table each where there are several of both."""

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
    """A row per run; one that there is not has its `fault` and nothing else."""
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
    """Models by machines, a table for latency and one for energy; a line per run where that is too wide."""
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
    found: dict[tuple[str, str], list[str]] = {}
    for run in table.faults:
        found.setdefault((run.model, run.fault), []).append(run.hardware)
    return found


def claims(table: RunTable) -> list[tuple[str, str]]:
    """What is known of the error of latency and energy: machines, or runs where not all of a machine are alike, and
    the words.
    """
    by_machine: dict[str, dict[str, list[str]]] = {}
    for run in table.runs:
        if run.values is not None:
            by_machine.setdefault(run.hardware, {}).setdefault(of_json(run.values), []).append(run.model)
    return [
        (machine if len(found) == 1 else f"{', '.join(models)} on {machine}", words)
        for machine, found in by_machine.items()
        for words, models in found.items()
    ]


def _by_machine(table: RunTable, quantity: Quantity) -> str:
    rows = [[name, *(_cell(run, quantity) for run in table.of(name))] for name in table.models]
    return columns((quantity.title, *table.machines), rows, right=tuple(range(1, len(table.machines) + 1)))


def _listed(table: RunTable) -> str:
    head = ("model", "hardware", *(quantity.title for quantity in QUANTITIES))
    rows = [(run.model, run.hardware, *(_cell(run, each) for each in QUANTITIES)) for run in table.runs]
    return columns(head, rows, right=tuple(range(2, len(head))))


def _cell(run: Run, quantity: Quantity) -> str:
    number = None if run.values is None else quantity.get(run.values)
    return "-" if number is None else quantity.shown(number)
