"""Files that npusim writes: whole or not at all, and every one that can be written is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from npusim.isa.errors import NpusimError

Writer = Callable[[BinaryIO], object]


def text(content: str) -> Writer:
    """A writer of UTF-8 text."""
    return lambda file: file.write(content.encode("utf-8"))


def write(path: Path, writer: Writer) -> None:
    """Let `writer` fill the file at `path`, which appears complete or stays what it was.

    The content goes to a file beside it that then takes its name. Devices and pipes are written directly, a
    link is followed. Raises NpusimError that names the path.
    """
    try:
        if _is_stream(path):
            with path.open("ab") as file:
                writer(file)
            return
        target = path.resolve()
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            with partial.open("xb") as file:
                writer(file)
            partial.replace(target)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise
    except OSError as fault:
        raise NpusimError(f"{path}: cannot be written: {fault.strerror or fault}") from fault


def _is_stream(path: Path) -> bool:
    """True for a device or pipe, and for /dev/stdout even where that is a regular file at the moment."""
    return path.exists() and (not path.is_file() or Path("/dev") in path.absolute().parents)


def write_all(writers: Mapping[Path, Writer]) -> None:
    """Write several files; a fault of one does not stop the others. Raises NpusimError with all faults."""
    faults = []
    for path, writer in writers.items():
        try:
            write(path, writer)
        except NpusimError as fault:
            faults.append(str(fault))
    if faults:
        raise NpusimError("; ".join(faults))


def require_writable(path: Path) -> None:
    """Raise NpusimError if `path` surely cannot be written: known before the work, not after it."""
    folder = path.resolve().parent
    if path.is_dir():
        raise NpusimError(f"{path}: is a folder; give the name of a file")
    if not folder.is_dir():
        raise NpusimError(f"{path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise NpusimError(f"{path}: cannot be written: permission denied")


def require_folder(path: Path, names: Iterable[str] = ()) -> None:
    """Raise NpusimError if files `names` surely cannot be written into the folder `path`, which may not exist yet."""
    if path.is_dir():
        for name in names:
            require_writable(path / name)
        return
    if path.exists() or path.is_symlink():
        raise NpusimError(f"{path}: is a file; give the name of a folder")
    parent = path.resolve().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise NpusimError(f"{path}: cannot be made: {parent} is a file")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise NpusimError(f"{path}: cannot be made: permission denied")


def make_folder(path: Path) -> None:
    """Make the folder `path` and those above it, if they are not there; raises NpusimError that names it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise NpusimError(f"{path}: cannot be made: {fault.strerror or fault}") from fault
