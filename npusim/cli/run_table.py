"""`npusim run` with several models or machines: a table of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import typer

from npusim.base.console import console, say
from npusim.cli.base import EXIT_USER_FAULT, Progress, hardware_inputs
from npusim.isa.base.errors import NpusimError

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.kernels.graph.bind import Sizes
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


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the table goes, beside the terminal: files by option, and a folder."""

    files: Mapping[str, Path]
    folder: Path | None


def run(
    models: Sequence[str],
    machines: Sequence[str],
    settings: Sequence[str],
    effort: str,
    unknown: str | None,
    sizes: Sizes,
    targets: Targets,
    one: Mapping[str, object],
) -> None:
    """Print and write the table. `one`: options that go with one run only, with what they were given.

    sizes: that the model leaves open; several models have none in common.

    No data is executed: nothing of it would be shown, and cycles and energy are the same.
    """
    from npusim.base import files
    from npusim.reports import report
    from npusim.session import api, run_table

    alone = {option: path for option, path in targets.files.items() if report(option).render_runs is None}
    given = next((option for option, value in {**one, **alone}.items() if value is not None), None)
    if given:
        raise NpusimError(
            f"{given}: goes with one model on one machine; this is a table of {_count(models, machines)}"
        )
    if sizes and len(models) > 1:
        raise NpusimError(f"--shape: goes with one model; these are {len(models)}")
    sources: dict[str, Path | None] = {f"MODEL {model}": Path(model) for model in models}
    for name in machines:
        sources |= hardware_inputs(name, f"--hw {name}")
    models = run_table.model_files(models)
    number = len(models) * len(machines)
    names = [f"run-{place}.html" for place in range(1, number + 1)] if number <= MOST_PAGES else []
    written = [*IN_FOLDER.values(), *names]
    files.check_outputs(targets.files, sources, {"--report": (targets.folder, written)})
    api.schedules_of_effort(effort)
    api.check_unknown(unknown)
    hardware = [api.hardware(name, settings) for name in machines]
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
            effort=effort,
            unknown=unknown,
            sizes=sizes,
            watch=watch,
            show=show if targets.folder and names else None,
        )
    try:
        _print(table)
    finally:  # what was computed is kept, even if nobody reads the table to its end
        if targets.folder:
            files.make_folder(targets.folder)
            links = {place: page.name for place, page in pages.items()}
            inside = {targets.folder / name: _writer(kind, table, links) for kind, name in IN_FOLDER.items()}
            inside |= {targets.folder / page.name: files.text(page.text) for page in pages.values()}
            files.write_all(inside, follow=False)
        files.write_all({path: _writer(kind, table) for kind, path in targets.files.items()})
    if table.faults:
        say(f"npusim: {len(table.faults)} of {len(table.runs)} runs have no result", err=True)
        raise typer.Exit(EXIT_USER_FAULT)


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
        render = report(kind).render_runs
        assert render is not None
        return render(table)

    return lambda file: files.text(content())(file)
