"""Conversion of dataclasses to plain JSON values and back, with every value checked against its annotation.

Program files and assembly texts describe tensors, layers and buffers by the dataclasses of `program`, `tensor` and
`elements`. A new field there is written, read and checked without a change here. A value from outside becomes an
object only when all of it matches the annotations.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from npusim.isa.base.elements import is_element
from npusim.isa.base.elements import names as element_names
from npusim.isa.base.errors import HardwareError, ProgramError, nearest
from npusim.isa.base.plain_values import (
    Codec,
    Misfit,
    at,
    limited,
    one_of,
    read_either_number,
    read_integer,
    read_number,
    read_signed,
    read_string,
    read_table,
    read_truth,
    shown,
    unchanged,
    write_either_number,
    write_integer,
    write_number,
    write_table,
)
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import from_dict, to_dict
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import LAYER_UNITS, Layer

Record = TypeVar("Record")

MOST_DIMENSIONS = 16
LARGEST_TENSOR_BYTES = 1 << 40

SIGNED_FIELDS = frozenset({(Quantization, "zero_points")})
"""Fields whose integers may be negative; all others are sizes, counts, addresses and indices."""


def to_plain(value: Any) -> dict[str, Any]:
    """Convert a dataclass to a JSON object. Raises ProgramError for a value that its annotation does not allow."""
    return to_fields(value, [field.name for field in dataclasses.fields(value)])


def to_fields(value: Any, names: list[str]) -> dict[str, Any]:
    """Convert the fields `names` of a dataclass to a JSON object; fields with their default value are left out."""
    kind: Any = type(value)
    plain = {}
    for field in dataclasses.fields(kind):
        item = getattr(value, field.name)
        if field.name not in names or field.default == item:
            continue
        codec = field_codec(kind, field.name)
        try:
            plain[field.name] = codec.write(item)
            codec.read(plain[field.name])  # ensures that what is written can be read again
        except Misfit as fault:
            raise ProgramError(fault.below(field.name).located) from None
    return plain


def from_fields(kind: type, values: object, names: list[str], *, complete: bool = True) -> dict[str, Any]:
    """Return the constructor arguments of `kind` that a JSON object gives; only `names` are allowed.

    Raises ProgramError with the path of the first unknown, wrong or (if the object must be `complete`) missing field.
    """
    try:
        return _read_fields(kind, values, names, complete)
    except Misfit as fault:
        raise ProgramError(fault.located) from None


def from_plain(kind: type[Record], values: object) -> Record:
    """Convert a JSON object to a dataclass. Raises ProgramError with the path of the first wrong field."""
    annotation: Any = kind
    try:
        result: Record = codec(annotation).read(values)
        return result
    except Misfit as fault:
        raise ProgramError(fault.located) from None


@cache
def codec(annotation: Any) -> Codec:
    """Return the codec of an annotation. Raises TypeError for one that no record may use."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _dataclass_codec(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        number, limits = arguments
        return limited(codec(number), limits, number is int)
    if origin is Literal:
        return Codec(unchanged, one_of(arguments))
    if origin in (Union, types.UnionType):
        return _union_codec(tuple(kind for kind in arguments if kind is not type(None)), len(arguments))
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _tuple_codec(codec(arguments[0]))
    if origin is tuple:
        return _fixed_tuple_codec(tuple(codec(argument) for argument in arguments))
    if origin is Mapping and arguments == (str, Any):
        return Codec(write_table, read_table)
    raise TypeError(f"a record cannot hold {annotation}")


@cache
def field_codec(kind: type, name: str) -> Codec:
    """Return the codec of one field of a dataclass."""
    if (kind, name) in SIGNED_FIELDS:
        return _tuple_codec(Codec(write_integer, read_signed))
    return codec(_annotations(kind)[name])


