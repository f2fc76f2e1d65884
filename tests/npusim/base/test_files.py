"""Files are written whole or not at all, and each that can be written is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from npusim.base import files
from npusim.isa.base.errors import NpusimError


def _half_then_fail(file: BinaryIO) -> None:
    file.write(b"half")
    raise RuntimeError("stop")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="stop"):
        files.write(path, _half_then_fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.write(tmp_path / "link", files.text("new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_device_is_written_not_replaced() -> None:
    files.write(Path(os.devnull), files.text("gone"))
    assert not Path(os.devnull).is_file()


def test_a_pipe_is_written_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write(pipe, files.text("through"))
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_one_fault_does_not_stop_the_others(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "a"
    with pytest.raises(NpusimError) as caught:
        files.write_all({missing: files.text("a"), tmp_path / "b": files.text("b")})
    assert str(caught.value) == f"{missing}: cannot be written: No such file or directory"
    assert (tmp_path / "b").read_text() == "b"


def test_what_cannot_be_written_is_known_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(NpusimError, match="is a folder; give the name of a file"):
        files.require_writable(tmp_path)
    with pytest.raises(NpusimError, match="there is no folder"):
        files.require_writable(tmp_path / "no" / "file")
    files.require_writable(tmp_path / "file")
    files.require_writable(Path(os.devnull))


# What a killed process left


def _killed(path: Path) -> Path:
    """A partial file of `path` that nobody holds."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_bytes(b"half")
    return partial


def test_what_a_killed_process_left_goes_even_if_it_had_our_number(tmp_path: Path) -> None:
    mine, others = _killed(tmp_path / "a"), tmp_path / ".b.1.partial"
    others.write_bytes(b"of another file")
    (tmp_path / ".a.1x.partial").write_bytes(b"of nobody")
    files.write(tmp_path / "a", files.text("new"))
    assert not mine.exists()
    assert sorted(os.listdir(tmp_path)) == [".a.1x.partial", ".b.1.partial", "a"]


def test_a_file_that_another_process_writes_stays(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from npusim.base import files\n"
        "def slow(file):\n file.write(b'late'); file.flush(); print('writing', flush=True); sys.stdin.read()\n"
        "files.write(Path(sys.argv[1]), slow)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        files.write(tmp_path / "a", files.text("early"))
        assert sorted(os.listdir(tmp_path)) == [f".a.{process.pid}.partial", "a"]
        process.communicate(b"")
        assert process.returncode == 0
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "late"


# Outputs against inputs


def test_an_output_is_no_input_by_path_link_or_second_name(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.write_bytes(b"model")
    (tmp_path / "link").symlink_to(model)
    os.link(model, tmp_path / "second")
    (tmp_path / "folder").symlink_to(tmp_path)
    for path in (model, tmp_path / "link", tmp_path / "second", tmp_path / "folder" / "model"):
        with pytest.raises(NpusimError, match=r"^-o .*: is also MODEL; give each a file of its own$"):
            files.check_outputs({"-o": path}, {"MODEL": model})
    with pytest.raises(NpusimError, match=r"^--csv .*link: is also --json"):
        files.check_outputs({"--json": model, "--csv": tmp_path / "link"}, {})
    with pytest.raises(NpusimError, match=r"^--csv .*new: is also --json"):
        files.check_outputs({"--json": tmp_path / "new", "--csv": tmp_path / "folder" / "new"}, {})
    with pytest.raises(NpusimError, match=r"^--report .*second: is also MODEL"):
        files.check_outputs({}, {"MODEL": model}, {"--report": (tmp_path, ["second"])})
    null = Path(os.devnull)
    files.check_outputs({"--json": null, "--csv": null, "-o": tmp_path / "new"}, {"MODEL": model, "A": None})


def test_links_in_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "report" / "page").symlink_to(tmp_path / "mine")
    with pytest.raises(NpusimError, match="page: is a symbolic link, which is not followed here; delete it"):
        files.check_outputs({}, {}, {"--report": (tmp_path / "report", ["page"])})
    with pytest.raises(NpusimError, match="is a symbolic link"):
        files.write_all({tmp_path / "report" / "page": files.text("new")}, follow=False)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NpusimError, match="cannot be written: it is a pipe, and nobody reads it"):
        files.write(tmp_path / "pipe", files.text("through"))
