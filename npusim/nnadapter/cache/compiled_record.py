"""The entries of a compiled model in a `.nnc` container, and the checks of a model that is read.

The entries are those of NNAdapter (`input_types` .. `cache_<i>_model_buffer`) and behind them what npusim needs to give
a restored model the same reports: names, gears, what compiled it and for which devices. Types and names are JSON,
indexes are int32, counts 64 bits, little endian. A model buffer is what the device's driver wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Annotated, Any

import numpy as np

from npusim.frontends.nnadapter.nnadapter_codes import Layout, Lifetime, Precision
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import Between, Misfit, from_json, shown, to_json
from npusim.isa.base.tensor import TensorType
from npusim.isa.program.record import codec
from npusim.kernels.graph.inference import fits
from npusim.nnadapter.cache.compiled import CompiledGear, CompiledPiece, Crossing
from npusim.nnadapter.cache.nnc_container import BadContent, read_cache, write_cache

LARGEST_TEXT_BYTES = 1 << 26
"""Largest JSON entry that is parsed, because parsing takes several times its size; no model comes near this."""

Ends = tuple[bytes, bytes]
"""The entries input_indexes and output_indexes of a piece."""

Values = dict[int, TensorType]
"""The types of tensors by number."""

_LARGEST_SCALE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Record:
    """A compiled model as it is cached.

    token:           the name under which it is cached.
    npusim_version, machine_digest, properties: the compiler, the devices of the context, and their properties.
    gears:           one per choice of the input shapes; pieces have buffers, no programs.
    compile_seconds: how long compiling took.
    """

    token: str
    npusim_version: str
    machine_digest: str
    properties: str
    name: str
    inputs: tuple[OperandType, ...]
    outputs: tuple[OperandType, ...]
    gears: tuple[CompiledGear, ...]
    compile_seconds: float

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices that its pieces are for, each once."""
        return tuple(dict.fromkeys(piece.device for gear in self.gears for piece in gear.pieces))


@dataclass(frozen=True, slots=True)
class _Type:
    """An operand type in JSON, with names instead of numbers."""

    precision: str
    dimensions: tuple[Annotated[int, Between(-1, (1 << 31) - 1)], ...]
    scale: float | None = None
    zero_point: Annotated[int, Between(-(1 << 32), 1 << 32)] | None = None
    scales: tuple[float, ...] | None = None
    channel_dim: int | None = None
    layout: str = Layout.NCHW.name
    dynamic: tuple[tuple[int, ...], ...] = ()
    ranked: bool = True
    lifetime: str = Lifetime.TEMPORARY_VARIABLE.name
    zero_points: tuple[Annotated[int, Between(0, 1 << 32)], ...] | None = None


@dataclass(frozen=True, slots=True)
class _Gear:
    """A gear in JSON: the number of its pieces, and the numbers of its constants."""

    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    pieces: int
    constants: tuple[int, ...] = ()
    tries: int = 0


_ENUMERATIONS: Mapping[str, Any] = {"precision": Precision, "layout": Layout, "lifetime": Lifetime}
"""The members of an operand type that are names in JSON."""

_TYPES = tuple[_Type, ...]
_CROSSINGS = tuple[Crossing, ...]
_GEARS = tuple[_Gear, ...]
_NAMES = tuple[str, ...]

_TEXTS = ("token", "npusim_version", "machine_digest", "properties", "name")
"""Entries that are fields of `Record`, in UTF-8."""


# Writing


def save(record: Record) -> bytes:
    """Return the container of a compiled model; equal records give equal bytes. Raises BadContent as `load`."""
    require_sound(record)
    entries = {
        "input_types": _json(_TYPES, [_written(type_) for type_ in record.inputs]),
        "output_types": _json(_TYPES, [_written(type_) for type_ in record.outputs]),
        "num_caches": sum(len(gear.pieces) for gear in record.gears).to_bytes(8, "little"),
    }
    pieces = [(gear, piece) for gear in record.gears for piece in gear.pieces]
    for number, (gear, piece) in enumerate(pieces):
        entries |= {f"cache_{number}_{key}": value for key, value in _piece_entries(gear, piece).items()}
    for key in _TEXTS:
        entries[key] = getattr(record, key).encode("utf-8")
    gears = [
        _Gear(gear.inputs, gear.outputs, len(gear.pieces), tuple(gear.constants), gear.tries)
        for gear in record.gears
    ]
    entries["gears"] = _json(_GEARS, gears)
    for number, gear in enumerate(record.gears):
        entries |= {f"gear_{number}_constant_{key}": array.tobytes() for key, array in gear.constants.items()}
    entries["compile_seconds"] = np.array(record.compile_seconds, "<f8").tobytes()
    return write_cache(entries)


def _piece_entries(gear: CompiledGear, piece: CompiledPiece) -> dict[str, bytes]:
    return {
        "device_name": piece.device.encode("utf-8"),
        "input_types": _json(_CROSSINGS, piece.inputs),
        "output_types": _json(_CROSSINGS, piece.outputs),
        "input_indexes": _indexes(piece.inputs, gear.inputs),
        "output_indexes": _indexes(piece.outputs, gear.outputs),
        "model_buffer": piece.buffer,
        "kinds": _json(_NAMES, piece.kinds),
        "operations": _json(_NAMES, piece.operations),
    }


