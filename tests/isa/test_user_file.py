"""The door for files of a user: what passes, how much of it is read, and what is said of the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npusim.isa.base import user_file
from npusim.isa.base.errors import HardwareError, NpusimError
from npusim.isa.base.user_file import Kind

SMALL = Kind("a small file", 10, "; make one")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_a_file_up_to_the_limit_is_read_whole(size: int, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * size)
    assert user_file.contents(tmp_path / "f", SMALL) == b"x" * size
    assert bytes(user_file.mapped(tmp_path / "f", SMALL)) == b"x" * size
    assert user_file.text(tmp_path / "f", SMALL) == "x" * size


def test_one_byte_more_is_too_much(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 11)
    for read in (user_file.contents, user_file.mapped, user_file.text):
        with pytest.raises(HardwareError, match=r"^shown: larger than 10 bytes, not a small file$"):
            read(tmp_path / "f", SMALL, HardwareError, "shown")


def test_no_more_than_the_limit_is_read_of_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10)
    with user_file.opened(path, SMALL) as file:
        with path.open("ab") as other:
            other.write(b"y" * 1_000_000)
        with pytest.raises(NpusimError, match="larger than 10 bytes"):
            user_file.rest(file, SMALL)
        assert file.tell() == 11


def test_files_that_do_not_say_their_size_are_read_to_the_limit() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs /proc")
    assert user_file.text(status, Kind("a status", 1 << 16)).startswith("Name:")
    with pytest.raises(NpusimError, match="larger than 10 bytes"):
        user_file.contents(status, SMALL)


def test_large_files_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_file, "MAPPED_FROM_BYTES", 5)
    (tmp_path / "f").write_bytes(b"12345")
    mapped = user_file.mapped(tmp_path / "f", SMALL)
    assert not isinstance(mapped, bytes)
    assert mapped[1:3] == b"23"


def test_what_is_no_text_is_known_from_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "zero").touch()
    os.truncate(tmp_path / "zero", 1 << 29)
    with pytest.raises(NpusimError, match=r"zero: not an assembly text: byte 0 is 0, which no text has$"):
        user_file.text(tmp_path / "zero", user_file.ASSEMBLY)
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    with pytest.raises(NpusimError, match=r"latin: not UTF-8 text at byte 3; make one$"):
        user_file.text(tmp_path / "latin", SMALL)


def test_links_are_followed_where_somebody_named_them(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "link").symlink_to("f")
    assert user_file.contents(tmp_path / "link", SMALL) == b"x"
    with pytest.raises(NpusimError, match="is a symbolic link, which is not followed here"):
        user_file.contents(tmp_path / "link", SMALL, follow=False)


def test_a_name_that_no_file_has() -> None:
    for name in ("a\0b", "a" * 5000):
        with pytest.raises(NpusimError, match="cannot be read: "):
            user_file.contents(name, SMALL)


def test_limits_are_stated() -> None:
    page = (ROOT / "docs" / "files.md").read_text("utf-8")
    for kind in user_file.KINDS:
        assert f"| {kind.noun} | {kind.most_bytes} |" in page
