"""The command line. Everything heavy is imported by the command that needs it: `npusim --help` is instant."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from npusim.base.console import open_standard_streams, say
from npusim.cli import catalogue as cli_catalogue
from npusim.cli import compare as cli_compare
from npusim.cli import convert as cli_convert
from npusim.cli import program as cli_program
from npusim.cli import quantize as cli_quantize
from npusim.cli import run as cli_run
from npusim.cli import study as cli_explore
from npusim.cli import verify as cli_verify
from npusim.cli.base import (
    EXIT_INTERRUPTED,
    Guarded,
    start_lightly,
)
from npusim.isa.base.version import npusim_version

app = typer.Typer(
    cls=Guarded,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help: rich alone would take longer to import than all the rest
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Compile quantized networks for a parametric NPU and simulate them: exact bytes, cycles, energy.",
    epilog="Exit status: 0 done, 2 a mistake in what was given, 1 a fault of npusim.",
)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"npusim {npusim_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Options before the command."""


cli_run.register(app)
cli_program.register(app)
cli_convert.register(app)
cli_quantize.register(app)
cli_catalogue.register(app)
cli_compare.register(app)
cli_explore.register(app)
cli_verify.register(app)


def main() -> None:
    """The entry point of `npusim`."""
    start_lightly()
    open_standard_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # a name that the terminal cannot show must not stop a run
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="npusim")
    except KeyboardInterrupt:  # before or after a command; within one, `Guarded` has seen it
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