def _indexes(ends: Sequence[Crossing], of_model: Sequence[Crossing]) -> bytes:
    """Return the index of each tensor of a piece: -k-1 for input or output k of the model, otherwise its number."""
    places = {end.number: -place - 1 for place, end in reversed([*enumerate(of_model)])}
    return np.array([places.get(end.number, end.number) for end in ends], "<i4").tobytes()


def _json(annotation: Any, value: Any) -> bytes:
    return to_json(codec(annotation).write(value)).encode("ascii")


def _written(type_: OperandType) -> _Type:
    return _Type(**{field.name: _plain(getattr(type_, field.name)) for field in fields(_Type)})


def _plain(value: Any) -> Any:
    """Return a member of an operand type for JSON: enumerations as names, sequences as tuples."""
    if isinstance(value, Enum):
        return value.name
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


# Reading


def load(data: bytes) -> Record:
    """Return the compiled model in a container.

    Raises `CacheRefused` for a damaged container, an entry of another kind than its key says, and entries that do not
    fit each other. What a model buffer holds only the device's driver can check.
    """
    entries = _Entries(read_cache(data))
    inputs, outputs = entries.types("input_types"), entries.types("output_types")
    count = entries.number("num_caches")
    pieces = [_piece(entries, f"cache_{number}_") for number in entries.counted(count, "num_caches")]
    record = Record(
        **{key: entries.text(key) for key in _TEXTS},
        inputs=inputs,
        outputs=outputs,
        gears=_gears(entries, pieces),
        compile_seconds=entries.seconds("compile_seconds"),
    )
    entries.require_none_left()
    require_sound(record)
    return record


def _piece(entries: _Entries, prefix: str) -> tuple[CompiledPiece, Ends]:
    piece = CompiledPiece(
        entries.text(f"{prefix}device_name"),
        entries.json(f"{prefix}kinds", _NAMES),
        entries.json(f"{prefix}operations", _NAMES),
        entries.json(f"{prefix}input_types", _CROSSINGS),
        entries.json(f"{prefix}output_types", _CROSSINGS),
        entries.take(f"{prefix}model_buffer"),
    )
    return piece, (entries.take(f"{prefix}input_indexes"), entries.take(f"{prefix}output_indexes"))


def _gears(entries: _Entries, pieces: Sequence[tuple[CompiledPiece, Ends]]) -> tuple[CompiledGear, ...]:
    gears: Sequence[_Gear] = entries.json("gears", _GEARS)
    count = sum(gear.pieces for gear in gears)
    if count != len(pieces) or not gears:
        raise BadContent(f"gears: {len(gears)} with {count} pieces, num_caches says {len(pieces)}")
    compiled, begin = list[CompiledGear](), 0
    for number, gear in enumerate(gears):
        own = pieces[begin : begin + gear.pieces]
        for place, (piece, indexes) in enumerate(own, begin):
            if indexes != (_indexes(piece.inputs, gear.inputs), _indexes(piece.outputs, gear.outputs)):
                raise BadContent(f"piece {place}: its indexes are not those of its inputs and outputs")
        constants = {
            key: np.frombuffer(entries.take(f"gear_{number}_constant_{key}"), np.uint8)
            for key in gear.constants
        }
        compiled.append(
            CompiledGear(gear.inputs, gear.outputs, tuple(piece for piece, _ in own), constants, gear.tries)
        )
        begin += gear.pieces
    return tuple(compiled)


class _Entries:
    """The entries of a container, each taken once. A missing entry, or one of another kind, raises BadContent."""

    def __init__(self, entries: dict[str, bytes]) -> None:
        self._entries = entries

    def take(self, key: str) -> bytes:
        if key not in self._entries:
            raise BadContent(f"entry {key} is missing")
        return self._entries.pop(key)

    def text(self, key: str) -> str:
        try:
            return self.take(key).decode("utf-8")
        except UnicodeDecodeError as fault:
            raise BadContent(f"entry {key}: is not UTF-8 at byte {fault.start}") from None

    def number(self, key: str) -> int:
        return int.from_bytes(self._sized(key, 8), "little")

    def seconds(self, key: str) -> float:
        value = float(np.frombuffer(self._sized(key, 8), "<f8")[0])
        if not 0 <= value < np.inf:
            raise BadContent(f"entry {key}: is {value}, must be 0 or more")
        return value

    def _sized(self, key: str, size: int) -> bytes:
        value = self.take(key)
        if len(value) != size:
            raise BadContent(f"entry {key}: has {len(value)} bytes, must have {size}")
        return value

    def json(self, key: str, annotation: Any) -> Any:
        if len(self._entries.get(key, b"")) > LARGEST_TEXT_BYTES:
            raise BadContent(f"entry {key}: is larger than {LARGEST_TEXT_BYTES} bytes")
        try:
            return codec(annotation).read(from_json(self.text(key)))
        except ProgramError as fault:
            raise BadContent(f"entry {key}: {fault}") from None
        except Misfit as fault:
            raise BadContent(f"entry {key}: {fault.located}") from None

    def types(self, key: str) -> tuple[OperandType, ...]:
        kept: Sequence[_Type] = self.json(key, _TYPES)
        return tuple(_read_type(plain, f"entry {key}: [{number}]") for number, plain in enumerate(kept))

    def counted(self, count: int, key: str) -> Iterator[int]:
        """Yield 0 to count - 1. Checking the count first makes a count of 2**64 fail at once."""
        if count > len(self._entries):
            raise BadContent(f"entry {key}: is {count}, there are {len(self._entries)} entries more")
        return iter(range(count))

    def require_none_left(self) -> None:
        for key in self._entries:
            raise BadContent(f"entry {shown(key)} is not known")


