"""The `.npu` file format: a program as bytes that any process can check and execute.

The file has sections (`npusim.isa.base.sections`; docs/npu_file.md). `code`, `layer_of` and `constants` are raw;
`metadata` is JSON with all other fields of `Program`. The same program always gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import os
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base import user_file
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.plain_values import from_json, to_json
from npusim.isa.base.sections import Sections
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.word import WORD_BYTES
from npusim.isa.program.program import Blank, Program
from npusim.isa.program.record import from_fields, to_fields
from npusim.isa.program.validate import validate

MAGIC = b"\x89NPU\r\n\x1a\n"
VERSION = 3

LARGEST_METADATA_BYTES = 1 << 28
"""A limit, because parsed JSON takes several times its size. No network that fits a machine comes near it."""


class Raw(NamedTuple):
    """A field of `Program` that is stored raw: an array of `dtype` in rows of `row` elements, or bytes."""

    field: str
    dtype: str | None = None
    row: tuple[int, ...] = ()

    def write(self, program: Program) -> bytes:
        """Return the bytes of the section."""
        value = getattr(program, self.field)
        if isinstance(value, Blank):
            return b""
        return bytes(value) if self.dtype is None else np.ascontiguousarray(value, self.dtype).tobytes()

    def read(self, body: memoryview) -> Any:
        """Return the value of the field. Raises ProgramError if the last element is incomplete."""
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
"""Names of the sections, in file order."""

BLANK = "constants_by_size"
"""Key in the metadata of a program without the bytes of its constants: their number and origin."""
_BLANK_FIELDS = [field.name for field in dataclasses.fields(Blank)]

PLAIN_FIELDS = [field.name for field in dataclasses.fields(Program) if field.name not in SECTIONS]
"""The fields of `Program` that the metadata holds."""

_FILE = Sections("an npusim program", MAGIC, VERSION, SECTIONS, ProgramError, "compile the model again")


def load(path: str | Path) -> Program:
    """Read a program from a file and check that it is safe to execute.

    Raises ProgramError, one line that names the file, if it is missing, truncated, damaged or too new, or if its
    program breaks a rule of the instruction set.
    """
    try:
        with user_file.opened(path, user_file.PROGRAM, ProgramError, "") as file:
            _FILE.require_size(_FILE.table(file.read(_FILE.table_bytes)), os.fstat(file.fileno()).st_size)
            file.seek(0)
            return loads(user_file.rest(file, user_file.PROGRAM, ProgramError))
    except ProgramError as fault:
        raise ProgramError(f"{path}: {fault}") from None


def dumps(program: Program) -> bytes:
    """Return the bytes of the file. Raises ProgramError for a program that could not be loaded again."""
    fields: dict[str, Any] = to_fields(program, PLAIN_FIELDS)
    if isinstance(program.constants, Blank):
        fields[BLANK] = to_fields(program.constants, _BLANK_FIELDS)
    bodies: dict[str, bytes] = {raw.field: raw.write(program) for raw in RAW}
    bodies[METADATA] = to_json(fields).encode("ascii")
    return b"".join(_FILE.pieces(bodies))


def loads(data: bytes) -> Program:
    """Read a program from the bytes of a file and check it. Raises ProgramError."""
    bodies = _FILE.bodies(data)
    raw = {section.field: section.read(bodies[section.field]) for section in RAW}
    metadata = _metadata(bytes(bodies[METADATA]))
    if isinstance(metadata, dict) and BLANK in metadata:
        if raw["constants"]:
            raise ProgramError(f"section {METADATA}: {BLANK} stands beside constants that are there")
        raw["constants"] = Blank(**from_fields(Blank, metadata.pop(BLANK), _BLANK_FIELDS))
    program = Program(**raw, **from_fields(Program, metadata, PLAIN_FIELDS))
    validate(program, decode_all(program.code))
    return program


def _metadata(text: bytes) -> Any:
    """Parse the metadata section to plain values."""
    try:
        if len(text) > LARGEST_METADATA_BYTES:
            raise ProgramError(f"{len(text)} bytes; there may be {LARGEST_METADATA_BYTES}")
        return from_json(text.decode("ascii"))
    except UnicodeDecodeError as fault:
        raise ProgramError(f"section {METADATA}: byte {fault.start} is not ASCII") from None
    except ProgramError as fault:
        raise ProgramError(f"section {METADATA}: {fault}") from None
