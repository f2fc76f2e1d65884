"""The command that compares runs: `npusim compare`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.base.console import console, say

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.comparison.comparison import Comparison
    from npusim.comparison.conditions import Verdict

EXIT_CONDITION = 3
"""Exit status if a condition of --fail-if holds; faults of the user have 2 and those of npusim 1."""

PAGE = "comparison.html"
IN_FOLDER = {"--html": PAGE, "--json": "comparison.json", "--csv": "layers.csv"}
"""Names of the files in the --report folder, by the option that writes the same file."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", epilog="Exit status: 0 done, 3 a --fail-if holds, 2 a mistake in what was given.")(
        compare
    )


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="A.json B.json ...", help="Results of npusim run --json, the baseline first."),
    ],
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="EXPR",
            help="Exit with status 3 if it holds for any run: 'latency_ms>+5%' (against the baseline), "
            "'energy_uj.total>+0.1' (difference), 'cycles.total>1000000' (value). May be given several times.",
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write every number.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="F", help="Write the layers.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="F", help="Write one page.")] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help=f"Write the page ({PAGE}), JSON and CSV to a folder."),
    ] = None,
) -> None:
    """Compare results with the first of them: what changed, layer by layer."""
    from npusim.base import files
    from npusim.comparison import conditions
    from npusim.comparison.comparison import compare as compared

    asked = [conditions.parse(text) for text in fail_if or ()]
    targets = {"--json": json, "--csv": csv, "--html": html}
    given = {option: path for option, path in targets.items() if path}
    pages = {option: report / name for option, name in IN_FOLDER.items()} if report else {}
    files.check_outputs(given, {str(path): path for path in runs}, {"--report": (report, IN_FOLDER.values())})
    comparison = compared(*runs)
    verdicts = comparison.judge(asked)
    try:
        _print(comparison, verdicts)
    finally:  # write the files even if the reader of the summary closes the pipe
        if report:
            files.make_folder(report)
        try:
            files.write_all(_writers(given, comparison, verdicts))
        finally:
            files.write_all(_writers(pages, comparison, verdicts), follow=False)
    _exit(verdicts)


def _print(comparison: Comparison, verdicts: list[Verdict]) -> None:
    from npusim.reports.comparison.terminal import summary

    target = console()
    target.print(summary(comparison, verdicts, target.width))
    sys.stdout.flush()


def _writers(
    paths: Mapping[str, Path], comparison: Comparison, verdicts: list[Verdict]
) -> dict[Path, Writer]:
    return {path: _writer(option, comparison, verdicts) for option, path in paths.items()}


def _writer(option: str, comparison: Comparison, verdicts: list[Verdict]) -> Writer:
    from npusim.base import files

    def content() -> str:
        if option == "--csv":
            from npusim.reports.comparison import cells as comparison_csv

            return comparison_csv.render(comparison)
        if option == "--html":
            from npusim.reports.comparison import page as comparison_page

            return comparison_page.render(comparison, verdicts)
        return files.json_text(comparison.to_dict(verdicts))

    return lambda file: files.text(content())(file)


def _exit(verdicts: list[Verdict]) -> None:
    """Exit with the status for continuous integration, and print the reason in one line."""
    from npusim.reports.comparison.terminal import sentence

    failed = [verdict for verdict in verdicts if verdict.fails]
    if failed:
        first = f"{failed[0].letter}: {sentence(failed[0])}"
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        say(f"npusim: --fail-if holds for {first}{more}", err=True)
        raise typer.Exit(EXIT_CONDITION)
