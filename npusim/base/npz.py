"""The reader and writer of npz files. Headers are checked before arrays are read, as files may unpack to any size."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError, SimulationError
from npusim.isa.base.tensor import Array, Placement

SPARE_FACTOR = 16
SPARE_BYTES = 1 << 20
"""A file may have a multiple of the wanted arrays' bytes, and so many more. Within that, a message about a wrong
element type or shape says more than one about the size of the file."""

MOST_REPEATED_BYTES = 1 << 28
"""Most bytes of a file that repeat outputs which it already holds."""

_SUFFIX = ".npy"
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LONGEST_HEADER = 10_000
_PIECE_BYTES = 1 << 20


def check_repeated(path: Path, outputs: Sequence[Placement]) -> None:
    """Raise NpusimError if outputs that are the same bytes as earlier ones would fill the file at `path`.

    A model of a kilobyte may name one tensor thousands of times; an npz file holds every array by itself.
    """
    spans = [(place.address, place.type.size_bytes) for place in outputs]
    repeated_bytes = sum(size for _, size in spans) - sum(size for _, size in set(spans))
    if repeated_bytes > MOST_REPEATED_BYTES:
        raise NpusimError(
            f"{path}: {len(spans)} outputs are {len(set(spans))} different ones, their copies would take "
            f"{repeated_bytes} bytes, may take {MOST_REPEATED_BYTES}; leave --output out, or name each tensor once"
        )


def write(file: BinaryIO, outputs: Sequence[Array]) -> None:
    """Write outputs as an npz file with the keys out0, out1, ... by position."""
    arrays: dict[str, Any] = {f"out{i}": array for i, array in enumerate(outputs)}
    np.savez(file, **arrays)


class Archive:
    """An open npz file: its `keys`, the header of each, and the arrays."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.keys = [name.removesuffix(_SUFFIX) for name in archive.namelist()]
        self._names = dict(zip(self.keys, archive.namelist(), strict=True))

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape of the array with a key, reading only its header."""
        with self._archive.open(self._plain(key)) as member:
            return _header(member)[1]

    def array(self, key: str, check: Callable[[np.dtype[Any], tuple[int, ...]], object]) -> Array:
        """Read the array with a key.

        check: called with the element type and shape before the data is read; it raises to refuse them."""
        with self._archive.open(self._plain(key)) as member:
            dtype, shape, columns_first = _header(member)
            if dtype.hasobject:
                raise ValueError("Object arrays cannot be loaded")
            check(dtype, shape)
            flat = np.frombuffer(_exactly(member, dtype.itemsize * int(np.prod(shape, dtype=object))), dtype)
        return flat.reshape(shape, order="F" if columns_first else "C")

    def _plain(self, key: str) -> zipfile.ZipInfo:
        """Return the archive member of a key. Raises ValueError for a compression that zipfile unpacks unbounded."""
        info = self._archive.getinfo(self._names[key])
        if info.compress_type not in _PLAIN:
            raise ValueError(f"{info.filename} is packed with method {info.compress_type}; use np.savez")
        return info


def opened(path: Path, wanted_bytes: int) -> AbstractContextManager[Archive]:
    """Open the archive at `path`, whose wanted arrays have `wanted_bytes`. Raises NpusimError that names the path."""
    noun = f"an npz file of inputs that have {wanted_bytes} bytes"
    return opened_as(path, user_file.Kind(noun, SPARE_FACTOR * wanted_bytes + SPARE_BYTES))


@contextmanager
def opened_as(path: Path, kind: user_file.Kind) -> Iterator[Archive]:
    """Open the archive at `path`; `kind` says in messages what the file is. Raises NpusimError that names the path."""
    with user_file.opened(path, kind) as file:
        try:
            if file.read(6) == b"\x93NUMPY":
                raise SimulationError("is a single array; inputs are an npz file with a key per input")
            with zipfile.ZipFile(file) as archive:
                yield Archive(archive)
        except NpusimError as fault:
            raise SimulationError(f"{path}: {fault}") from None
        except OSError as fault:
            raise NpusimError(f"{path}: cannot be read: {fault.strerror or fault}") from fault
        except Exception as fault:  # a damaged archive makes zipfile, zlib and numpy raise nearly anything
            raise NpusimError(
                f"{path}: not a readable npz file of plain arrays: {_one_line(fault)}"
            ) from fault


def _header(member: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Read element type, shape, and whether the first index varies fastest (numpy.lib.format, versions 1 to 3)."""
    magic = member.read(8)
    if magic[:6] != b"\x93NUMPY" or magic[6:7] not in (b"\1", b"\2", b"\3"):
        raise ValueError("a member is not an array of numpy")
    field = member.read(2 if magic[6] == 1 else 4)
    size = int.from_bytes(field, "little")
    if size > _LONGEST_HEADER:
        raise ValueError(f"an array with a header of {size} bytes, there may be {_LONGEST_HEADER}")
    text = BytesIO(field + member.read(size))
    read = np.lib.format.read_array_header_1_0 if magic[6] == 1 else np.lib.format.read_array_header_2_0
    shape, columns_first, dtype = read(text)
    return dtype, shape, columns_first


def _exactly(member: IO[bytes], size_bytes: int) -> bytearray:
    """Read the rest of a member, which must have `size_bytes`; zipfile checks its CRC at the end."""
    data = bytearray()
    while len(data) < size_bytes:
        piece = member.read(min(_PIECE_BYTES, size_bytes - len(data)))
        if not piece:
            raise ValueError(f"an array ends after {len(data)} of {size_bytes} bytes")
        data += piece
    if member.read(1):
        raise ValueError("bytes stand behind an array")
    return data


def _one_line(fault: Exception) -> str:
    return " ".join(str(fault).split()) or type(fault).__name__
