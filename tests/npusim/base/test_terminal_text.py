"""The way to a terminal: streams, tables and progress show names, and obey none."""

from __future__ import annotations

import io
import os
import pty
import sys
from pathlib import Path

import pytest
from rich.text import Text

from npusim.base import console, files
from npusim.cli.base import Progress

EVIL = "a\x1b]0;title\x07\u202eb"
SHOWN = "a\\x1b]0;title\\x07\\u202eb"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_streams_are_cleaned_and_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with console.cleaned_streams():
        sys.stdout.write(f"{EVIL}\n")
        sys.stderr.writelines([EVIL, "\n"])
        assert console.uncleaned(sys.stdout) is before[0]
        assert not hasattr(sys.stdout, "buffer")
    assert (sys.stdout, sys.stderr) == before
    assert tuple(capsys.readouterr()) == (f"{SHOWN}\n", f"{SHOWN}\n")


def test_tables_are_cleaned_and_keep_their_colours() -> None:
    file = Terminal()
    console.console(file, width=80, force_terminal=True, color_system="standard").print(
        Text(f"name {EVIL}", style="bold red")
    )
    text = file.getvalue()
    assert SHOWN.replace("\\x07", "") in text  # rich leaves bells out itself
    assert text.startswith("\x1b[1;31m")
    assert "\x1b]" not in text
    assert "\u202e" not in text


def test_progress_shows_a_name_and_moves_the_cursor_itself() -> None:
    file, now = Terminal(), iter(range(100))
    with Progress(f"simulating {EVIL}", file, clock=lambda: next(now)) as progress:
        assert progress is not None
        progress(1, 2)
    assert file.getvalue() == f"\rsimulating {SHOWN}  50 %\r\x1b[K"


def test_a_file_that_is_a_terminal_is_written_like_one() -> None:
    ours, theirs = pty.openpty()
    try:
        files.write(Path(os.ttyname(theirs)), files.text(f"{EVIL}\n"))
        assert os.read(ours, 1000).decode() == f"{SHOWN}\r\n"
    finally:
        os.close(ours)
        os.close(theirs)
