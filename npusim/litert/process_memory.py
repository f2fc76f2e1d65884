"""Safe reads of memory at addresses from LiteRT: a bad address raises AbiError instead of a segmentation fault.

On Linux memory is read through the file /proc/self/mem, whose reads fail for bad addresses. On other systems only null
and impossible addresses are detected.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from typing import TypeVar

from npusim.isa.base.errors import NpusimError

Struct = TypeVar("Struct", bound=ctypes.Structure)

_SELF = "/proc/self/mem"
_LEAST_ADDRESS = 4096
_MOST_ADDRESS = (1 << (8 * struct.calcsize("P") - 1)) - 1
_MOST_INTEGERS = 1 << 20
_INT_BYTES = 4
_NAME_BYTES = 4096


class AbiError(NpusimError):
    """LiteRT's structures do not have the layout that the delegate knows."""


class Memory:
    """Reads the memory of this process. Raises AbiError for memory that cannot be read."""

    def __init__(self, file: int | None) -> None:
        self._file = file

    def read(self, address: int | None, size_bytes: int, what: str) -> bytes:
        """Return bytes at an address; what: the name of the data for the message."""
        if not address or not _LEAST_ADDRESS <= address <= _MOST_ADDRESS - size_bytes:
            raise AbiError(f"{what} is at address {address or 0:#x}, where nothing is")
        if self._file is None:
            return ctypes.string_at(address, size_bytes)
        try:
            data = os.pread(self._file, size_bytes, address)
        except OSError:
            data = b""
        if len(data) != size_bytes:
            raise AbiError(f"{what} is at address {address:#x}, where nothing is")
        return data

    def struct(self, kind: type[Struct], address: int | None, what: str) -> Struct:
        """Return a copy of a structure."""
        return kind.from_buffer_copy(self.read(address, ctypes.sizeof(kind), what))

    def pointer(self, address: int, what: str) -> int:
        """Return the pointer that is stored at an address."""
        [value] = struct.unpack("P", self.read(address, struct.calcsize("P"), what))
        return int(value)

    def integers(self, address: int | None, what: str) -> tuple[int, ...]:
        """Return the numbers of a TfLiteIntArray."""
        [count] = struct.unpack("i", self.read(address, _INT_BYTES, what))
        if not 0 <= count <= _MOST_INTEGERS:
            raise AbiError(f"{what} would have {count} numbers")
        if not count:
            return ()
        assert address is not None
        return struct.unpack(f"{count}i", self.read(address + _INT_BYTES, count * _INT_BYTES, what))

    def text(self, address: int | None, expected: bytes, what: str) -> bytes:
        """Return a C string, cut one byte behind the length of the expected one."""
        return self.read(address, min(len(expected) + 1, _NAME_BYTES), what).split(b"\0")[0]


@contextlib.contextmanager
def opened() -> Iterator[Memory]:
    """Open the memory of this process for reading."""
    try:
        file: int | None = os.open(_SELF, os.O_RDONLY)
    except OSError:
        file = None
    try:
        yield Memory(file)
    finally:
        if file is not None:
            os.close(file)


def executable(address: int) -> bool:
    """Return True if an address points to code, or if the system does not tell."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as lines:
            for line in lines:
                span, rights = line.split(maxsplit=2)[:2]
                begin, end = (int(part, 16) for part in span.split("-"))
                if begin <= address < end:
                    return "x" in rights
    except (OSError, ValueError):
        return True
    return False