def _read_type(kept: _Type, where: str) -> OperandType:
    """Return an operand type of the model's inputs or outputs. Raises BadContent.

    Types that only other front ends have, such as int8 with a zero point, are accepted.
    """
    for key, kind in _ENUMERATIONS.items():
        if getattr(kept, key) not in kind.__members__:
            raise BadContent(f"{where}: {shown(getattr(kept, key))} is no {key}")
    for scale in (*(kept.scales or ()), *(() if kept.scale is None else (kept.scale,))):
        if not 0 < scale <= _LARGEST_SCALE:
            raise BadContent(f"{where}: scale is {scale}, must be above 0 and finite as float32")
    for gear in kept.dynamic:
        if not fits(kept.dimensions, gear):
            raise BadContent(f"{where}: shape {list(gear)} does not fit {list(kept.dimensions)}")
    members = {field.name: getattr(kept, field.name) for field in fields(_Type)}
    for key, kind in _ENUMERATIONS.items():
        members[key] = kind[members[key]]
    return OperandType(**members | {"dimensions": list(kept.dimensions)})


# Checks


def require_sound(record: Record) -> None:
    """Raise BadContent for the first entries that do not fit each other: types, constants, and who writes a tensor."""
    for number, gear in enumerate(record.gears):
        for fault in _gear_faults(record, gear):
            raise BadContent(f"gear {number}: {fault}" if len(record.gears) > 1 else fault)
    shapes = [gear.shapes for gear in record.gears]
    if len(set(shapes)) < len(shapes):
        raise BadContent(f"gears: {len(shapes)} for {len(set(shapes))} choices of shapes")


def _gear_faults(record: Record, gear: CompiledGear) -> Iterator[str]:
    for word, ends, types in (
        ("input", gear.inputs, record.inputs),
        ("output", gear.outputs, record.outputs),
    ):
        if len(ends) != len(types):
            yield f"{len(ends)} {word}s, the model has {len(types)}"
        for end, type_ in zip(ends, types, strict=False):
            if not fits(type_.shape, end.type.shape):
                yield f"{word} {shown(end.name)} has shape {list(end.type.shape)}, the model has {type_.words()}"
    values: Values = {}
    for end in gear.inputs:
        yield from _left(end, values)
    constants: Values = {}
    for end in gear.outputs:
        if end.number in gear.constants:
            constants[end.number] = end.type
            size, wanted = (
                gear.constants[end.number].nbytes,
                end.type.elements * end.type.numpy_dtype.itemsize,
            )
            if size != wanted:
                yield f"constant {shown(end.name)} has {size} bytes, must have {wanted}"
    for place, piece in enumerate(gear.pieces):
        for fault in _piece_faults(piece, values, constants):
            yield f"piece {place}: {fault}"
    for end in gear.outputs:
        yield from _read(end, constants | values)
        yield from _counted(end, constants | values)


def _piece_faults(piece: CompiledPiece, values: Values, constants: Values) -> Iterator[str]:
    """Yield the faults of a piece, and add its outputs to `values`, the tensors written before it."""
    if len(piece.kinds) != len(piece.operations):
        yield f"{len(piece.kinds)} kinds for {len(piece.operations)} operations"
    if not piece.outputs:
        yield "leaves nothing"
    for end in piece.inputs:
        yield from _read(end, constants | values)
    for end in piece.outputs:
        yield from _left(end, values)


def _read(end: Crossing, values: Values) -> Iterator[str]:
    if values.get(end.number) != end.type:
        yield f"{shown(end.name)} is value {end.number}, which nothing before leaves in this type"


def _counted(end: Crossing, values: Values) -> Iterator[str]:
    """Yield the fault of the tensor that counts the valid rows of an output."""
    if end.counted is None:
        return
    counts = values.get(end.counted)
    if counts is None or counts.element.kind not in ("signed", "unsigned") or not end.type.shape:
        yield f"{shown(end.name)} has as many rows as value {end.counted} says, which cannot say it"


def _left(end: Crossing, values: Values) -> Iterator[str]:
    if end.number in values:
        yield f"{shown(end.name)} is value {end.number}, which is there already"
    values[end.number] = end.type
