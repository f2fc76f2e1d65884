"""Parameters of Paddle models: streams of tensors, one file for all or one for each."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from npusim.frontends.paddle.descriptor import ELEMENTS, messages
from npusim.isa.base import user_file
from npusim.isa.base.elements import is_element
from npusim.isa.base.errors import FormatError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.names import quoted

PROGRAM = "__model__"
"""The program of a model that is a folder."""
SUFFIX, PARAMETERS = ".pdmodel", ".pdiparams"

_MOST_LEVELS, _MOST_DESCRIPTION = 16, 1 << 12
"""Levels of sequences, and bytes of the description of a tensor: an element type and its sizes."""


def parameters(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Return the parameters of a program file by name. Raises FormatError where they are missing or damaged."""
    if not names:
        return {}
    wanted = ("__params__", "params") if path.name == PROGRAM else (path.with_suffix(PARAMETERS).name,)
    for each in (path.with_name(name) for name in wanted):
        if each.is_file():
            return _tensors(each, sorted(names))  # in the order of their names, which the file does not say
    if path.name != PROGRAM:
        raise FormatError(f"has {len(names)} parameters, and no {wanted[0]} lies beside it; put it there")
    found: dict[str, Array] = {}
    for name in names:
        each = path.with_name(name) if name not in ("", ".", "..") and not set(name) & set("/\\\0") else path
        if each == path or each.is_symlink() or not each.is_file():
            raise FormatError(
                f"parameter {quoted(name)} has no file of its name, nor {wanted[0]}, beside the program"
            )
        found |= _tensors(each, [name])
    return found


def _tensors(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """The tensors of a file, which are to be as many as the names."""
    stream = _Stream(path)
    found = {name: stream.tensor(name) for name in names}
    if rest := len(stream.data) - stream.at:
        raise FormatError(
            f"{path.name}: {rest:,} bytes follow the {len(names)} tensors of the program; is it its file?"
        )
    return found


class _Stream:
    """A file of tensors, one behind the other."""

    def __init__(self, path: Path) -> None:
        self._name, self.at = path.name, 0
        self.data = user_file.mapped(path, user_file.MODEL, FormatError, path.name)

    def tensor(self, name: str) -> Array:
        """A version, levels of sequences, a version, a description with its length, and the elements."""
        where = f"{self._name}: tensor {quoted(name)}"
        version, levels = self._numbers("<IQ", where)
        for _ in range(levels if levels <= _MOST_LEVELS and not version else 0):
            self._skip(self._numbers("<Q", where)[0], where)
        second, length = self._numbers("<Ii", where)
        if version or second or levels > _MOST_LEVELS or not 0 < length <= _MOST_DESCRIPTION:
            raise FormatError(
                f"{where} begins as no tensor does (version {version}, {levels} levels, {length} bytes)"
            )
        begin, description = self._skip(length, where), messages()["TensorDesc"]()
        try:
            description.ParseFromString(self.data[begin : self.at])
        except Exception as fault:  # protobuf has several errors of its own
            raise FormatError(f"{where}: its description is damaged ({str(fault)[:80]})") from None
        dtype, dims = ELEMENTS.get(description.data_type, f"type {description.data_type}"), description.dims
        if not is_element(dtype) or min(dims, default=0) < 0:
            raise FormatError(
                f"{where} has elements of {dtype} and shape {list(dims)[:8]}, which npusim lacks"
            )
        begin = self._skip(prod(dims) * np.dtype(dtype).itemsize, where)
        flat = np.frombuffer(self.data, np.dtype(dtype).newbyteorder("<"), prod(dims), begin)
        return np.ascontiguousarray(flat.reshape(tuple(dims)), dtype)

    def _numbers(self, form: str, where: str) -> tuple[int, ...]:
        return struct.unpack_from(form, self.data, self._skip(struct.calcsize(form), where))

    def _skip(self, count: int, where: str) -> int:
        """Go on by so many bytes, and return where they begin."""
        begin, self.at = self.at, self.at + count
        if self.at > (size := len(self.data)):
            raise FormatError(
                f"{where}: its bytes {begin:,} to {self.at:,} are not in the file, which has {size:,}"
            )
        return begin
