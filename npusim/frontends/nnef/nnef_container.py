"""Containers of NNEF models: a folder, a text alone, or a tar archive, perhaps compressed with gzip.

Nothing outside of the container is read, and no archive is unpacked beyond what a model of its size can need.
"""

from __future__ import annotations

import gzip
import io
import mmap
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from npusim.frontends.nnef.nnef_rules import RULES
from npusim.frontends.nnef.places import DocumentError, Source, quoted
from npusim.isa.base import user_file
from npusim.isa.base.lazy_dataclass import dataclass

GRAPH = "graph.nnef"
QUANTIZATION = "graph.quant"
DATA_SUFFIX = ".dat"
ARCHIVE_SUFFIXES = (".tgz", ".tar.gz", ".tar")

_GZIP_MAGIC = b"\x1f\x8b"
_UNPACKED_BYTES = 64 << 20
_UNPACKED_TIMES = 100
"""An archive may unpack to 64 MiB and a hundred times its own size, because weights do not compress better."""

MOST_MEMBERS = 1 << 16
_CHUNK_BYTES = 1 << 16

Contents = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class Container:
    """The files of an NNEF model.

    graph: text of the graph file.
    quantization: text of the quantization file, or None.
    read: (path inside, such as "block1/weights.dat") -> the file's contents, or None if it does not exist.
    has_files: whether the model may have data files.
    """

    graph: Source
    quantization: Source | None
    read: Callable[[str], Contents | None]
    has_files: bool = True


def recognises(path: Path, head: bytes) -> bool:
    """Return True for a folder with a graph in it, and for files named like a graph or an archive."""
    if path.is_dir():
        return (path / GRAPH).exists()
    name = path.name.lower()
    if name.endswith(ARCHIVE_SUFFIXES):
        return head.startswith(_GZIP_MAGIC) or name.endswith(".tar")
    return name.endswith(".nnef")


def opened(path: Path) -> Container:
    """Return the container at the path. Raises DocumentError with a text that does not repeat the path."""
    if path.is_dir():
        return _folder(path, GRAPH)
    name = path.name.lower()
    if name.endswith(ARCHIVE_SUFFIXES):
        return _archive(path)
    if path.name == GRAPH:
        return _folder(path.parent, "")
    text = _text(user_file.contents(path, user_file.DOCUMENT, DocumentError, ""), "")
    return Container(text, None, lambda name: None, has_files=False)


def held(graph: str, quantization: str | None = None, files: Mapping[str, bytes] | None = None) -> Container:
    """Return a container of texts and files that are in memory already."""
    source = None if quantization is None else Source(QUANTIZATION, quantization)
    return Container(Source(GRAPH, graph), source, (files or {}).get, files is not None)


def data_path(label: str) -> str | None:
    """Return the path of a variable's data inside the container; None for a label that leads outside."""
    parts = label.split("/")
    is_path = label.isprintable() and "\\" not in label and ":" not in parts[0]
    return label + DATA_SUFFIX if is_path and not {"", ".", ".."}.intersection(parts) else None


def _text(data: bytes, name: str) -> Source:
    # Text that is not UTF-8 may stand in comments; elsewhere the lexer refuses it, with its place.
    return Source(name, data.decode("utf-8-sig", "surrogateescape"))


def _folder(root: Path, shown: str) -> Container:
    """Return the container of a folder; `shown` is its graph's name in messages."""
    inside = root.resolve()

    def path_of(name: str) -> Path | None:
        path = root / name
        if not path.exists():
            return None
        if not path.resolve().is_relative_to(inside):
            raise _fault("X2", f"{quoted(name)} is a link that leaves the folder")
        return path

    def read(name: str) -> Contents | None:
        path = path_of(name)
        return None if path is None else user_file.mapped(path, user_file.MODEL, DocumentError, name)

    graph, quantization = path_of(GRAPH), path_of(QUANTIZATION)
    if graph is None:
        raise _fault("V1", f"the folder has no {GRAPH}")
    text = _text(user_file.contents(graph, user_file.DOCUMENT, DocumentError, shown), shown)
    if quantization is None:
        return Container(text, None, read)
    codes = user_file.contents(quantization, user_file.DOCUMENT, DocumentError, QUANTIZATION)
    return Container(text, _text(codes, QUANTIZATION), read)


