"""The texts of a comparison's numbers and changes, for terminal and page alike, and its CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isinf
from typing import TYPE_CHECKING, Any, Literal

from npusim.base.csv_text import csv_text
from npusim.numbers.causes import GAINS
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import of_json
from npusim.reports.words.names import CAUSE_NAMES

if TYPE_CHECKING:
    from npusim.comparison.comparison import Comparison
    from npusim.comparison.rows import Change, LayerRow, Row

LEAST_PERCENT = 0.05
"""Changes below this many percent are shown as none, because they would round to 0.0 %."""

NOTHING = "-"

_VALUES: Mapping[str, Callable[[float], str]] = {
    "time_ms": show.time,
    "time_us": lambda value: f"{show.digits(value)} us",
    "energy_uj": show.energy,
    "power_mw": show.power,
    "per_s": show.digits,
    "cycles": lambda value: show.whole(int(value)),
    "count": lambda value: show.whole(int(value)) if value == int(value) else show.digits(value),
    "share": show.percent,
    "ratio": show.ratio,
    "bytes": show.size,
    "area_mm2": show.area,
    "tops": show.digits,
}

Judgement = Literal["better", "worse", "same", "other"]


def value(kind: str, number: float | None) -> str:
    """Return a number with its unit; a dash if the run lacks the number."""
    return NOTHING if number is None else _VALUES[kind](number)


def delta(kind: str, number: float | None) -> str:
    """Return a difference with its sign and unit."""
    if number is None:
        return NOTHING
    return f"{'+' if number > 0 else ''}{_VALUES[kind](number)}" if number else "0"


def claims(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the statements about the error of latency and energy, each with the letters of the runs it holds for.

    Runs of files without such a statement are left out.
    """
    letters_of: dict[str, list[str]] = {}
    for letter, run in zip(comparison.letters, comparison.runs, strict=True):
        if words := of_json(run.values):
            letters_of.setdefault(words, []).append(letter)
    return [(", ".join(letters), words) for words, letters in letters_of.items()]


def percent(change: Change | None) -> str:
    """Return a change in percent with its sign; "=" for no change, and a factor from +1000 % on."""
    if change is None:
        return NOTHING
    if not change.delta:
        return "="
    if isinf(change.percent):
        return "from 0"
    size = abs(change.percent)
    if size >= 1000:
        return (
            f"x {show.digits(1 + change.percent / 100)}" if change.percent > 0 else f"{change.percent:+.0f} %"
        )
    return show.change(change.percent)


def change(row: Row, run: int) -> str:
    """Return the change of a number from the baseline to a run: percentage points for a share, else percent."""
    difference = row.change(run)
    if difference is None or row.quantity.kind != "share" or not difference.delta:
        return percent(difference)
    return f"{100 * difference.delta:+.1f} points"


def judgement(row: Row, run: int) -> Judgement:
    """Return whether a change is an improvement."""
    difference, better = row.change(run), row.quantity.better
    if difference is None or better == "neither":
        return "other"
    if not difference.delta or abs(difference.percent) < LEAST_PERCENT:
        return "same"
    return "better" if (difference.delta < 0) == (better == "less") else "worse"


def cause(key: str) -> str:
    """Return the display name of a row of the cycle breakdown."""
    return "lower bound" if key == "lower_bound" else CAUSE_NAMES.get(key, key)


def due_to(row: Row, run: int) -> str:
    """Return what a change is due to: a cause of lost cycles, or a gain that grew or shrank."""
    change, name = row.change(run), cause(row.quantity.key)
    if change is None or row.quantity.key not in {cause.name for cause in GAINS}:
        return name
    return f"{'less' if change.delta > 0 else 'more'} {name}"


def reason(layer: LayerRow, run: int, letters: str) -> str:
    """Return why a layer changed: its main cause, or the runs that have the layer."""
    cause = layer.main_cause(run)
    if cause is not None:
        return due_to(cause, run)
    return "" if layer.everywhere else f"only in {', '.join(layer.present(letters))}"


def plain(item: object) -> str:
    """Return a hardware parameter as in a hardware file; "unset" for None."""
    if item is None:
        return "unset"
    if isinstance(item, bool):
        return str(item).lower()
    return f"{item:g}" if isinstance(item, float) else str(item)


PER_RUN = ("cycles", "energy_uj", "bytes", "utilization", "lower_bound_cycles", "bound_by")
"""Columns of each run, named with its letter: cycles_a, cycles_b, ..."""


def render(comparison: Comparison) -> str:
    """Return the layers as CSV with a line of column names. A run without a layer has empty columns there."""
    rows = [_row(layer, comparison.letters.lower()) for layer in comparison.layers]
    names = _columns(comparison)
    return csv_text(names, ([row.get(name) for name in names] for row in rows))


def _columns(comparison: Comparison) -> list[str]:
    letters = comparison.letters.lower()
    names = ["name", "op"]
    names += [f"{key}_{letter}" for letter in letters for key in PER_RUN]
    changes = ("change", "change_percent", "change_energy_uj", "due_to")
    return names + [f"{key}_{letter}" for letter in letters[1:] for key in changes]


def _row(layer: LayerRow, letters: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": layer.name, "op": layer.op}
    for letter, numbers in zip(letters, layer.layers, strict=True):
        if numbers is not None:
            row |= {f"{key}_{letter}": getattr(numbers, key) for key in PER_RUN}
    energy = layer.number("energy_uj", "energy", "energy_uj")
    for run, letter in enumerate(letters[1:], 1):
        change, spent, cause = layer.cost.change(run), energy.change(run), layer.main_cause(run)
        if change is not None:
            percent = change.percent if isfinite(change.percent) else None
            row |= {f"change_{letter}": change.delta, f"change_percent_{letter}": percent}
        if spent is not None:
            row[f"change_energy_uj_{letter}"] = spent.delta
        if cause is not None:
            row[f"due_to_{letter}"] = cause.quantity.key
    return row
