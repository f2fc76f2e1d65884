"""The only entry point for reading user files: regular files up to a maximum size.

A device, pipe or folder is refused before anything is read from it, so that no read blocks for ever. Of a file that
is larger than the limit of its kind, or grows while it is read, at most the limit and one byte are read.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of user file: its name in messages, its maximum size in bytes, and how to make one."""

    noun: str
    most_bytes: int
    made_by: str = ""


MODEL = Kind("a model file", 8 << 30)
PROGRAM = Kind("a program", 8 << 30)
ASSEMBLY = Kind("an assembly text", 1 << 29)
HARDWARE = Kind("a hardware file", 1 << 20)
SPACE = Kind("a space file", 1 << 20)
RESULT = Kind("a result file", 1 << 28, "; npusim run MODEL --json F writes one")
STUDY = Kind("the description of a study", 1 << 24)
POINTS = Kind("the points of a study", 4 << 30)
PEM = Kind("a PEM file", 1 << 20)
PARTITION = Kind("a partition file", 1 << 20)
CONFIG = Kind("a configuration", 1 << 24)
COMPILED = Kind("a compiled model", 8 << 30)
DOCUMENT = Kind("the text of an NNEF model", 1 << 25)
GGUF = Kind("a GGUF file", 1 << 44)
SAMPLES = Kind("an npz file of samples", 4 << 30)
REQUESTS = Kind("a file of requests", 1 << 30)
SYSTEM = Kind("a system file", 1 << 20)

KINDS = (
    MODEL,
    PROGRAM,
    ASSEMBLY,
    HARDWARE,
    SPACE,
    RESULT,
    STUDY,
    POINTS,
    PEM,
    PARTITION,
    CONFIG,
    COMPILED,
    DOCUMENT,
    GGUF,
    SAMPLES,
    REQUESTS,
    SYSTEM,
)
"""All kinds of files except the inputs of a run (`npusim.session.inputs`), whose limit depends on the model."""

MAPPED_FROM_BYTES = 1 << 26
"""Larger models are mapped, not read, so that unused parts take no memory."""

PART_MAPPED_FROM_BYTES = 1 << 20
"""Larger parts of files are mapped. Smaller ones are read, because a process has a limited number of mappings."""

_WHAT = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextmanager
def opened(
    path: str | Path,
    kind: Kind,
    fault: type[NpusimError] = NpusimError,
    shown: str | None = None,
    *,
    follow: bool = True,
) -> Iterator[BinaryIO]:
    """Open a file for reading, after a check that it is regular and not too large. Raises `fault`.

    shown:  name of the file in messages; the path if None; no name if "", for callers that add it.
    follow: whether a symbolic link stands for its target.
    """
    with os.fdopen(_descriptor(path, kind, fault, shown, follow), "rb") as file:
        yield file


def contents(
    path: str | Path,
    kind: Kind,
    fault: type[NpusimError] = NpusimError,
    shown: str | None = None,
    *,
    follow: bool = True,
) -> bytes:
    """Return all bytes of the file; arguments and faults are those of `opened`."""
    with opened(path, kind, fault, shown, follow=follow) as file:
        return rest(file, kind, fault, _prefix(path, shown))


def rest(file: BinaryIO, kind: Kind, fault: type[NpusimError] = NpusimError, prefix: str = "") -> bytes:
    """Return the rest of an opened file, at most the limit of its kind. Raises `fault` for a larger file."""
    pieces: list[bytes] = []
    left, wanted = kind.most_bytes + 1, os.fstat(file.fileno()).st_size + 1
    while left:
        # A file with a known size is read in one piece; one that grows, or reports no size (as in /proc), in several.
        piece = file.read(min(left, max(wanted, 1 << 16)))
        if not piece:
            return b"".join(pieces) if len(pieces) != 1 else pieces[0]
        pieces.append(piece)
        left -= len(piece)
        wanted = 0
    raise _too_large(prefix, kind, fault)


