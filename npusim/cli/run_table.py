"""`npusim run` with several models or machines: a table of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from npusim.base.console import console, say
from npusim.cli.base import EXIT_USER_FAULT, Progress
from npusim.cli.options import TABLE, Request, hardware_inputs
from npusim.isa.base.errors import NpusimError
from npusim.session.options import SHAPE_OPTION

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import RunTable

PAGE = "table.html"
IN_FOLDER = {"page": PAGE, "--json": "runs.json", "--csv": "runs.csv"}
"""Files in the --report folder beside the pages of the runs: the table, and what the named options would write."""


MOST_PAGES = 200
"""Maximum number of runs that get a page each: a page takes 0.3 MB, and nobody reads more of them."""


class _Page(NamedTuple):
    """The report page of one run: its file name in the folder, and its text."""

    name: str
    text: str


def run(models: Sequence[str], machines: Sequence[str], request: Request) -> None:
    """Run every model on every machine, print the table, and write its files.

    No data is executed, because the table shows no values; cycles and energy do not depend on data.
    """
    from npusim.base import files
    from npusim.frontends.frontend import model_file
    from npusim.session import api, run_table

    request.require(
        TABLE,
        f"{{option}}: goes with one model on one machine; this is a table of {_count(models, machines)}",
    )
    options = replace(request.options, host=(), partition=None)
    if options.sizes and len(models) > 1:
        raise NpusimError(f"{SHAPE_OPTION}: goes with one model; these are {len(models)}")
    sources: dict[str, Path | None] = {f"MODEL {model}": model_file(model) for model in models}
    for name in machines:
        sources |= hardware_inputs(name, f"--hw {name}")
    models = run_table.model_files(models)
    number = len(models) * len(machines)
    names = [f"run-{place}.html" for place in range(1, number + 1)] if number <= MOST_PAGES else []
    written = [*IN_FOLDER.values(), *names]
    files.check_outputs(request.reports, sources, {"--report": (request.report, written)})
    options.require_sound()
    hardware = [api.hardware(name, request.settings) for name in machines]
    with Progress("running") as progress:
        step = 0

        def watch(_: str) -> None:
            nonlocal step
            if progress:
                progress(step, len(models) * len(machines))
            step += 1

        pages: dict[int, _Page] = {}

        def show(place: int, result: RunResult) -> None:
            from npusim.reports.run import html

            pages[place] = _Page(names[place], html.render(result))

        table = run_table.run_table(
            models,
            hardware,
            options=options,
            watch=watch,
            show=show if request.report and names else None,
        )
    try:
        _print(table)
    finally:  # write the files even if the reader of the table closes the pipe
        if request.report:
            files.make_folder(request.report)
            links = {place: page.name for place, page in pages.items()}
            inside = {request.report / name: _writer(kind, table, links) for kind, name in IN_FOLDER.items()}
            inside |= {request.report / page.name: files.text(page.text) for page in pages.values()}
            files.write_all(inside, follow=False)
        files.write_all({path: _writer(kind, table) for kind, path in request.reports.items()})
    if table.faults:
        say(f"npusim: {len(table.faults)} of {len(table.runs)} runs have no result", err=True)
        raise SystemExit(EXIT_USER_FAULT)


def _count(models: Sequence[str], machines: Sequence[str]) -> str:
    return (
        f"{len(models)} model{'s' * (len(models) > 1)} by {len(machines)} machine{'s' * (len(machines) > 1)}"
    )


def _print(table: RunTable) -> None:
    from npusim.reports.run import run_table

    say(run_table.text(table, console().width))


def _writer(kind: str, table: RunTable, links: Mapping[int, str] = MappingProxyType({})) -> Writer:
    from npusim.base import files
    from npusim.reports import report
    from npusim.reports.run import run_table

    def content() -> str:
        if kind == "page":
            return run_table.render(table, links)
        return report(kind).render_runs(table)

    return lambda file: files.text(content())(file)
