"""npusim's command line inside the process of a case: its exit status and what it printed."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

from npusim import models
from npusim.cli import app as cli

from .child import Report

LONGEST_MESSAGE = 400


def npusim(*arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `npusim ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["npusim", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            cli.main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
    return status, out.getvalue(), err.getvalue()


WARNING = "npusim: warning: "


def attempt(report: Report, arguments: Sequence[str]) -> int:
    """Run a command and judge how it ends: 0, or 2 with one line on stderr; the exit status.

    What the reader of a model warns of stands in lines of its own before that.
    """
    status, out, said = npusim(*arguments)
    command = f"npusim {' '.join(arguments)}"
    warnings = [line for line in said.splitlines() if line.startswith(WARNING)]
    err = "".join(line for line in said.splitlines(keepends=True) if not line.startswith(WARNING))
    if not all(map(one_line, warnings)):
        report.note("bad message", f"{command}: {said!r}")
    report.note("run")
    if status == 2:
        report.note("refused", err.strip())
        if not one_line(err):
            report.note("bad message", f"{command}: {err!r}")
    elif status:
        report.note("exit 1", f"{command}: exit {status}: {err.strip()[-1500:]}")
    elif not all(map(_warning, err.splitlines())):
        report.note("bad message", f"{command}: exit 0 and {err!r}")
    if "\x1b" in out + err:
        report.note("bad message", f"{command}: a terminal escape in {(out + err)[:400]!r}")
    return status


def one_line(err: str) -> bool:
    """True for one printable line of a length that somebody reads."""
    text = err.rstrip("\n")
    return text.startswith("npusim: ") and text.isprintable() and len(text) <= LONGEST_MESSAGE


def _warning(line: str) -> bool:
    """True for what `npusim run` may say of a model that it runs."""
    return line.startswith("npusim: warning: ") and line.isprintable() and len(line) <= LONGEST_MESSAGE


def warm_up() -> None:
    """Import what cases need, once: a forked process has what its parent has."""
    from npusim.verification import litert as litert_reference

    assert npusim("run", "digits_cnn")[0] == 0
    npusim("asm", "nothing.asm", "-o", "nothing.npu")
    if litert_reference.installed():
        litert_reference.Session(models.path_or_bytes("digits_cnn"))