# Archives


class _Bounded(io.RawIOBase):
    """A stream of which only a limited number of bytes can be read."""

    def __init__(self, stream: gzip.GzipFile | BinaryIO, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = most_bytes
        self._left = most_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        pieces = []
        while size:
            piece = self._stream.read(_CHUNK_BYTES if size < 0 else min(size, _CHUNK_BYTES))
            if not piece:
                break
            self._left -= len(piece)
            if self._left < 0:
                raise _fault(
                    "V1", f"the archive unpacks to more than {self._most_bytes:,} bytes; unpack it by hand"
                )
            pieces.append(piece)
            size -= len(piece) if size > 0 else 0
        return b"".join(pieces)


def _archive(path: Path) -> Container:
    with user_file.opened(path, user_file.MODEL, DocumentError, "") as file:
        is_compressed = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        size_bytes = path.stat().st_size
        most_bytes = _UNPACKED_BYTES + _UNPACKED_TIMES * size_bytes if is_compressed else size_bytes
        try:
            stream = gzip.GzipFile(fileobj=file) if is_compressed else file
            files = _members(_Bounded(stream, most_bytes))
        except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise _fault("V1", f"the archive is damaged: {text}") from None
    root = _root(files)
    quantization = files.get(f"{root}{QUANTIZATION}")
    return Container(
        _text(_short(files[f"{root}{GRAPH}"], GRAPH), GRAPH),
        None if quantization is None else _text(_short(quantization, QUANTIZATION), QUANTIZATION),
        lambda name: files.get(f"{root}{name}"),
    )


def _members(stream: io.RawIOBase) -> dict[str, bytes]:
    """Return the files of an archive that a model may have, by their paths."""
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for count, member in enumerate(archive):
            if count >= MOST_MEMBERS:
                raise _fault("N", f"the archive has more than {MOST_MEMBERS:,} members")
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                raise _fault("X2", f"member {quoted(member.name)} leaves the archive")
            if member.isdir():
                continue
            if not member.isreg() or member.issparse():
                raise _fault(
                    "V1", f"member {quoted(member.name)} is a link or device; a model is of regular files"
                )
            name = str(path)
            if path.name not in (GRAPH, QUANTIZATION) and path.suffix != DATA_SUFFIX:
                continue
            if name in files:
                raise _fault("V1", f"the archive has {quoted(name)} twice")
            content = archive.extractfile(member)
            files[name] = content.read() if content is not None else b""
            if len(files[name]) != member.size:
                raise _fault("V1", f"the archive ends within {quoted(name)}")
    while stream.read(_CHUNK_BYTES):  # read to the end, where gzip has its checksum
        pass
    return files


def _root(files: Mapping[str, bytes]) -> str:
    """Return the folder of the graph within an archive, with its slash; "" for the root."""
    if GRAPH in files:
        return ""
    folders = [
        name.removesuffix(GRAPH) for name in files if name.count("/") == 1 and name.endswith(f"/{GRAPH}")
    ]
    if len(folders) != 1:
        what = f"graphs in {len(folders)} folders" if folders else f"no {GRAPH}"
        raise _fault("V1", f"the archive has {what}")
    return folders[0]


def _short(data: bytes, name: str) -> bytes:
    most_bytes = user_file.DOCUMENT.most_bytes
    if len(data) > most_bytes:
        raise _fault("N", f"{name} has {len(data):,} bytes; at most {most_bytes:,} are read")
    return data


def _fault(rule: str, text: str) -> DocumentError:
    return DocumentError(f"{text} (rule {rule}: {RULES[rule]})")
