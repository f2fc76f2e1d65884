"""Binary files of named sections in which a checksum covers every byte.

Layout, little endian:

    magic  version  sections  header checksum
    table: name  offset  size  checksum, one row per section
    the sections, one after the other, to the end of the file
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import shown

Bytes = bytes | memoryview

_HEAD = struct.Struct("<8sIII")
_ROW = struct.Struct("<16sQQI")


class Row(NamedTuple):
    """One row of the section table."""

    name: str
    offset: int
    size: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Sections:
    """A file format made of named sections.

    noun:    the name of such a file in messages: "an npusim program".
    magic:   its first eight bytes. One byte above 127 and line ends of both kinds show damage by text-mode transfers
             at once (as in PNG).
    names:   the sections in the order of the file.
    fault:   the exception for an invalid file.
    remedy:  what to do about a file of another version, for messages.
    """

    noun: str
    magic: bytes
    version: int
    names: tuple[str, ...]
    fault: type[NpusimError]
    remedy: str

    @property
    def table_bytes(self) -> int:
        """Return the number of bytes before the first section."""
        return _HEAD.size + len(self.names) * _ROW.size

    def pieces(self, bodies: Mapping[str, Bytes]) -> list[Bytes]:
        """Return the bytes of a file in pieces: the header with the table, then each section."""
        offset, rows = self.table_bytes, b""
        for name in self.names:
            body = bodies[name]
            rows += _ROW.pack(name.encode("ascii"), offset, len(body), zlib.crc32(body))
            offset += len(body)
        head = _HEAD.pack(self.magic, self.version, len(self.names), zlib.crc32(rows))
        return [head + rows, *(bodies[name] for name in self.names)]

    def bodies(self, data: Bytes) -> dict[str, memoryview]:
        """Return the sections of a file's bytes without a copy. Raises the format's fault."""
        table = self.table(bytes(data[: self.table_bytes]))
        self.require_size(table, len(data))
        return {row.name: self._body(row, data) for row in table}

    def table(self, data: bytes) -> list[Row]:
        """Read the section table; check magic, version, checksum, and that the sections follow one another.

        data: the first `table_bytes` bytes of the file, or all of a shorter file. Raises the format's fault.
        """
        if not data.startswith(self.magic):
            start = data[: len(self.magic)].hex(" ") or "nothing"
            raise self.fault(f"not {self.noun}: begins with {start}, must begin with {self.magic.hex(' ')}")
        if len(data) < _HEAD.size:
            raise self.fault(f"truncated: {len(data)} bytes, the header has {_HEAD.size}")
        _, version, count, checksum = _HEAD.unpack_from(data)
        if version != self.version:
            newer = "update npusim, or " if version > self.version else ""
            raise self.fault(
                f"file version {version}; this npusim reads version {self.version}: {newer}{self.remedy}"
            )
        if len(data) < self.table_bytes:
            raise self.fault(
                f"truncated: {len(data)} bytes, header and section table have {self.table_bytes}"
            )
        rows = data[_HEAD.size : self.table_bytes]
        if count != len(self.names) or zlib.crc32(rows) != checksum:
            raise self.fault("damaged: the section table does not match its checksum")
        return self._in_order(
            [Row(label.rstrip(b"\0").decode("latin-1"), *rest) for label, *rest in _ROW.iter_unpack(rows)]
        )

    def _in_order(self, rows: list[Row]) -> list[Row]:
        expected = self.table_bytes
        for name, row in zip(self.names, rows, strict=True):
            if row.name != name:
                raise self.fault(f"section {shown(row.name)} stands where {name} belongs")
            if row.offset != expected:
                raise self.fault(f"section {name} begins at byte {row.offset}, must begin at {expected}")
            expected += row.size
        return rows

    def require_size(self, table: list[Row], size: int) -> None:
        """Raise the format's fault unless the file ends where the last section does."""
        end = table[-1].offset + table[-1].size
        if size < end:
            raise self.fault(f"truncated: the sections end at byte {end}, the file has {size}")
        if size > end:
            raise self.fault(f"{size - end} bytes stand behind the last section")

    def _body(self, row: Row, data: Bytes) -> memoryview:
        body = memoryview(data)[row.offset : row.offset + row.size]
        if zlib.crc32(body) != row.checksum:
            raise self.fault(f"damaged: section {row.name} does not match its checksum")
        return body
