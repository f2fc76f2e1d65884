"""What a compiled model is in a `.nnc` container: its entries, each checked when it is read.

The entries are those of NNAdapter (`input_types` .. `cache_<i>_model_buffer`), and behind them what npusim needs to
give a restored model the same reports: names, gears, and what it was compiled by and for. Types and names are JSON,
indexes 32 bits with a sign, counts 64 bits, little endian; a model buffer is what the device's driver wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from npusim.frontends.nnadapter.codes import Layout, Lifetime, Precision
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.plain_json import from_json, to_json
from npusim.isa.base.plain_values import Between, Misfit, shown
from npusim.isa.base.tensor import TensorType
from npusim.isa.program.record import codec
from npusim.kernels.graph.inference import fits
from npusim.nnadapter.cache import container
from npusim.nnadapter.cache.refusals import BadContent

LARGEST_TEXT_BYTES = 1 << 26
"""Parsed JSON takes several times its size; types and names of no model come near this."""

Ends = tuple[bytes, bytes]
"""The indexes of a piece's inputs and outputs, as they are written."""

_LARGEST_SCALE = float(np.finfo(np.float32).max)


Number = Annotated[int, Between(0, (1 << 31) - 1)]
"""Of a tensor: an index of 32 bits with a sign."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tensor at the edge of a piece or of the model; `number` is the same wherever the gear has it.

    counted: the number of the tensor whose sum says how many of its rows there are, if it has them for the most.
    """

    number: Number
    name: str
    type: TensorType
    counted: Number | None = None


@dataclass(frozen=True, slots=True)
class KeptPiece:
    """One piece of a compiled model: operations of one device.

    kinds, operations: their types and names.
    buffer:            the program, as the device's driver wrote it.
    """

    device: str
    kinds: tuple[str, ...]
    operations: tuple[str, ...]
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    buffer: bytes


@dataclass(frozen=True, slots=True)
class KeptGear:
    """The pieces, in their order, for one choice of the inputs' shapes.

    inputs, outputs: of the model; an output may be an input, or be there twice.
    constants:       the elements of outputs that are constants, by number.
    tries:           by cost, how many other partitions were timed to find this one.
    """

    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    pieces: tuple[KeptPiece, ...]
    constants: Mapping[int, bytes] = field(default_factory=dict)
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """A compiled model as it is kept.

    token:           the name it is kept under.
    npusim_version, machine_digest, properties: what compiled it, for which devices, told what.
    inputs, outputs: of the model; a gear per choice of the shapes that its inputs may take.
    compile_seconds: how long it took.
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

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices that its pieces are for, each once."""
        return tuple(dict.fromkeys(piece.device for gear in self.gears for piece in gear.pieces))


@dataclass(frozen=True, slots=True)
class _Type:
    """An operand type as JSON has it: names instead of numbers."""

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
    """A gear as JSON has it: how many of the pieces are its own, and the numbers of constants."""

    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    pieces: int
    constants: tuple[int, ...] = ()
    tries: int = 0


_TEXTS = ("token", "npusim_version", "machine_digest", "properties", "name")
"""Entries that are fields of `Record` in UTF-8."""


def save(record: Record) -> bytes:
    """The container of a compiled model; the same record gives the same bytes."""
    entries = {
        "input_types": _json(_TYPES, [_written(each) for each in record.inputs]),
        "output_types": _json(_TYPES, [_written(each) for each in record.outputs]),
        "num_caches": sum(len(gear.pieces) for gear in record.gears).to_bytes(8, "little"),
    }
    pieces = [(gear, piece) for gear in record.gears for piece in gear.pieces]
    for number, (gear, piece) in enumerate(pieces):
        entries |= {f"cache_{number}_{key}": value for key, value in _piece_entries(gear, piece).items()}
    for key in _TEXTS:
        entries[key] = getattr(record, key).encode("utf-8")
    gears = [_written_gear(gear) for gear in record.gears]
    entries["gears"] = _json(_GEARS, gears)
    for number, gear in enumerate(record.gears):
        entries |= {f"gear_{number}_constant_{key}": value for key, value in gear.constants.items()}
    entries["compile_seconds"] = np.array(record.compile_seconds, "<f8").tobytes()
    return container.write_cache(entries)


