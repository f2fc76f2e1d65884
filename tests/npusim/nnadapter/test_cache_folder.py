"""The folder of kept compiled models: tokens that name files, and writing that a kill does not break."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter
from npusim.isa.base.errors import NpusimError
from npusim.nnadapter.cache import cache_folder, nnc_container
from tests.examples import tried

WRITER = """
import sys
from pathlib import Path
from npusim.nnadapter.cache import cache_folder, nnc_container
contents = [nnc_container.write_cache({"model": bytes([number]) * 2_000_000}) for number in (1, 2)]
print("ready", flush=True)
while True:
    for content in contents:
        cache_folder.write(Path(sys.argv[1]), "token", content)
"""
"""Writes two contents in turns, for ever."""

LEAST_KILLS = tried(6, 20)

CONTENTS = [{"model": bytes([number]) * 2_000_000} for number in (1, 2)]


def test_kept_and_read_again(tmp_path: Path) -> None:
    place = tmp_path / "new" / "cache"
    assert cache_folder.read(place, "a b-1.ü") is None
    path = cache_folder.write(place, "a b-1.ü", b"old")
    assert path == place / "a b-1.ü.nnc"
    assert cache_folder.write(place, "a b-1.ü", b"new") == path
    assert cache_folder.read(place, "a b-1.ü") == b"new"
    assert os.listdir(place) == ["a b-1.ü.nnc"]


@pytest.mark.slow
def test_killed_while_it_writes(tmp_path: Path) -> None:
    """A writer that is killed at a random moment leaves no file, the old one or the new one, and never a part."""
    moments = random.Random(11)
    remnants = 0
    for turn in range(20):
        if turn >= LEAST_KILLS and remnants:
            break  # a kill came while a file was written
        place = tmp_path / str(
            turn % 2
        )  # the second has no file in the beginning: every other kill may leave none
        if turn < 2:
            place.mkdir()
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(place)], stdout=subprocess.PIPE)
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(moments.uniform(0, 0.05))
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
        data = cache_folder.read(place, "token")
        assert data is None or nnc_container.read_cache(data) in CONTENTS
        remnants += len([name for name in os.listdir(place) if name.startswith(".")])
        assert len(os.listdir(place)) <= 2  # what the last kill left; that of kills before is cleared away
    assert remnants > 0, "no kill came while a file was written"
    cache_folder.write(place, "another", b"")
    assert sorted(set(os.listdir(place)) - {"token.nnc"}) == ["another.nnc"]


def test_threads_that_write_the_same_token(tmp_path: Path) -> None:
    datas = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda data: cache_folder.write(tmp_path, "token", data), datas * 5))
    assert cache_folder.read(tmp_path, "token") in datas
    assert os.listdir(tmp_path) == ["token.nnc"]


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("", "token: is empty, must be text that can name a file, such as 32 hexadecimal digits"),
        (None, "token: is None, must be text that can name a file"),
        (b"abc", "token: is b'abc', must be text that can name a file"),
        ("../other", "token: '../other' has a '/', which may not be in it; it names a file"),
        ("..\\other", "token: '..\\\\other' has a '\\\\', which may not be in it; it names a file"),
        ("a\0b", "token: 'a\\x00b' has a '\\x00', which may not be in it; it names a file"),
        ("a\nb", "token: 'a\\nb' has a '\\n', which may not be in it; it names a file"),
        ("\udc80", "token: '\\udc80' has a '\\udc80', which may not be in it; it names a file"),
        ("..", "token: '..' begins or ends with a point or space, which it may not; it names a file"),
        (
            ".hidden",
            "token: '.hidden' begins or ends with a point or space, which it may not; it names a file",
        ),
        ("ü" * 101, f"token: {'ü' * 40!r} has 202 bytes, may have 200; it names a file"),
    ],
)
def test_tokens_that_name_no_file(token: object, text: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        cache_folder.checked_token(token)
    assert str(refused.value) == text


@pytest.mark.parametrize("token", ["a", "0123456789abcdef" * 2, "ü" * 100, "mobile net_v2 (1)"])
def test_tokens_that_name_files(token: str, tmp_path: Path) -> None:
    assert cache_folder.checked_token(token) == token
    assert cache_folder.write(tmp_path, token, b"x").is_file()


@pytest.mark.parametrize("given", [None, 3, b"cache", "", "a\0b"])
def test_what_is_no_folder(given: object) -> None:
    with pytest.raises(InvalidParameter, match=r"cache_dir: is .*, must be the path of a folder"):
        cache_folder.checked_folder(given)


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NpusimError, match="file: cannot be made: File exists"):
        cache_folder.write(tmp_path / "file", "token", b"")
    with pytest.raises(NpusimError, match="inside: cannot be made: Not a directory"):
        cache_folder.write(tmp_path / "file" / "inside", "token", b"")
    (tmp_path / "token.nnc").mkdir()
    with pytest.raises(NpusimError, match=r"token\.nnc: cannot be written: Is a directory"):
        cache_folder.write(tmp_path, "token", b"")
    with pytest.raises(NpusimError, match=r"token\.nnc: is a folder, not a compiled model"):
        cache_folder.read(tmp_path, "token")
    assert os.listdir(tmp_path / "token.nnc") == []


def test_links_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "token.nnc").symlink_to(tmp_path / "mine")
    with pytest.raises(NpusimError, match="is a symbolic link, which is not followed here; delete it"):
        cache_folder.write(tmp_path, "token", b"theirs")
    assert (tmp_path / "mine").read_bytes() == b"mine"
