"""Tables of a FlatBuffer, read by the place of their fields and never outside the file.

A table begins with the distance back to its vtable; that holds two lengths and then, for each field in the order
of the schema, where in the table its value is, 0 if it has its default. Strings, vectors and other tables are
distances forward from where they are referred to. Source: the FlatBuffers internals document.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OFFSET_BYTES = 4
_VTABLE_HEAD_BYTES = 4

_UINT16, _UINT32, _INT32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")
_NUMBERS = {code: struct.Struct(f"<{code}") for code in "bB?iIQf"}


_EMPTY = struct.pack("<HHi", 4, 4, 4)
"""A table at byte 4 whose vtable, at byte 0, has no entry."""


class Field(NamedTuple):
    """A field of a table: its number, and how to read it.

    code: a number's code in the module struct, a vector's element type in numpy; of strings and tables nothing.
    """

    number: int
    code: str = ""
    default: int | float = 0


Fields = Mapping[str, Field]


class Table:
    """One table. Whatever leads out of the data raises one of the exceptions of struct, numpy or indexing."""

    __slots__ = ("_data", "_fields", "_vtable", "_vtable_bytes", "position")

    def __init__(self, data: bytes, position: int, fields: Fields) -> None:
        self._data = data
        self._fields = fields
        self._vtable = -1
        self._vtable_bytes = 0
        self.position = position

    @classmethod
    def root(cls, data: bytes, fields: Fields) -> Table:
        """The table that the first bytes of a file lead to."""
        return cls(data, _UINT32.unpack_from(data)[0], fields)

    @classmethod
    def empty(cls, fields: Fields) -> Table:
        """A table in which every field has its default."""
        return cls(_EMPTY, 4, fields)

    def number(self, name: str) -> Any:
        """A number or truth value; its default where the table has none."""
        field = self._fields[name]
        at = self._place(field)
        return _NUMBERS[field.code].unpack_from(self._data, at)[0] if at else field.default

    def text(self, name: str) -> bytes | None:
        """A string, not decoded."""
        start, count = self.span(name)
        return self._data[start : start + count] if start else None

    def table(self, name: str, fields: Fields) -> Table | None:
        """The table that a field refers to."""
        at = self._place(self._fields[name])
        return Table(self._data, self._target(at), fields) if at else None

    def count(self, name: str) -> int:
        """The length of a vector, 0 where there is none."""
        return self.span(name)[1]

    def tables(self, name: str, fields: Fields) -> list[Table]:
        """A vector of tables; the caller has looked at its `count`."""
        start, count = self.span(name)
        data = self._data
        return [
            Table(data, self._target(at), fields)
            for at in range(start, start + OFFSET_BYTES * count, OFFSET_BYTES)
        ]

    def vector(self, name: str) -> NDArray[Any] | None:
        """A vector of numbers as a view of the data, None where there is none."""
        start, count = self.span(name)
        return np.frombuffer(self._data, self._fields[name].code, count, start) if start else None

    def span(self, name: str) -> tuple[int, int]:
        """Where the elements of a vector or the bytes of a string begin, and how many there are; (0, 0) for none."""
        at = self._place(self._fields[name])
        if not at:
            return 0, 0
        start = self._target(at)
        return start + OFFSET_BYTES, int(_UINT32.unpack_from(self._data, start)[0])

    def _target(self, at: int) -> int:
        return at + int(_UINT32.unpack_from(self._data, at)[0])

    def _place(self, field: Field) -> int:
        """The position of a field's value, 0 where the table has none."""
        if self._vtable < 0:
            self._vtable = self.position - _INT32.unpack_from(self._data, self.position)[0]
            if self._vtable < 0:
                raise IndexError("the vtable begins before the data")
            self._vtable_bytes = _UINT16.unpack_from(self._data, self._vtable)[0]
        entry = _VTABLE_HEAD_BYTES + 2 * field.number
        if entry >= self._vtable_bytes:
            return 0
        distance = _UINT16.unpack_from(self._data, self._vtable + entry)[0]
        return self.position + distance if distance else 0