@cache
def _annotations(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _dataclass_codec(kind: type) -> Codec:
    names = [field.name for field in dataclasses.fields(kind)]
    writers = [
        (member.name, member.default, field_codec(kind, member.name).write)
        for member in dataclasses.fields(kind)
    ]
    check = _CHECKS.get(kind)

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise Misfit(f"{type(value).__name__} is not a {kind.__name__}")
        plain = {}
        for name, default, writer in writers:
            item = getattr(value, name)
            if item == default:
                continue
            try:
                plain[name] = writer(item)
            except Misfit as fault:
                raise fault.below(name) from None
        return plain

    def read(value: Any) -> Any:
        result = kind(**_read_fields(kind, value, names))
        if check is not None:
            check(result)
        return result

    return Codec(write, read)


@cache
def _readers(kind: type, names: tuple[str, ...]) -> tuple[dict[str, Callable[[Any], Any]], list[str]]:
    """Return the reader of each field, and the fields that have no default."""
    fields = [field for field in dataclasses.fields(kind) if field.name in names]
    missing = dataclasses.MISSING
    needed = [item.name for item in fields if item.default is missing and item.default_factory is missing]
    return {item.name: field_codec(kind, item.name).read for item in fields}, needed


def _read_fields(kind: type, values: object, names: list[str], complete: bool = True) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise Misfit(f"{shown(values)} is not a table of {', '.join(names)}")
    readers, needed = _readers(kind, tuple(names))
    result = {}
    for key, value in values.items():
        reader = readers.get(key)
        if reader is None:
            near = nearest(key, names)
            hint = f"did you mean {near}?" if near else f"known here: {', '.join(names)}"
            raise Misfit(f"unknown field, {hint}").below(key)
        try:
            result[key] = reader(value)
        except Misfit as fault:
            raise fault.below(key) from None
    for name in needed:
        if complete and name not in result:
            raise Misfit("is missing").below(name)
    return result


def _tuple_codec(inner: Codec) -> Codec:
    def write(value: Any) -> list[Any]:
        if not isinstance(value, tuple | list):
            raise Misfit(f"{shown(value)} is not a list")
        return [at(index, inner.write, item) for index, item in enumerate(value)]

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Misfit(f"{shown(value)} is not a list")
        try:
            return tuple([inner.read(item) for item in value])
        except Misfit:
            return tuple([at(index, inner.read, item) for index, item in enumerate(value)])

    return Codec(write, read)


def _union_codec(kinds: tuple[Any, ...], choices: int) -> Codec:
    """Return the codec of an optional type, or of `int | float` with or without None.

    Integers stay integers and may take all 64 bits.
    """
    if kinds == (int, float):
        inner = Codec(write_either_number, read_either_number)
    elif len(kinds) == 1:
        inner = codec(kinds[0])
    else:
        raise TypeError(f"a record cannot hold one of {kinds}")
    if len(kinds) == choices:
        return inner
    return Codec(
        lambda value: None if value is None else inner.write(value),
        lambda value: None if value is None else inner.read(value),
    )


def _fixed_tuple_codec(entries: tuple[Codec, ...]) -> Codec:
    def each(value: Any, functions: list[Callable[[Any], Any]]) -> list[Any]:
        if not isinstance(value, tuple | list):
            raise Misfit(f"{shown(value)} is not a list")
        if len(value) != len(functions):
            raise Misfit(f"{len(value)} entries; there must be {len(functions)}")
        numbered = enumerate(zip(functions, value, strict=True))
        return [at(index, function, item) for index, (function, item) in numbered]

    writers, readers = [entry.write for entry in entries], [entry.read for entry in entries]
    return Codec(lambda value: each(value, writers), lambda value: tuple(each(value, readers)))


def _write_hardware(value: Any) -> dict[str, Any]:
    return to_dict(value)


def _read_hardware(value: Any) -> Hardware:
    try:
        return from_dict(value, "")
    except HardwareError as fault:
        raise Misfit(str(fault).removeprefix(": ")) from None


def _check_quantization(value: Quantization) -> None:
    """Require as many zero points as scales, exactly one of each without an axis, and no negative scale."""
    if len(value.scales) != len(value.zero_points):
        raise Misfit(f"{len(value.scales)} scales with {len(value.zero_points)} zero points")
    if value.axis is None and len(value.scales) != 1:
        raise Misfit(f"{len(value.scales)} scales without an axis; there may be 1")
    for scale in value.scales:
        if scale < 0:
            raise Misfit(f"scale {scale} is negative")


def _check_layer(value: Layer) -> None:
    """Require a unit that reports know, shapes that tensors may have, and windows of a height and a width."""
    if value.unit not in LAYER_UNITS:
        raise Misfit(f"{shown(value.unit)} is not one of {', '.join(LAYER_UNITS)}").below("unit")
    for name in ("input_shapes", "output_shapes"):
        for position, shape in enumerate(getattr(value, name)):
            if len(shape) > MOST_DIMENSIONS:
                fault = Misfit(f"{len(shape)} dimensions; there may be {MOST_DIMENSIONS}")
                raise fault.below(position).below(name)
    for name in ("kernel", "stride"):
        sizes = getattr(value, name)
        if len(sizes) not in (0, 2) or 0 in sizes:
            raise Misfit(f"{list(sizes)[:3]} is no height and width from 1 on").below(name)


def _check_type(value: TensorType) -> None:
    """Require a known element type, a shape that memory can hold, and an axis inside the shape."""
    if not is_element(value.dtype):
        raise Misfit(f"{shown(value.dtype)} is not one of {', '.join(element_names())}").below("dtype")
    if len(value.shape) > MOST_DIMENSIONS:
        raise Misfit(f"{len(value.shape)} dimensions; there may be {MOST_DIMENSIONS}").below("shape")
    if value.spanned_bytes > LARGEST_TENSOR_BYTES:
        raise Misfit(f"{shown(list(value.shape))} is more than 2^40 bytes").below("shape")
    axis = None if value.quantization is None else value.quantization.axis
    if axis is not None and axis >= len(value.shape):
        raise Misfit(f"axis {axis} of a tensor of {len(value.shape)} dimensions").below("quantization")


_SCALARS: dict[Any, Codec] = {
    int: Codec(write_integer, read_integer),
    float: Codec(write_number, read_number),
    bool: Codec(unchanged, read_truth),
    str: Codec(unchanged, read_string),
    Hardware: Codec(_write_hardware, _read_hardware),
}

_CHECKS: dict[type, Callable[[Any], None]] = {
    Quantization: _check_quantization,
    TensorType: _check_type,
    Layer: _check_layer,
}
"""Checks that the annotations of a record cannot express."""
