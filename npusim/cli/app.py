"""The command line: a clear `npusim run` is started at once, all other words are read by typer."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from npusim.base.console import open_standard_streams
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
    """Execute `npusim run` without typer, and return whether it did; typer takes as long as the run of a small model.

    Words that may be wrong, or for which typer has special rules, are left to typer, which also words the faults.
    """
    if words[:1] != ["run"]:
        return False
    with cleaned(), guarded():
        from npusim.cli.plain_words import read

        given = read(words[1:])
        if given is None:
            return False
        from npusim.cli.run import run

        run(*given)
    return True


if __name__ == "__main__":
    main()
