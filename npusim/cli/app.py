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
    completing = any(name.startswith("_NPUSIM") for name in os.environ)  # of words in a shell
    if completing or (words[:1] != ["run"] and words not in (["--help"], ["-h"], ["hw", "list"])):
        return False
    with cleaned(), guarded():
        if words[0] == "hw":
            from npusim.cli.presets import list_presets

            list_presets()
            return True
        if words[0] != "run":
            from shutil import get_terminal_size

            from npusim.cli.commands import help_text

            say(help_text(get_terminal_size().columns))
            return True
        from npusim.cli.plain_words import read

        given = read(words[1:])
        if given is None:
            return False
        from npusim.cli.run import run

        run(*given)
    return True


if __name__ == "__main__":
    main()
