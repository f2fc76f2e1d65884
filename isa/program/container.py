"""The `.npu` file: a program as bytes that any process can check and execute.

Layout (docs/npu_file.md), little endian:

    magic  version  sections  header checksum
    table: name  offset  size  checksum, one row per section
    the sections, one after the other, to the end of the file

`code`, `layer_of` and `constants` are raw; `metadata` is JSON with everything else that a `Program` has. The
same program always gives the same bytes, and every byte of a file is covered by a checksum.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import zlib
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base import user_file
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.plain_json import from_json, to_json
from npusim.isa.base.plain_values import shown
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.word import WORD_BYTES
from npusim.isa.program.program import Blank, Program
from npusim.isa.program.record import from_fields, to_fields
from npusim.isa.program.validate import validate

MAGIC = b"\x89NPU\r\n\x1a\n"
"""A byte above 127 and line ends of both kinds: what text-mode transfers damage shows at once (as in PNG)."""
VERSION = 2

LARGEST_METADATA_BYTES = 1 << 28
"""Parsed JSON takes several times its size; no network that fits a machine comes near this."""

_HEAD = struct.Struct("<8sIII")
_ROW = struct.Struct("<16sQQI")


class Row(NamedTuple):
    """One row of the section table."""

    name: str
    offset: int
    size: int
    checksum: int


class Raw(NamedTuple):
    """A field of `Program` that is stored as it is: an array of `dtype` in rows of `row`, or bytes."""

    field: str
    dtype: str | None = None
    row: tuple[int, ...] = ()

    def write(self, program: Program) -> bytes:
        """The bytes of the section."""
        value = getattr(program, self.field)
        if isinstance(value, Blank):
            return b""
        return bytes(value) if self.dtype is None else np.ascontiguousarray(value, self.dtype).tobytes()

    def read(self, body: memoryview) -> Any:
        """The value of the field. Raises ProgramError for a broken last element."""
        data = bytes(body)
        if self.dtype is None:
            return data
        element = np.dtype(self.dtype).itemsize * prod(self.row)
        if len(data) % element:
            raise ProgramError(f"section {self.field} has {len(data)} bytes, not a multiple of {element}")
        return np.frombuffer(data, self.dtype).reshape(-1, *self.row)


RAW = (Raw("code", "<u1", (WORD_BYTES,)), Raw("layer_of", "<u4"), Raw("constants"))
METADATA = "metadata"
SECTIONS = (*(raw.field for raw in RAW), METADATA)
"""Names of the sections in the order of the file."""

BLANK = "constants_by_size"
"""In the metadata of a program without the bytes of its constants: how many there are, and of what."""
_BLANK_FIELDS = [field.name for field in dataclasses.fields(Blank)]

PLAIN_FIELDS = [field.name for field in dataclasses.fields(Program) if field.name not in SECTIONS]
"""The fields of `Program` that the metadata holds."""

_TABLE_BYTES = _HEAD.size + len(SECTIONS) * _ROW.size


def load(path: str | Path) -> Program:
    """Read a program that is safe to execute.

    Raises ProgramError, one line that names the file, for one that is missing, truncated, damaged, too new, or
    whose program breaks a rule of the instruction set.
    """
    try:
        with user_file.opened(path, user_file.PROGRAM, ProgramError, "") as file:
            _check_size(_table(file.read(_TABLE_BYTES)), os.fstat(file.fileno()).st_size)
            file.seek(0)
            return loads(user_file.rest(file, user_file.PROGRAM, ProgramError))
    except ProgramError as fault:
        raise ProgramError(f"{path}: {fault}") from None


def dumps(program: Program) -> bytes:
    """The bytes of the file. Raises ProgramError for a program that could not be loaded again."""
    fields: dict[str, Any] = to_fields(program, PLAIN_FIELDS)
    if isinstance(program.constants, Blank):
        fields[BLANK] = to_fields(program.constants, _BLANK_FIELDS)
    bodies: dict[str, bytes] = {raw.field: raw.write(program) for raw in RAW}
    bodies[METADATA] = to_json(fields).encode("ascii")
    offset, rows = _TABLE_BYTES, b""
    for name in SECTIONS:
        body = bodies[name]
        rows += _ROW.pack(name.encode("ascii"), offset, len(body), zlib.crc32(body))
        offset += len(body)
    head = _HEAD.pack(MAGIC, VERSION, len(SECTIONS), zlib.crc32(rows))
    return b"".join([head, rows, *(bodies[name] for name in SECTIONS)])


def loads(data: bytes) -> Program:
    """The program in the bytes of a file, checked. Raises ProgramError."""
    table = _table(data)
    _check_size(table, len(data))
    bodies = {row.name: _body(row, data) for row in table}
    raw = {each.field: each.read(bodies[each.field]) for each in RAW}
    metadata = _metadata(bytes(bodies[METADATA]))
    if isinstance(metadata, dict) and BLANK in metadata:
        if raw["constants"]:
            raise ProgramError(f"section {METADATA}: {BLANK} stands beside constants that are there")
        raw["constants"] = Blank(**from_fields(Blank, metadata.pop(BLANK), _BLANK_FIELDS))
    program = Program(**raw, **from_fields(Program, metadata, PLAIN_FIELDS))
    validate(program, decode_all(program.code))
    return program


def _table(data: bytes) -> list[Row]:
    """The section table, once magic, version and checksum hold and the sections follow one another."""
    if not data.startswith(MAGIC):
        found = data[: len(MAGIC)].hex(" ") or "nothing"
        raise ProgramError(f"not an npusim program: begins with {found}, must begin with {MAGIC.hex(' ')}")
    if len(data) < _HEAD.size:
        raise ProgramError(f"truncated: {len(data)} bytes, the header has {_HEAD.size}")
    _, version, count, checksum = _HEAD.unpack_from(data)
    if version != VERSION:
        newer = "update npusim, or " if version > VERSION else ""
        raise ProgramError(
            f"file version {version}; this npusim reads version {VERSION}: {newer}compile the model again"
        )
    if len(data) < _TABLE_BYTES:
        raise ProgramError(f"truncated: {len(data)} bytes, header and section table have {_TABLE_BYTES}")
    table = data[_HEAD.size : _TABLE_BYTES]
    if count != len(SECTIONS) or zlib.crc32(table) != checksum:
        raise ProgramError("damaged: the section table does not match its checksum")
    rows = [Row(label.rstrip(b"\0").decode("latin-1"), *rest) for label, *rest in _ROW.iter_unpack(table)]
    expected = _TABLE_BYTES
    for name, row in zip(SECTIONS, rows, strict=True):
        if row.name != name:
            raise ProgramError(f"section {shown(row.name)} stands where {name} belongs")
        if row.offset != expected:
            raise ProgramError(f"section {name} begins at byte {row.offset}, must begin at {expected}")
        expected += row.size
    return rows


def _check_size(table: list[Row], size: int) -> None:
    """Raise ProgramError unless the file ends where the last section does."""
    end = table[-1].offset + table[-1].size
    if size < end:
        raise ProgramError(f"truncated: the sections end at byte {end}, the file has {size}")
    if size > end:
        raise ProgramError(f"{size - end} bytes stand behind the last section")


def _body(row: Row, data: bytes) -> memoryview:
    body = memoryview(data)[row.offset : row.offset + row.size]
    if zlib.crc32(body) != row.checksum:
        raise ProgramError(f"damaged: section {row.name} does not match its checksum")
    return body


def _metadata(text: bytes) -> Any:
    """The metadata as plain values."""
    try:
        if len(text) > LARGEST_METADATA_BYTES:
            raise ProgramError(f"{len(text)} bytes; there may be {LARGEST_METADATA_BYTES}")
        return from_json(text.decode("ascii"))
    except UnicodeDecodeError as fault:
        raise ProgramError(f"section {METADATA}: byte {fault.start} is not ASCII") from None
    except ProgramError as fault:
        raise ProgramError(f"section {METADATA}: {fault}") from None
