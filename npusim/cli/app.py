"""The command line: a clear `npusim run` is started at once, all other words are read by typer."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from npusim.base.console import open_standard_streams, say
from npusim.cli.base import EXIT_INTERRUPTED, cleaned, guarded, start_lightly


def main() -> None:
    """Run the command line; this is the entry point of `npusim`."""
    start_lightly()
    open_standard_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # a name that the terminal cannot show must not stop a run
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if not _run_at_once(sys.argv[1:]):
            from npusim.cli.typer_app import app

            app(prog_name="npusim")
    except KeyboardInterrupt:  # before or after a command; within one, `guarded` has seen it
        sys.exit(EXIT_INTERRUPTED)


def _run_at_once(words: list[str]) -> bool:
    """Execute a clear command without typer, and return whether it did; typer takes as long as a small model's run.

    Words that may be wrong, or for which typer has special rules, are left to typer, which also words the faults.
    """
    if any(name.startswith("_NPUSIM") for name in os.environ):
        return False  # a shell asks for completions
    with cleaned(), guarded():
        match words:
            case ["--help"] | ["-h"]:
                from shutil import get_terminal_size

                from npusim.cli.commands import help_text

                say(help_text(get_terminal_size().columns))
            case ["hw", "list"]:
                from npusim.cli.presets import list_presets

                list_presets()
            case ["run", *rest]:
                from npusim.cli.plain_words import read

                given = read(rest)
                if given is None:
                    return False
                from npusim.cli.run import run

                run(*given)
            case _:
                return False
    return True


if __name__ == "__main__":
    main()
