"""Reports: a run result to text, one pure function `render` per file.

To add one, write `reports/<name>.py` and a line here. They are imported when they are used: a run without a
trace does not pay for the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.numbers.run import RunResult


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a run: the option that asks for it, its module, and what it is for."""

    option: str
    module: str
    purpose: str

    @property
    def render(self) -> Callable[[RunResult], str]:
        """The function that makes the text."""
        found: Callable[[RunResult], str] = import_module(self.module).render
        return found


REPORTS: tuple[Report, ...] = (
    Report("--json", "npusim.reports.run.result_json", "every number, for programs"),
    Report("--csv", "npusim.reports.run.layers_csv", "the layers, for a spreadsheet"),
    Report("--trace", "npusim.reports.run.chrome_trace", "the timeline, for ui.perfetto.dev"),
)
"""Reports that are files; the summary in the terminal is `npusim.reports.run.terminal`."""


def report(option: str) -> Report:
    """The report of an option; KeyError if there is none."""
    return {entry.option: entry for entry in REPORTS}[option]