def _written_gear(gear: KeptGear) -> _Gear:
    return _Gear(gear.inputs, gear.outputs, len(gear.pieces), tuple(gear.constants), gear.tries)


def _piece_entries(gear: KeptGear, piece: KeptPiece) -> dict[str, bytes]:
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
    """What each end is: -k-1 for input or output k of the model, else its number."""
    places = {end.number: -place - 1 for place, end in reversed([*enumerate(of_model)])}
    return np.array([places.get(end.number, end.number) for end in ends], "<i4").tobytes()


def load(data: bytes) -> Record:
    """The compiled model in a container.

    Raises `CacheRefused` for one that is damaged, or an entry that is not what its place allows; whether entries fit
    each other, `npusim.nnadapter.cache.checks` says, and what a model buffer holds, the device's driver.
    """
    entries = _Entries(container.read_cache(data))
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
    return record


def _piece(entries: _Entries, prefix: str) -> tuple[KeptPiece, Ends]:
    """A piece, and what its indexes say that its inputs and outputs are."""
    piece = KeptPiece(
        entries.text(f"{prefix}device_name"),
        entries.json(f"{prefix}kinds", _NAMES),
        entries.json(f"{prefix}operations", _NAMES),
        entries.json(f"{prefix}input_types", _CROSSINGS),
        entries.json(f"{prefix}output_types", _CROSSINGS),
        entries.take(f"{prefix}model_buffer"),
    )
    return piece, (entries.take(f"{prefix}input_indexes"), entries.take(f"{prefix}output_indexes"))


def _gears(entries: _Entries, pieces: Sequence[tuple[KeptPiece, Ends]]) -> tuple[KeptGear, ...]:
    gears: Sequence[_Gear] = entries.json("gears", _GEARS)
    said = sum(gear.pieces for gear in gears)
    if said != len(pieces) or not gears:
        raise BadContent(f"gears: {len(gears)} with {said} pieces, num_caches says {len(pieces)}")
    made, begin = list[KeptGear](), 0
    for number, gear in enumerate(gears):
        own = pieces[begin : begin + gear.pieces]
        for place, (piece, indexes) in enumerate(own, begin):
            if indexes != (_indexes(piece.inputs, gear.inputs), _indexes(piece.outputs, gear.outputs)):
                raise BadContent(f"piece {place}: its indexes are not those of its inputs and outputs")
        constants = {key: entries.take(f"gear_{number}_constant_{key}") for key in gear.constants}
        made.append(
            KeptGear(gear.inputs, gear.outputs, tuple(piece for piece, _ in own), constants, gear.tries)
        )
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
        type_.ranked,
        type_.lifetime.name,
        None if type_.zero_points is None else tuple(type_.zero_points),
    )


def _read(kept: _Type, where: str) -> OperandType:
    """An operand type of the model's inputs or outputs. Raises BadContent.

    It may be one that only other doors have, such as 8 bits with a sign and a zero point.
    """
    for kind, name in ((Precision, kept.precision), (Layout, kept.layout), (Lifetime, kept.lifetime)):
        if name not in kind.__members__:
            raise BadContent(f"{where}: {shown(name)} is no {kind.__name__.lower()}")
    for scale in (*(kept.scales or ()), *(() if kept.scale is None else (kept.scale,))):
        if not 0 < scale <= _LARGEST_SCALE:
            raise BadContent(f"{where}: scale is {scale}, must be above 0 and finite as float32")
    for gear in kept.dynamic:
        if not fits(kept.dimensions, gear):
            raise BadContent(f"{where}: shape {list(gear)} does not fit {list(kept.dimensions)}")
    return OperandType(
        Precision[kept.precision],
        list(kept.dimensions),
        kept.scale,
        kept.zero_point,
        kept.scales,
        kept.channel_dim,
        Layout[kept.layout],
        kept.dynamic,
        Lifetime[kept.lifetime],
        kept.ranked,
        kept.zero_points,
    )
