"""Dataclasses to plain JSON values and back, every value checked against its annotation.

What a program file and an assembly text say about tensors, layers and buffers is derived from the dataclasses
of `program`, `tensor` and `workload`: a field that is added there is written, read and checked without a line
here. A value from outside becomes an object only when all of it is what the annotations say.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite, prod
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from npusim.isa.base.errors import HardwareError, ProgramError
from npusim.isa.base.nearest import nearest
from npusim.isa.base.printable import short, shown
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import from_dict, to_dict
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import LAYER_UNITS, Layer

Record = TypeVar("Record")

LARGEST_INTEGER = (1 << 48) - 1
"""More than any memory or any operator's work; times and sums of such numbers stay inside 64 bits."""
DEEPEST_VALUE = 16
"""Most levels of lists and tables in a free value (the attributes of a host call)."""

DTYPES = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "bool"),
)
"""Element types that a tensor of a program may have."""
MOST_DIMENSIONS = 16
LARGEST_TENSOR_BYTES = 1 << 40

SIGNED_FIELDS = frozenset({(Quantization, "zero_points")})
"""Fields whose whole numbers may be negative; all others are sizes, counts, addresses and indices."""


class Misfit(Exception):
    """A value that is not what its place allows; `path` grows from the inside out."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.path: list[str] = []

    def below(self, key: object) -> Misfit:
        """The same fault seen from one level further out."""
        self.path.insert(0, f"[{key}]" if isinstance(key, int) else f".{short(str(key))}")
        return self


class Codec(NamedTuple):
    """How values of one annotation become plain values, and how plain values are checked and taken back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def to_plain(value: Any) -> dict[str, Any]:
    """A dataclass as a JSON object. Raises ProgramError for a value that its annotation does not allow."""
    return to_fields(value, [field.name for field in dataclasses.fields(value)])


def to_fields(value: Any, names: list[str]) -> dict[str, Any]:
    """The fields `names` of a dataclass as a JSON object; those that have their default are left out."""
    kind: Any = type(value)
    plain = {}
    for field in dataclasses.fields(kind):
        item = getattr(value, field.name)
        if field.name not in names or field.default == item:
            continue
        codec = field_codec(kind, field.name)
        try:
            plain[field.name] = codec.write(item)
            codec.read(plain[field.name])  # what is written can be read
        except Misfit as fault:
            raise ProgramError(_located(fault.below(field.name))) from None
    return plain


def from_fields(kind: type, values: object, names: list[str], *, complete: bool = True) -> dict[str, Any]:
    """The constructor arguments of `kind` that a JSON object gives; only `names` are known.

    Raises ProgramError that names the first unknown, wrong or (if the object must be `complete`) missing field
    by its path.
    """
    try:
        return _read_fields(kind, values, names, complete)
    except Misfit as fault:
        raise ProgramError(_located(fault)) from None


def from_plain(kind: type[Record], values: object) -> Record:
    """The dataclass of a JSON object. Raises ProgramError that names the first wrong field by its path."""
    annotation: Any = kind
    try:
        result: Record = codec(annotation).read(values)
        return result
    except Misfit as fault:
        raise ProgramError(_located(fault)) from None


