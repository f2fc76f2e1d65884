"""Files of Paddle models: the messages of a program, and the parameters beside it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from npusim.base.extras import missing
from npusim.isa.base import user_file
from npusim.isa.base.elements import is_element
from npusim.isa.base.errors import FormatError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import quoted

_PACKAGE = "paddle.framework.proto"

_MESSAGES = {
    "Scalar": "type=1:int32 b=2:bool i=3:int64 r=4:double",
    "Attr": "name=1:string type=2:int32 i=3:int32 f=4:float s=5:bytes ints=6:int32* floats=7:float* strings=8:bytes*"
    " b=10:bool bools=11:bool* l=13:int64 longs=15:int64* float64s=16:double* float64=19:double scalar=20:Scalar",
    "Slot": "parameter=1:string arguments=2:string*",
    "OpDesc": "inputs=1:Slot* outputs=2:Slot* type=3:string attrs=4:Attr*",
    "TensorDesc": "data_type=1:int32 dims=2:int64*",
    "DenseTensor": "tensor=1:TensorDesc",
    "VarType": "type=1:int32 dense_tensor=3:DenseTensor",
    "VarDesc": "name=1:string type=2:VarType persistable=3:bool",
    "BlockDesc": "idx=1:int32 parent_idx=2:int32 vars=3:VarDesc* ops=4:OpDesc*",
    "Version": "version=1:int64",
    "ProgramDesc": "blocks=1:BlockDesc* version=4:Version",
}
"""Fields of each message, as name=number:type; "*" marks a repeated field."""

_FIELDS = "i f s ints floats strings b bools - l - longs float64s - - float64 scalar"
ATTRIBUTES = {number: name for number, name in enumerate(_FIELDS.split()) if name != "-"}
"""Field of `Attr` that holds the value, by the number of the attribute's type. Blocks and variables are left out,
because they are no plain values."""

SCALARS = {1: "b", 2: "i", 3: "r"}
"""Field of `Scalar` that holds the value, by the number of the scalar's type."""

_NAMES = "0=bool 1=int16 2=int32 3=int64 4=float16 5=float32 6=float64 20=uint8 21=int8 22=bfloat16 37=uint32 38=uint64"
ELEMENTS = {int(number): name for number, name in (word.split("=") for word in _NAMES.split())}
"""Element types by their numbers in files, under the names of npusim or numpy."""

DENSE_TENSOR = 7
"""Number of the variable type "dense tensor"; other variables (feed lists, readers) hold no data of the model."""


@cache
def messages() -> Mapping[str, Any]:
    """Return the classes of all messages by name. Raises FormatError without the package protobuf."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise FormatError(f"is a Paddle model; {missing('reading one', 'paddle')}") from None
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="npusim/paddle.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for word, number, kind in (text.replace("=", ":").split(":") for text in fields.split()):
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            added, kind = message.field.add(name=word, number=int(number), label=label), kind.rstrip("*")
            if kind in _MESSAGES:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()  # our own, because Paddle may be imported beside npusim
    pool.Add(file)
    types = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(type_) for name, type_ in types.items()}


PROGRAM = "__model__"
"""The name of the program file of a model that is a folder."""
SUFFIX, PARAMETERS = ".pdmodel", ".pdiparams"

_MOST_LEVELS, _MOST_DESCRIPTION = 16, 1 << 12
"""Limits for a damaged file: levels of sequences, and bytes of a tensor's description (element type and sizes)."""


def parameters(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Return the parameters of a program file by name. Raises FormatError if they are missing or damaged."""
    if not names:
        return {}
    wanted = ("__params__", "params") if path.name == PROGRAM else (path.with_suffix(PARAMETERS).name,)
    for file in map(path.with_name, wanted):
        if file.is_file():
            return _tensors(file, sorted(names))  # in the order of their names, because the file has none
    if path.name != PROGRAM:
        raise FormatError(f"has {len(names)} parameters, and no {wanted[0]} is next to it; put it there")
    arrays: dict[str, Array] = {}
    for name in names:
        file = path.with_name(name) if name not in ("", ".", "..") and not set(name) & set("/\\\0") else path
        if file == path or file.is_symlink() or not file.is_file():
            raise FormatError(
                f"parameter {quoted(name)} has no file of its name, nor {wanted[0]}, beside the program"
            )
        arrays |= _tensors(file, [name])
    return arrays


def _tensors(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Return the tensors of a file by name. Raises FormatError unless they are as many as the names."""
    stream = _Stream(path)
    arrays = {name: stream.tensor(name) for name in names}
    if rest := len(stream.data) - stream.at:
        raise FormatError(
            f"{path.name}: {rest:,} bytes follow the {len(names)} tensors of the program; is it its file?"
        )
    return arrays


class _Stream:
    """A file of tensors, one behind the other, and the place up to which it is read."""

    def __init__(self, path: Path) -> None:
        self._name, self.at = path.name, 0
        self.data = user_file.mapped(path, user_file.MODEL, FormatError, path.name)

    def tensor(self, name: str) -> Array:
        """Read a tensor: version, levels of sequences, version, a description with its length, and the elements."""
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
        """Advance by some bytes, and return the position of the first one."""
        begin, self.at = self.at, self.at + count
        if self.at > (size := len(self.data)):
            raise FormatError(
                f"{where}: its bytes {begin:,} to {self.at:,} are not in the file, which has {size:,}"
            )
        return begin
