"""The messages of Paddle's program files, built from a table of their fields for the package protobuf.

Source of numbers and types: PaddlePaddle/Paddle, `paddle/phi/core/framework/framework.proto`, whose fields the older
`paddle/fluid/framework/framework.proto` has too. Fields that say nothing about inference are left out; protobuf skips
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from npusim.base.extras import missing
from npusim.isa.base.errors import FormatError

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
    pool = descriptor_pool.DescriptorPool()  # one of our own: Paddle itself may be imported beside npusim
    pool.Add(file)
    kinds_of = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(kind) for name, kind in kinds_of.items()}
