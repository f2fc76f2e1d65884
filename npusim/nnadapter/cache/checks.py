"""Whether the entries of a compiled model fit each other: what reads a value, and who leaves it."""

from __future__ import annotations

from collections.abc import Iterator

from npusim.isa.base.plain_values import shown
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.inference import fits
from npusim.nnadapter.cache import record as kept
from npusim.nnadapter.cache.record import Crossing, KeptGear, KeptPiece, Record
from npusim.nnadapter.cache.refusals import BadContent

Values = dict[int, TensorType]
"""The types of the tensors that there are, by number."""


def load(data: bytes) -> Record:
    """The compiled model in a container, its entries fitting each other. Raises `CacheRefused`."""
    record = kept.load(data)
    require_sound(record)
    return record


def save(record: Record) -> bytes:
    """The container of a compiled model, which can be loaded again. Raises BadContent."""
    require_sound(record)
    return kept.save(record)


def require_sound(record: Record) -> None:
    """Raises BadContent for the first of what does not fit."""
    for number, gear in enumerate(record.gears):
        for fault in _gear_faults(record, gear):
            raise BadContent(f"gear {number}: {fault}" if len(record.gears) > 1 else fault)
    shapes = [tuple(end.type.shape for end in gear.inputs) for gear in record.gears]
    if len(set(shapes)) < len(shapes):
        raise BadContent(f"gears: {len(shapes)} for {len(set(shapes))} choices of shapes")


def _gear_faults(record: Record, gear: KeptGear) -> Iterator[str]:
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
            yield from _constant_faults(end, gear.constants[end.number])
    for place, piece in enumerate(gear.pieces):
        for fault in _piece_faults(piece, values, constants):
            yield f"piece {place}: {fault}"
    for end in gear.outputs:
        yield from _read(end, constants | values)
        yield from _counted(end, constants | values)


def _constant_faults(end: Crossing, data: bytes) -> Iterator[str]:
    wanted = end.type.elements * end.type.numpy_dtype.itemsize
    if len(data) != wanted:
        yield f"constant {shown(end.name)} has {len(data)} bytes, must have {wanted}"


def _piece_faults(piece: KeptPiece, values: Values, constants: Values) -> Iterator[str]:
    """values: what inputs and pieces before it left, by number; what it leaves comes to them."""
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
    """What says how many rows an output has."""
    if end.counted is None:
        return
    counts = values.get(end.counted)
    if counts is None or counts.element.kind not in ("signed", "unsigned") or not end.type.shape:
        yield f"{shown(end.name)} has as many rows as value {end.counted} says, which cannot say it"


def _left(end: Crossing, values: Values) -> Iterator[str]:
    if end.number in values:
        yield f"{shown(end.name)} is value {end.number}, which is there already"
    values[end.number] = end.type
