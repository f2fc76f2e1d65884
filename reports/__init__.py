"""Reports: from the result of a run to text, one pure function `render` per module.

To add a report, write `reports/run/<name>.py` and a line here: the option of `npusim run` derives from the line. A
module is imported when its report is asked for, because a run without a trace should not pay for the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from npusim.isa.base.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import RunTable
    from npusim.reports.run.series import Charts


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a run.

    name:      the name of its command-line option.
    module:    the module with `render`, and with `render_runs` if the report has a form for tables of runs.
    purpose:   what the report shows, for help texts.
    file:      its file in the folder of `--report`; empty if it has none there.
    has_table: whether the report has a form for tables of runs.
    of_series: whether it also takes the series of a result that charts share.
    """

    name: str
    module: str
    purpose: str
    file: str = ""
    has_table: bool = False
    of_series: bool = False

    @property
    def option(self) -> str:
        """The command-line option that asks for the report."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def render(self) -> Callable[[RunResult], str]:
        """The function that renders a result as text."""
        render: Callable[[RunResult], str] = import_module(self.module).render
        return render

    @property
    def render_charts(self) -> Callable[[Charts], str]:
        """The function that renders the series of a result, or, if it shows none, the result."""
        render: Callable[[Any], str] = import_module(self.module).render
        return render if self.of_series else lambda charts: render(charts.result)

    @property
    def render_runs(self) -> Callable[[RunTable], str]:
        """The function that renders a table of runs as text, for a report with `has_table`."""
        render: Callable[[RunTable], str] = import_module(self.module).render_runs
        return render


REPORTS: tuple[Report, ...] = (
    Report("json", "npusim.reports.run.result_json", "every number, for programs", "result.json", True),
    Report("csv", "npusim.reports.run.tables", "the layers, for a spreadsheet", has_table=True),
    Report(
        "trace",
        "npusim.reports.run.chrome_trace",
        "the timeline, for ui.perfetto.dev",
        "trace.json",
        of_series=True,
    ),
)
"""Reports that are files; the summary in the terminal is `npusim.reports.run.terminal`."""


def report(option: str) -> Report:
    """Return the report of an option. Raises KeyError for an unknown option."""
    return {entry.option: entry for entry in REPORTS}[option]
