"""Reports: a run result to text, one pure function `render` per file.

To add one, write `reports/run/<name>.py` and a line here: the option of `npusim run` derives from the line. A module
that also has `render_runs` reports tables of runs (`npusim.numbers.variants.RunTable`). They are imported when they are
used: a run without a trace does not pay for the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import RunTable


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a run: its name, its module, what it is for, and its file in the folder of `--report`, if any."""

    name: str
    module: str
    purpose: str
    file: str = ""

    @property
    def option(self) -> str:
        """The option that asks for it."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def render(self) -> Callable[[RunResult], str]:
        """The function that makes the text."""
        render: Callable[[RunResult], str] = import_module(self.module).render
        return render

    @property
    def render_runs(self) -> Callable[[RunTable], str] | None:
        """The function that makes the text of a table of runs; None where there is none."""
        render: Callable[[RunTable], str] | None = getattr(import_module(self.module), "render_runs", None)
        return render


REPORTS: tuple[Report, ...] = (
    Report("json", "npusim.reports.run.result_json", "every number, for programs", "result.json"),
    Report("csv", "npusim.reports.run.layers_csv", "the layers, for a spreadsheet"),
    Report("trace", "npusim.reports.run.chrome_trace", "the timeline, for ui.perfetto.dev", "trace.json"),
)
"""Reports that are files; the summary in the terminal is `npusim.reports.run.terminal`."""


def report(option: str) -> Report:
    """The report of an option; KeyError if there is none."""
    return {entry.option: entry for entry in REPORTS}[option]
