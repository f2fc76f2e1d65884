"""The layers of a comparison as CSV: `npusim compare --csv`, a row per layer, columns per run by letter."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from npusim.base.csv_text import csv_text

if TYPE_CHECKING:
    from npusim.comparison.comparison import Comparison
    from npusim.comparison.rows import LayerRow

PER_RUN = ("cycles", "energy_uj", "bytes", "utilization", "lower_bound_cycles", "bound_by")
"""Columns of each run, named with its letter: cycles_a, cycles_b, ..."""


def render(comparison: Comparison) -> str:
    """The CSV text with a line of column names; a layer that a run does not have leaves its columns empty."""
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