def text(
    path: str | Path,
    kind: Kind,
    fault: type[NpusimError] = NpusimError,
    shown: str | None = None,
    *,
    follow: bool = True,
) -> str:
    """Return the content of a text file, which must be UTF-8. Raises `fault` for other bytes, and as `opened` does.

    Arguments are those of `opened`.
    """
    prefix = _prefix(path, shown)
    with opened(path, kind, fault, shown, follow=follow) as file:
        head = file.read(4096)
        if b"\0" in head:  # sparse or binary: refused before all of it is in memory
            raise fault(
                f"{prefix}not {kind.noun}: byte {head.index(0)} is 0, which no text has{kind.made_by}"
            )
        data = head + rest(file, kind, fault, prefix)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fault(f"{prefix}not UTF-8 text at byte {error.start}{kind.made_by}") from None


def mapped(
    path: str | Path, kind: Kind, fault: type[NpusimError] = NpusimError, shown: str | None = None
) -> bytes | mmap.mmap:
    """Return the bytes of the file, read-only; a large file is memory-mapped and read from disk on access."""
    with opened(path, kind, fault, shown) as file:
        if os.fstat(file.fileno()).st_size >= MAPPED_FROM_BYTES:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return rest(file, kind, fault, _prefix(path, shown))


_SETTLED_NS = 2_000_000_000
"""A change later than this after the one before it gets other times. Some file systems round times to 2 s."""


class Identity(NamedTuple):
    """The file behind a path: device, number, size, and the times of its last changes in nanoseconds."""

    device: int
    number: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


def unchanged(path: str | Path) -> Identity | None:
    """Return the identity of a file, which is another one as soon as somebody changes its content.

    None for what is no file, and for a file that changed so recently that its times may not show the next change.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    times = status.st_mtime_ns, status.st_ctime_ns
    if not stat.S_ISREG(status.st_mode) or time.time_ns() < max(times) + _SETTLED_NS:
        return None
    return Identity(status.st_dev, status.st_ino, status.st_size, *times)


def part(
    path: str | Path, kind: Kind, offset: int, size: int, fault: type[NpusimError], shown: str
) -> memoryview | None:
    """Return `size` bytes of a file, which begin at `offset`; None if the file ends before them.

    A large part is memory-mapped and read from disk on access. Other arguments and faults are those of `opened`.
    """
    with opened(path, kind, fault, shown) as file:
        if offset < 0 or offset + size > os.fstat(file.fileno()).st_size:
            return None
        if size < PART_MAPPED_FROM_BYTES:
            file.seek(offset)
            return memoryview(file.read(size))
        before = offset % mmap.ALLOCATIONGRANULARITY
        pages = mmap.mmap(file.fileno(), before + size, access=mmap.ACCESS_READ, offset=offset - before)
        return memoryview(pages)[before:]


def _descriptor(
    path: str | Path, kind: Kind, fault: type[NpusimError], shown: str | None, follow: bool
) -> int:
    prefix = _prefix(path, shown)
    # Open without blocking: opening a pipe that has no writer would wait for ever.
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", *(() if follow else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    try:
        if not follow and os.path.islink(path):
            raise fault(f"{prefix}is a symbolic link, which is not followed here")
        # Checked before it is opened, because opening acts on some devices; and again after, as it may have changed.
        _require_regular(os.stat(path, follow_symlinks=follow), prefix, kind, fault)
        handle = os.open(path, flags)
        try:
            _require_regular(os.fstat(handle), prefix, kind, fault)
        except BaseException:
            os.close(handle)
            raise
        return handle
    except FileNotFoundError:
        raise fault(f"{prefix}no such file") from None
    except OSError as error:
        raise fault(f"{prefix}cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # the name has a NUL
        raise fault(f"{prefix}cannot be read: {error}") from None


def _require_regular(status: os.stat_result, prefix: str, kind: Kind, fault: type[NpusimError]) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = next((words for test, words in _WHAT if test(status.st_mode)), "something else")
        raise fault(f"{prefix}is {what}, not {kind.noun}; it must be a regular file")
    if status.st_size > kind.most_bytes:
        raise _too_large(prefix, kind, fault)


def _too_large(prefix: str, kind: Kind, fault: type[NpusimError]) -> NpusimError:
    return fault(f"{prefix}larger than {kind.most_bytes} bytes, not {kind.noun}")


def _prefix(path: str | Path, shown: str | None) -> str:
    return f"{path}: " if shown is None else f"{shown}: " if shown else ""
