"""The layers as CSV: `npusim run --csv`, a row per layer, the columns of `LayerResult.to_row`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.reports.run import run_table, tables

if TYPE_CHECKING:
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import RunTable


def render(result: RunResult) -> str:
    """Return the CSV text with a line of column names; fields that a layer lacks are empty."""
    return tables.to_csv(tables.layers(result))


def render_runs(table: RunTable) -> str:
    """Return the CSV text of a table of runs, a row per run."""
    return run_table.to_csv(table)
