"""Files are written whole or not at all, and each that can be written is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from npusim import files
from npusim.isa.errors import NpusimError


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
