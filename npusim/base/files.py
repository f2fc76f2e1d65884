"""The writing of files: each appears complete or not at all, and none replaces a file that the command reads."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from npusim.base.console import STANDARD_OUTPUT, Cleaned, data_stream
from npusim.isa.base.errors import NpusimError

Writer = Callable[[BinaryIO], object]


def text(content: str) -> Writer:
    """Return a writer of UTF-8 text."""
    return lambda file: file.write(content.encode("utf-8"))


def json_text(plain: object) -> str:
    """Format plain values as indented JSON. Raises ValueError for a number that is not finite."""
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


def write(path: Path, writer: Writer, *, follow: bool = True, durable: bool = False) -> None:
    """Let `writer` fill the file at `path`, which appears complete or stays unchanged.

    The content goes to a temporary file beside it, which is then renamed; such files of killed runs are removed.
    Devices and pipes are written directly. "-" is standard output if a command reserves it for data.

    follow:  follow a symbolic link; else refuse it, as in folders whose file names the user did not choose.
    durable: write the content to disk before the rename, so that the file survives a crash of the computer.
    Raises NpusimError that names the path.
    """
    if path == STANDARD_OUTPUT and (stream := data_stream()) is not None:
        content = BytesIO()
        writer(content)
        stream.write(content.getvalue().decode("utf-8"))
        stream.flush()
        return
    try:
        if not follow:
            require_no_link(path)
        if _is_stream(path):
            with _opened_stream(path) as file:
                writer(file)
            return
        with _partial(_resolved(path), durable) as file:
            writer(file)
    except OSError as fault:
        raise NpusimError(f"{path}: cannot be written: {fault.strerror or fault}") from fault


def _resolved(path: Path) -> Path:
    """Return the resolved path; unlike Path.resolve it accepts symbolic links in a circle. Raises NpusimError."""
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError:  # raised by os.getcwd
        raise NpusimError(
            f"{path}: the current folder no longer exists; change to another one, or give an absolute path"
        ) from None


def _is_stream(path: Path) -> bool:
    """Return True for a device or pipe, and for /dev/stdout even if it is redirected to a regular file."""
    return path.exists() and (not path.is_file() or Path("/dev") in path.absolute().parents)


@contextmanager
def _opened_stream(path: Path) -> Iterator[BinaryIO]:
    """Open a device or pipe for writing, without waiting for a reader."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0))
    except OSError as fault:
        if fault.errno == errno.ENXIO:
            raise NpusimError(f"{path}: cannot be written: it is a pipe, and nobody reads it") from None
        raise
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        if file.isatty():
            yield cast(BinaryIO, Cleaned(file))
        else:
            yield file


@contextmanager
def _partial(target: Path, durable: bool) -> Iterator[BinaryIO]:
    """Create a temporary file beside `target`, which is renamed to it at the end, or removed on an error.

    It is locked while it is written, so an unlocked file of such a name was left by a killed process.
    """
    clear_remnants(target.parent, re.compile(rf"\.{re.escape(target.name)}\.\d+\.partial"))
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    with _locked(partial) as file:
        try:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            partial.replace(target)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise


@contextmanager
def _locked(partial: Path) -> Iterator[BinaryIO]:
    """Create and lock a new file. Try again if another process removed it as a remnant before it was locked."""
    while True:
        with partial.open("xb") as file:
            if _lock(file.fileno()) and _is_at(partial, file.fileno()):
                yield file
                return
        time.sleep(0.001)


