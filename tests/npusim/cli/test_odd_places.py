"""Runs in odd places: closed streams, a folder that is gone, a full disk, a matplotlib that cannot have its way."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from npusim.base import files
from npusim.isa.base.errors import NpusimError

if os.name != "posix":
    pytest.skip("streams are closed by a POSIX shell", allow_module_level=True)

MAIN = (sys.executable, "-m", "npusim")


def in_shell(script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell script whose "$@" is a command of npusim, in a process of its own."""
    return subprocess.run(
        ["sh", "-c", script, "sh", *MAIN, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_as_quiet_as_the_null_device(closed: str, tmp_path: Path) -> None:
    done = in_shell(f'"$@" {closed}', "run", "digits_cnn", "--timing-only", "--json", f"{tmp_path}/r.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Latency" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))
    assert json.loads((tmp_path / "r.json").read_text())["cycles"]["total"] > 0
    assert in_shell(f'"$@" {closed}', "hw", "check", "nothing.toml").returncode == 2


@pytest.mark.slow
def test_workers_of_a_search_have_streams_too(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    # With one objective there are no figures, which would take longer than the search.
    space.write_text('objectives = ["latency"]\n[parameters]\nvector.lanes = [4, 8]\n')
    words = ("explore", "digits_cnn", str(space), "--study", f"{tmp_path}/study", "-j", "2")
    assert in_shell('"$@" <&- >&- 2>&-', *words).returncode == 0
    assert (tmp_path / "study" / "points.csv").read_text().count("\n") == 3


@pytest.mark.slow
def test_figures_need_no_backend_and_matplotlib_says_nothing(tmp_path: Path) -> None:
    """One figure as a report draws it; tests/reports/test_folder.py has the folder of all."""
    (tmp_path / "file").touch()  # where matplotlib would keep what it found of fonts
    surroundings = {**os.environ, "MPLBACKEND": "nope", "MPLCONFIGDIR": f"{tmp_path}/file"}
    code = "import io, npusim; from npusim.reports.run import figures; file = io.BytesIO(); "
    code += "run = npusim.run('digits_cnn', timing_only=True); "
    code += "figures.save(lambda: figures.roofline(run), 'png', {}, file); print(file.tell() > 1000)"
    done = subprocess.run([sys.executable, "-c", code], env=surroundings, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.slow
def test_the_backend_of_a_notebook_stays() -> None:
    code = "from npusim.reports.run.figures import styled; styled(); import matplotlib, os; "
    code += "print(matplotlib.rcParams['backend'], os.environ['MPLBACKEND'])"
    environment = {**os.environ, "MPLBACKEND": "svg"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "svg svg\n", done.stderr


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("option", ["--json", "--report", "--cache"])
def test_a_folder_that_is_gone_is_named(option: str, tmp_path: Path) -> None:
    script = f'mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone; "$@"'
    done = in_shell(script, "run", "digits_cnn", option, "made")
    assert (done.returncode, done.stderr) == (
        2,
        "npusim: made: the current folder no longer exists; change to another one, or give an absolute path\n",
    )
    assert in_shell(script, "run", "digits_cnn", option, f"{tmp_path}/made").returncode == 0


def test_a_full_disk_is_said_once(tmp_path: Path) -> None:
    def full(file: BinaryIO) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writers: dict[Path, files.Writer] = {tmp_path / f"{i}.csv": full for i in range(29)}
    writers[tmp_path / "small"] = files.text("fits")
    with pytest.raises(NpusimError) as fault:
        files.write_all(writers)
    reason = os.strerror(errno.ENOSPC)
    assert str(fault.value) == f"{tmp_path / '0.csv'} and 28 more: cannot be written: {reason}"
    assert os.listdir(tmp_path) == ["small"]