@cache
def codec(annotation: Any) -> Codec:
    """The codec of an annotation. Raises TypeError for one that no record may use."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _dataclass_codec(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return Codec(_identity, _one_of(arguments))
    if origin in (Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
        inner = codec(next(each for each in arguments if each is not type(None)))
        return Codec(
            lambda value: None if value is None else inner.write(value),
            lambda value: None if value is None else inner.read(value),
        )
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _tuple_codec(codec(arguments[0]))
    if origin is Mapping and arguments == (str, Any):
        return Codec(_write_table, _read_table)
    raise TypeError(f"a record cannot hold {annotation}")


@cache
def field_codec(kind: type, name: str) -> Codec:
    """The codec of one field of a dataclass."""
    if (kind, name) in SIGNED_FIELDS:
        return _tuple_codec(Codec(_write_integer, _read_signed))
    return codec(_annotations(kind)[name])


@cache
def _annotations(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _dataclass_codec(kind: type) -> Codec:
    names = [field.name for field in dataclasses.fields(kind)]
    writers = [
        (each.name, each.default, field_codec(kind, each.name).write) for each in dataclasses.fields(kind)
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
    """How to read each field, and the fields that have no default."""
    fields = [field for field in dataclasses.fields(kind) if field.name in names]
    missing = dataclasses.MISSING
    needed = [each.name for each in fields if each.default is missing and each.default_factory is missing]
    return {each.name: field_codec(kind, each.name).read for each in fields}, needed


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
        return [_at(index, inner.write, item) for index, item in enumerate(value)]

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Misfit(f"{shown(value)} is not a list")
        try:
            return tuple([inner.read(item) for item in value])
        except Misfit:
            return tuple([_at(index, inner.read, item) for index, item in enumerate(value)])

    return Codec(write, read)


def _at(key: object, function: Callable[[Any], Any], value: Any) -> Any:
    """Apply `function`, with `key` in the path of a fault."""
    try:
        return function(value)
    except Misfit as fault:
        raise fault.below(key) from None


def _identity(value: Any) -> Any:
    return value


def _one_of(choices: tuple[Any, ...]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is str and value in choices:
            return value
        raise Misfit(f"{shown(value)} is not one of {', '.join(map(str, choices))}")

    return read


def _write_integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise Misfit(f"{shown(value)} is not a whole number")
    return int(value)


def _read_integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_INTEGER:
        raise Misfit(f"{shown(value)} is not a whole number from 0 to 2^48 - 1")
    return value


def _read_signed(value: Any) -> int:
    if type(value) is not int or not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise Misfit(f"{shown(value)} is not a whole number of 48 bits")
    return value


def _write_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise Misfit(f"{shown(value)} is not a number")
    return float(value)


def _read_number(value: Any) -> float:
    if type(value) is int and abs(value) <= LARGEST_INTEGER:
        return float(value)
    if type(value) is not float or not isfinite(value):
        raise Misfit(f"{shown(value)} is not a finite number")
    return value


def _read_text(value: Any) -> str:
    if type(value) is not str:
        raise Misfit(f"{shown(value)} is not text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{shown(value)} holds half of a surrogate pair, which is no text") from None
    return value


def _read_truth(value: Any) -> bool:
    if type(value) is not bool:
        raise Misfit(f"{shown(value)} is not true or false")
    return value


def _write_hardware(value: Any) -> dict[str, Any]:
    return to_dict(value)


def _read_hardware(value: Any) -> Hardware:
    try:
        return from_dict(value, "")
    except HardwareError as fault:
        raise Misfit(str(fault).removeprefix(": ")) from None


def _write_table(value: Any) -> Any:
    """A free table with the numbers of numpy made plain; everything else is judged by `_read_table`."""
    if isinstance(value, Mapping):
        return {key: _at(key, _write_table, item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_at(index, _write_table, item) for index, item in enumerate(value)]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise Misfit(f"a {type(value).__name__} is not a JSON value")


def _read_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit(f"{shown(value)} is not a table")
    _require_plain(value, DEEPEST_VALUE)
    return value


def _require_plain(value: Any, levels: int) -> None:
    """Raise Misfit unless `value` is plain JSON of at most that many levels, its numbers finite."""
    if isinstance(value, dict | list):
        if not levels:
            raise Misfit(f"lists and tables lie in each other more than {DEEPEST_VALUE} levels deep")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict):
                _read_text(key)
            try:
                _require_plain(item, levels - 1)
            except Misfit as fault:
                raise fault.below(key) from None
    elif isinstance(value, str):
        _read_text(value)
    elif isinstance(value, float):
        _read_number(value)
    elif (
        isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    ):  # an element of a tensor may have them all
        raise Misfit(f"{shown(value)} is not a whole number of 64 bits")
    elif value is not None and not isinstance(value, int):
        raise Misfit(f"a {type(value).__name__} is not a JSON value")


def _check_quantization(value: Quantization) -> None:
    """As many zero points as scales, positive scales, one of each unless there is an axis."""
    if len(value.scales) != len(value.zero_points):
        raise Misfit(f"{len(value.scales)} scales with {len(value.zero_points)} zero points")
    if value.axis is None and len(value.scales) != 1:
        raise Misfit(f"{len(value.scales)} scales without an axis; there may be 1")
    for scale in value.scales:
        if scale < 0:
            raise Misfit(f"scale {scale} is negative")


def _check_layer(value: Layer) -> None:
    """A unit that reports know, shapes that tensors may have, windows of a height and a width."""
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
    """A known element type, a shape that memory can hold, an axis inside the shape."""
    if value.dtype not in DTYPES:
        raise Misfit(f"{shown(value.dtype)} is not one of {', '.join(DTYPES)}").below("dtype")
    if len(value.shape) > MOST_DIMENSIONS:
        raise Misfit(f"{len(value.shape)} dimensions; there may be {MOST_DIMENSIONS}").below("shape")
    if prod(max(size, 1) for size in value.shape) * value.numpy_dtype.itemsize > LARGEST_TENSOR_BYTES:
        raise Misfit(f"{shown(list(value.shape))} is more than 2^40 bytes").below("shape")
    axis = None if value.quantization is None else value.quantization.axis
    if axis is not None and axis >= len(value.shape):
        raise Misfit(f"axis {axis} of a tensor of {len(value.shape)} dimensions").below("quantization")


_SCALARS: dict[Any, Codec] = {
    int: Codec(_write_integer, _read_integer),
    float: Codec(_write_number, _read_number),
    bool: Codec(_identity, _read_truth),
    str: Codec(_identity, _read_text),
    Hardware: Codec(_write_hardware, _read_hardware),
}

_CHECKS: dict[type, Callable[[Any], None]] = {
    Quantization: _check_quantization,
    TensorType: _check_type,
    Layer: _check_layer,
}
"""What the annotations of a record cannot say."""


def _located(fault: Misfit) -> str:
    path = "".join(fault.path).removeprefix(".")
    return f"{path}: {fault.text}" if path else fault.text
