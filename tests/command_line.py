"""Run commands of npusim in the process of the test."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from npusim.cli.typer_app import app


class Answer(NamedTuple):
    """The exit status of a command, and what it printed on standard output and standard error."""

    status: int
    out: str
    err: str


def command(*words: str | Path) -> Answer:
    """Run `npusim WORDS`."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return Answer(done.exit_code, done.stdout, done.stderr)
