"""What a compiled model is in a `.nnc` container: its entries, each checked when it is read.

The entries are those of NNAdapter (`input_types` .. `cache_<i>_model_buffer`), and behind them what npusim needs to
give a restored model the same reports: names, gears, and what it was compiled by and for. Types and names are JSON,
indexes 32 bits with a sign, counts 64 bits, little endian; a model buffer is what the device's driver wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from npusim.frontends.nnadapter.codes import Layout, Precision
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.plain_json import from_json, to_json
from npusim.isa.base.plain_values import Between, Misfit, shown
from npusim.isa.base.tensor import TensorType
from npusim.isa.program.record import codec
from npusim.kernels.graph.graph import UNKNOWN
from npusim.nnadapter.cache import container
from npusim.nnadapter.cache.refusals import BadContent

LARGEST_TEXT_BYTES = 1 << 26
"""Parsed JSON takes several times its size; types and names of no model come near this."""

_LARGEST_SCALE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tensor that a piece reads from outside or leaves there."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class KeptPiece:
    """One piece of a compiled model: operations of one device.

    operations:     their names.
    input_indexes:  what each input is: -k-1 for input k of the model, else the number of a value between pieces.
    output_indexes: what each output is: -k-1 for output k of the model, else the number of a value between pieces.
    buffer:         the program, as the device's driver wrote it.
    """

    device: str
    operations: tuple[str, ...]
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    input_indexes: tuple[int, ...]
    output_indexes: tuple[int, ...]
    buffer: bytes


@dataclass(frozen=True, slots=True)
class KeptGear:
    """The pieces, in their order, for one choice of the inputs' shapes."""

    shapes: tuple[tuple[int, ...], ...]
    pieces: tuple[KeptPiece, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A compiled model as it is kept.

    token:           the name it is kept under.
    npusim_version, machine_digest, properties: what compiled it, for which devices, told what.
    inputs, outputs: of the model; a gear per choice of the shapes that its inputs may take.
    compile_seconds: how long it took.
    details:         what else the runtime wants to know again, as plain values.
    """

    token: str
    npusim_version: str
    machine_digest: str
    properties: str
    name: str
    inputs: tuple[OperandType, ...]
    outputs: tuple[OperandType, ...]
    gears: tuple[KeptGear, ...]
    compile_seconds: float
    details: Mapping[str, Any]

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices that its pieces are for, each once."""
        return tuple(dict.fromkeys(piece.device for gear in self.gears for piece in gear.pieces))


@dataclass(frozen=True, slots=True)
class _Type:
    """An operand type as JSON has it: names instead of numbers, and nothing that a model says of itself."""

    precision: str
    dimensions: tuple[Annotated[int, Between(-1, (1 << 31) - 1)], ...]
    scale: float | None = None
    zero_point: Annotated[int, Between(-(1 << 32), 1 << 32)] | None = None
    scales: tuple[float, ...] | None = None
    channel_dim: int | None = None
    layout: str = Layout.NCHW.name
    dynamic: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class _Gear:
    """A gear as JSON has it: its shapes, and how many of the pieces are its own."""

    shapes: tuple[tuple[int, ...], ...]
    pieces: int


_TEXTS = ("token", "npusim_version", "machine_digest", "properties", "name")
"""Entries that are fields of `Record` in UTF-8."""


def save(record: Record) -> bytes:
    """The container of a compiled model; the same record gives the same bytes."""
    pieces = [piece for gear in record.gears for piece in gear.pieces]
    entries = {
        "input_types": _json(_TYPES, [_written(each) for each in record.inputs]),
        "output_types": _json(_TYPES, [_written(each) for each in record.outputs]),
        "num_caches": len(pieces).to_bytes(8, "little"),
    }
    for number, piece in enumerate(pieces):
        entries |= {f"cache_{number}_{key}": value for key, value in _piece_entries(piece).items()}
    for key in _TEXTS:
        entries[key] = getattr(record, key).encode("utf-8")
    gears = [_Gear(gear.shapes, len(gear.pieces)) for gear in record.gears]
    entries["gears"] = _json(_GEARS, gears)
    entries["compile_seconds"] = np.array(record.compile_seconds, "<f8").tobytes()
    entries["details"] = _json(_DETAILS, record.details)
    return container.dumps(entries)


def _piece_entries(piece: KeptPiece) -> dict[str, bytes]:
    return {
        "device_name": piece.device.encode("utf-8"),
        "input_types": _json(_CROSSINGS, piece.inputs),
        "output_types": _json(_CROSSINGS, piece.outputs),
        "input_indexes": np.array(piece.input_indexes, "<i4").tobytes(),
        "output_indexes": np.array(piece.output_indexes, "<i4").tobytes(),
        "model_buffer": piece.buffer,
        "operations": _json(_NAMES, piece.operations),
    }


def load(data: bytes) -> Record:
    """The compiled model in a container.

    Raises `CacheRefused` for one that is damaged, or whose entries break a rule; what a model buffer holds is for the
    device's driver to judge.
    """
    entries = _Entries(container.loads(data))
    inputs, outputs = entries.types("input_types"), entries.types("output_types")
    count = entries.number("num_caches")
    pieces = [_piece(entries, f"cache_{number}_") for number in entries.counted(count, "num_caches")]
    record = Record(
        **{key: entries.text(key) for key in _TEXTS},
        inputs=inputs,
        outputs=outputs,
        gears=_gears(entries.json("gears", _GEARS), pieces),
        compile_seconds=entries.seconds("compile_seconds"),
        details=entries.json("details", _DETAILS),
    )
    entries.require_none_left()
    for fault in _faults(record):
        raise BadContent(fault)
    return record


def _piece(entries: _Entries, prefix: str) -> KeptPiece:
    return KeptPiece(
        entries.text(f"{prefix}device_name"),
        entries.json(f"{prefix}operations", _NAMES),
        entries.json(f"{prefix}input_types", _CROSSINGS),
        entries.json(f"{prefix}output_types", _CROSSINGS),
        entries.indexes(f"{prefix}input_indexes"),
        entries.indexes(f"{prefix}output_indexes"),
        entries.take(f"{prefix}model_buffer"),
    )


def _gears(gears: Sequence[_Gear], pieces: Sequence[KeptPiece]) -> tuple[KeptGear, ...]:
    said = sum(gear.pieces for gear in gears)
    if said != len(pieces) or not gears:
        raise BadContent(f"gears: {len(gears)} with {said} pieces, num_caches says {len(pieces)}")
    made, begin = [], 0
    for gear in gears:
        made.append(KeptGear(gear.shapes, tuple(pieces[begin : begin + gear.pieces])))
        begin += gear.pieces
    return tuple(made)


class _Entries:
    """Entries of a container, each taken once; what is missing or of another kind raises BadContent."""

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

    def indexes(self, key: str) -> tuple[int, ...]:
        value = self.take(key)
        if len(value) % 4:
            raise BadContent(f"entry {key}: has {len(value)} bytes, must have 4 per index")
        return tuple(np.frombuffer(value, "<i4").tolist())

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
        return tuple(_read(each, f"entry {key}: [{number}]") for number, each in enumerate(kept))

    def counted(self, count: int, key: str) -> Iterator[int]:
        """0 to count - 1, as long as there are entries; a count of 2^64 takes no time."""
        if count > len(self._entries):
            raise BadContent(f"entry {key}: is {count}, there are {len(self._entries)} entries more")
        return iter(range(count))

    def require_none_left(self) -> None:
        for key in self._entries:
            raise BadContent(f"entry {shown(key)} is not known")


def _json(annotation: Any, value: Any) -> bytes:
    return to_json(codec(annotation).write(value)).encode("ascii")


_TYPES = tuple[_Type, ...]
_CROSSINGS = tuple[Crossing, ...]
_GEARS = tuple[_Gear, ...]
_NAMES = tuple[str, ...]
_DETAILS = Mapping[str, Any]


def _written(type_: OperandType) -> _Type:
    return _Type(
        type_.precision.name,
        tuple(type_.dimensions),
        type_.scale,
        type_.zero_point,
        None if type_.scales is None else tuple(type_.scales),
        type_.channel_dim,
        type_.layout.name,
        tuple(tuple(gear) for gear in type_.dynamic),
    )


def _read(kept: _Type, where: str) -> OperandType:
    """An operand type of the model's inputs or outputs. Raises BadContent.

    It may be one that only other doors have, such as 8 bits with a sign and a zero point.
    """
    for kind, name in ((Precision, kept.precision), (Layout, kept.layout)):
        if name not in kind.__members__:
            raise BadContent(f"{where}: {shown(name)} is no {kind.__name__.lower()}")
    for scale in (*(kept.scales or ()), *(() if kept.scale is None else (kept.scale,))):
        if not 0 < scale <= _LARGEST_SCALE:
            raise BadContent(f"{where}: scale is {scale}, must be above 0 and finite as float32")
    for gear in kept.dynamic:
        if not _fits(gear, kept.dimensions):
            raise BadContent(f"{where}: shape {list(gear)} does not fit {list(kept.dimensions)}")
    return OperandType(
        Precision[kept.precision],
        kept.dimensions,
        kept.scale,
        kept.zero_point,
        kept.scales,
        kept.channel_dim,
        Layout[kept.layout],
        kept.dynamic,
    )


def _fits(shape: Sequence[int], dimensions: Sequence[int]) -> bool:
    """Whether a shape is one that dimensions allow, of which those below 0 are open."""
    return len(shape) == len(dimensions) and all(
        said in (UNKNOWN, size) for said, size in zip(dimensions, shape, strict=True)
    )


def _faults(record: Record) -> Iterator[str]:
    """What does not fit together between the entries of a model."""
    for number, gear in enumerate(record.gears):
        where = f"gear {number}: " if len(record.gears) > 1 else ""
        if len(gear.shapes) != len(record.inputs):
            yield f"{where}shapes of {len(gear.shapes)} inputs, the model has {len(record.inputs)}"
        for shape, type_ in zip(gear.shapes, record.inputs, strict=True):
            if not _fits(shape, type_.dimensions):
                yield f"{where}shape {list(shape)} of an input that is {type_.words()}"
        values: dict[int, TensorType] = {}
        for place, piece in enumerate(gear.pieces):
            yield from _piece_faults(record, gear, piece, f"{where}piece {place}", values)
        for output in range(len(record.outputs)):
            if -output - 1 not in values:
                yield f"{where}no piece computes output {output} of the model"


def _piece_faults(
    record: Record, gear: KeptGear, piece: KeptPiece, where: str, values: dict[int, TensorType]
) -> Iterator[str]:
    """values: what pieces before it left, by index; learns what it leaves."""
    for word, ends, indexes in (
        ("input", piece.inputs, piece.input_indexes),
        ("output", piece.outputs, piece.output_indexes),
    ):
        if len(ends) != len(indexes):
            yield f"{where}: {len(indexes)} {word} indexes for {len(ends)} {word}s"
    for end, index in zip(piece.inputs, piece.input_indexes, strict=True):
        if index >= 0 and values.get(index) != end.type:
            yield f"{where}: input {shown(end.name)} is value {index}, which no piece before it leaves in this type"
        if index < 0 and not -index <= len(record.inputs):
            yield f"{where}: input {shown(end.name)} is input {-index - 1} of a model with {len(record.inputs)}"
        if index < 0 and gear.shapes[-index - 1] != end.type.shape:
            yield f"{where}: input {shown(end.name)} has shape {list(end.type.shape)}, not that of its gear"
    for end, index in zip(piece.outputs, piece.output_indexes, strict=True):
        if index in values:
            yield f"{where}: output {shown(end.name)} is computed twice"
        if index < 0 and not -index <= len(record.outputs):
            yield f"{where}: output {shown(end.name)} is output {-index - 1} of a model with {len(record.outputs)}"
        values[index] = end.type