def _lock(handle: int) -> bool:
    """Lock an open file for this process alone, and return whether that succeeded."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def clear_remnants(folder: Path, pattern: re.Pattern[str]) -> None:
    """Remove temporary files of killed processes from a folder.

    pattern: file names of such files. A file that a process still writes is locked, and is not removed.
    """
    with suppress(OSError):
        for name in [entry.name for entry in os.scandir(folder) if pattern.fullmatch(entry.name)]:
            _clear(folder / name)


def _clear(partial: Path) -> None:
    with suppress(OSError):
        handle = os.open(partial, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        try:
            if _lock(handle):
                partial.unlink()
        finally:
            os.close(handle)


def write_all(writers: Mapping[Path, Writer], *, follow: bool = True) -> None:
    """Write several files, all of them even if one fails. Raises one NpusimError that names each fault once."""
    faults: dict[str, list[Path]] = {}
    for path, writer in writers.items():
        try:
            write(path, writer, follow=follow)
        except NpusimError as fault:
            faults.setdefault(str(fault).removeprefix(f"{path}: "), []).append(path)
    if faults:
        raise NpusimError("; ".join(f"{_named(paths)}: {text}" for text, paths in faults.items()))


def _named(paths: Sequence[Path]) -> str:
    """Return the first of several paths, and the number of the others."""
    return f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}"


def check_outputs(
    outputs: Mapping[str, Path | None],
    inputs: Mapping[str, Path | None],
    folders: Mapping[str, tuple[Path | None, Iterable[str]]] | None = None,
) -> None:
    """Check all files that a command is going to write, before its work. Raises NpusimError.

    outputs: files by option; None if the option is not given.
    inputs:  files that the command reads, by the name that the user knows; None if not given.
    folders: folders by option, with the names of the files to be written there.

    A file is refused if it surely cannot be written, or if it is also an input or another output: by its path, through
    links, or under another name of the same file. Only devices and pipes may be given twice.
    """
    taken: dict[object, str] = {}
    for name, path in inputs.items():
        if path is not None and path.exists() and not _is_stream(path):
            taken[_identity(path)] = name
    asked = {option: path for option, path in outputs.items() if path is not None}
    for path in asked.values():
        if path != STANDARD_OUTPUT or data_stream() is None:
            require_writable(path)
    for option, path in asked.items():
        _take(taken, option, path)
    for option, (folder, names) in (folders or {}).items():
        if folder is not None:
            written = list(names)
            require_folder(folder, written)
            for name in written:
                _take(taken, option, folder / name)


def _take(taken: dict[object, str], option: str, path: Path) -> None:
    if _is_stream(path):
        return
    other = taken.setdefault(_identity(path), option)
    if other != option:
        raise NpusimError(f"{option} {path}: is also {other}; give each a file of its own")


def _identity(path: Path) -> object:
    """Return a key that is equal for two paths of one file, whether it exists or will be written."""
    try:
        status = path.stat()
    except OSError:
        return _resolved(path)
    return status.st_dev, status.st_ino


def require_writable(path: Path) -> None:
    """Raise NpusimError if `path` surely cannot be written, so that the user knows before the work."""
    folder = _resolved(path).parent
    if path.is_dir():
        raise NpusimError(f"{path}: is a folder; give the name of a file")
    if not folder.is_dir():
        raise NpusimError(f"{path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise NpusimError(f"{path}: cannot be written: permission denied")


def require_folder(path: Path, names: Iterable[str] = ()) -> None:
    """Raise NpusimError if files `names` surely cannot be written into the folder `path`, which may not exist yet.

    Links in the folder are not followed: nobody gave their names.
    """
    if path.is_dir():
        for name in names:
            require_no_link(path / name)
            require_writable(path / name)
        return
    if path.exists() or path.is_symlink():
        raise NpusimError(f"{path}: is a file; give the name of a folder")
    parent = _resolved(path).parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise NpusimError(f"{path}: cannot be made: {parent} is a file")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise NpusimError(f"{path}: cannot be made: permission denied")


def require_no_link(path: Path) -> None:
    """Raise NpusimError if `path` is a symbolic link; for files in folders whose names the user did not choose."""
    if path.is_symlink():
        raise NpusimError(f"{path}: is a symbolic link, which is not followed here; delete it")


def make_folder(path: Path) -> None:
    """Create the folder `path` and those above it if they are missing. Raises NpusimError that names it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise NpusimError(f"{path}: cannot be made: {fault.strerror or fault}") from fault
