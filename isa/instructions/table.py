"""The list of all instructions, and the encoding and decoding of programs.

Programs are encoded and decoded before every execution, so numpy handles all instructions of one class at a time, with
a column per field. The bits are those of `Instruction.encode` and `decode_as`. Faults are not described here: on any
fault one instruction is converted at a time, which gives the precise message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import ProgramError
from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.hardware.units import PRODUCERS, Unit
from npusim.isa.instructions.instruction import Instruction, decode_as, used_bits
from npusim.isa.instructions.word import WAIT_SPECS, WAITS, WORD_BYTES, FieldSpec, Waits

ROWS: tuple[tuple[int, Unit, str], ...] = (
    (0x01, Unit.FRONT_END, "control.Barrier"),
    (0x10, Unit.DMA0, "dma.Copy"),
    (0x11, Unit.DMA0, "dma.Unpack"),
    (0x13, Unit.DMA0, "dma.LoadWeights"),
    (0x12, Unit.DMA0, "gather.Gather"),
    (0x20, Unit.MAC, "mac.Convolve"),
    (0x21, Unit.MAC, "mac.Depthwise"),
    (0x22, Unit.MAC, "block_mac.BlockProduct"),
    (0x30, Unit.VECTOR, "elementwise.Binary"),
    (0x31, Unit.VECTOR, "windows.Pool"),
    (0x33, Unit.VECTOR, "vector.Convert"),
    (0x51, Unit.VECTOR, "vector.Unary"),
    (0x34, Unit.VECTOR, "vector.Lookup"),
    (0x35, Unit.VECTOR, "rows.Softmax"),
    (0x3B, Unit.VECTOR, "rows.UnitLength"),
    (0x36, Unit.VECTOR, "normalize.Normalize"),
    (0x38, Unit.VECTOR, "reduction.Reduce"),
    (0x3E, Unit.VECTOR, "cell.LstmCell"),
    (0x37, Unit.VECTOR, "grid.Select"),
    (0x39, Unit.VECTOR, "resize.Resize"),
    (0x58, Unit.MAC, "real_mac.RealConvolve"),
    (0x59, Unit.MAC, "real_mac.RealDepthwise"),
    (0x40, Unit.HOST, "control.Call"),
)
"""The opcode, the home unit, and the module and class of every instruction, in the order of the manual.

A module is imported when a program has one of its opcodes, because few programs use more than a third of them.
"""

_PLACES = {opcode: place for opcode, _, place in ROWS}


@cache
def row_of(opcode: int) -> type[Instruction]:
    """Return the instruction class of an opcode, from its module. Raises KeyError for an unknown opcode."""
    module, _, name = _PLACES[opcode].partition(".")
    row: type[Instruction] = getattr(import_module(f"npusim.isa.instructions.{module}"), name)
    return row


@cache
def all_instructions() -> tuple[type[Instruction], ...]:
    """Import every instruction module and return the classes, in the order of the manual."""
    return tuple(map(row_of, _PLACES))


@cache
def by_mnemonic() -> Mapping[str, type[Instruction]]:
    """Import every instruction module and return the classes by mnemonic, in the order of the manual."""
    return MappingProxyType({row.mnemonic: row for row in all_instructions()})


def decode(word: bytes | NDArray[np.uint8]) -> Instruction:
    """Decode one instruction word of WORD_BYTES bytes. Raises ProgramError on an unknown or invalid word."""
    data = bytes(word)
    if len(data) != WORD_BYTES or data[0] not in _PLACES:
        known = ", ".join(f"{opcode:#04x}" for opcode in sorted(_PLACES))
        problem = f"opcode {data[0]:#04x}" if len(data) == WORD_BYTES else f"{len(data)} bytes"
        raise ProgramError(f"instruction word: {problem} is unknown; {WORD_BYTES} bytes with opcodes {known}")
    return decode_as(row_of(data[0]), int.from_bytes(data, "little"))


def decode_all(code: NDArray[np.uint8]) -> list[Instruction]:
    """Decode a program's code. Raises ProgramError that names the first bad instruction by its position.

    The result is cached as long as the array exists if its bytes cannot change, so that further runs of the same
    program need not decode it again. `encode_all` puts its instructions into the same cache.
    """
    instructions = _DECODED.get(code)
    if instructions is None:
        instructions = tuple(_decoded(code))
        if cannot_change(code):
            _DECODED.put(code, instructions)
    return list(instructions)


_DECODED = IdentityCache[tuple[Instruction, ...]]()


def cannot_change(code: NDArray[np.uint8]) -> bool:
    """Return whether neither an array nor the buffer behind it is writable."""
    owner: Any = code
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return owner is None or isinstance(owner, bytes)


def decode_again(code: NDArray[np.uint8], known: NDArray[np.uint8], positions: NDArray[np.int64]) -> None:
    """Decode code that was copied from `known` and partly changed, for the cache of `decode_all`.

    Words that are still equal have the instructions of `known`; the others are decoded. Neither array may change.

    positions: for each word of `code`, the one of `known` that it was copied from.
    """
    changed = (code != known[positions]).any(axis=1)
    before = decode_all(known)
    instructions = [before[position] for position in positions.tolist()]
    places = np.flatnonzero(changed).tolist()
    for place, instruction in zip(places, _decoded(code[changed]), strict=True):
        instructions[place] = instruction
    _DECODED.put(code, tuple(instructions))


def _decoded(code: NDArray[np.uint8]) -> list[Instruction]:
    code = np.ascontiguousarray(code, np.uint8).reshape(-1, WORD_BYTES)
    decoded: dict[int, Instruction] = {}
    lanes = code.view("<u8")
    for opcode in sorted(set(code[:, 0].tolist())):
        positions = np.flatnonzero(code[:, 0] == opcode)
        rows = decode_rows(row_of(opcode), lanes[positions]) if opcode in _PLACES else None
        if rows is None:
            return _one_by_one(decode, list(code))
        decoded.update(zip(positions.tolist(), rows, strict=True))
    return [decoded[position] for position in range(len(code))]


def encode_all(
    instructions: Sequence[Instruction], waits: Sequence[Waits] | None = None
) -> NDArray[np.uint8]:
    """Encode instructions to a read-only array, uint8 [n, WORD_BYTES].

    waits: one entry per instruction that replaces its own waits; None keeps their own.

    Raises ProgramError that names the first bad instruction.
    """
    if waits is None:
        waits = [instruction.waits for instruction in instructions]
    code = np.zeros((len(instructions), WORD_BYTES), np.uint8)
    lanes = code.view("<u8")
    by_row: dict[type[Instruction], list[int]] = {}
    for position, instruction in enumerate(instructions):
        by_row.setdefault(type(instruction), []).append(position)
    for row, positions in by_row.items():
        words = encode_rows(
            row,
            [instructions[position] for position in positions],
            [waits[position] for position in positions],
        )
        if words is None:
            # Some value is out of range: encode one by one, which raises the error with the precise message.
            pairs = zip(instructions, waits, strict=True)
            _one_by_one(lambda pair: replace(pair[0], waits=pair[1]).encode(), list(pairs))
        lanes[positions] = words
    code.flags.writeable = False
    pairs = zip(instructions, waits, strict=True)
    _DECODED.put(
        code, tuple([_layout_of(type(encoded)).waiting(encoded, needed) for encoded, needed in pairs])
    )
    return code


_From = TypeVar("_From")
_To = TypeVar("_To")


def _one_by_one(convert: Callable[[_From], _To], values: Sequence[_From]) -> list[_To]:
    """Convert values one at a time. Raises ProgramError with the position of the first that cannot be converted."""
    converted = []
    for index, value in enumerate(values):
        try:
            converted.append(convert(value))
        except ProgramError as error:
            raise ProgramError(f"instruction {index}: {error}") from None
    return converted


LANE_BITS = 64
LANES = WORD_BYTES * 8 // LANE_BITS
_NUMBERS = len(WAIT_SPECS)
"""Number of columns of the waits, which come before those of the fields: unit, count, unit, count, ..."""
_UNUSED = [(0,) * (_NUMBERS - 2 * used) for used in range(WAITS + 1)]
Words = NDArray[np.uint64]
"""Instruction words as little-endian 64-bit lanes, [n, LANES]."""


class _Layout(NamedTuple):
    """The bit layout of an instruction class: its waits and fields as columns in bit order; arrays have one entry each.

    values:        returns an instruction's fields as one tuple.
    setters:       set the waits and each field of a new instruction, which its class does not allow.
    lanes, shifts: the 64-bit lane in which a column begins, and its first bit in that lane.
    masks:         the bits of a column, from bit 0 on.
    low, high:     smallest and largest value.
    signs:         the sign bit of a signed column, else 0.
    first:         the first column of each lane.
    split:         the columns that continue in the next lane, which holds their bits from `64 - shift` on.
    """

    row: type[Instruction]
    values: Callable[[Instruction], tuple[int, ...]]
    setters: tuple[Callable[[Instruction, Any], None], ...]
    lanes: NDArray[np.int64]
    shifts: NDArray[np.uint64]
    masks: NDArray[np.uint64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    signs: NDArray[np.int64]
    first: NDArray[np.int64]
    split: NDArray[np.int64]

    def instruction(self, waits: Waits, fields: Iterable[int]) -> Instruction:
        """Build an instruction in a third of the time of its `__init__`, which takes a keyword per field."""
        instruction = object.__new__(self.row)
        for put, value in zip(self.setters, (waits, *fields), strict=True):
            put(instruction, value)
        return instruction

    def waiting(self, instruction: Instruction, waits: Waits) -> Instruction:
        """Return an instruction with its waits replaced; the same instruction if they are equal."""
        return (
            instruction if instruction.waits == waits else self.instruction(waits, self.values(instruction))
        )


_LAYOUTS: dict[type[Instruction], _Layout] = {}


def _layout_of(cls: type[Instruction]) -> _Layout:
    if cls not in _LAYOUTS:
        _LAYOUTS[cls] = _layout(cls)
    return _LAYOUTS[cls]


def _layout(cls: type[Instruction]) -> _Layout:
    columns = (*WAIT_SPECS, *cls.specs)
    offsets = np.array([spec.offset for spec in columns])
    widths = np.array([spec.width for spec in columns])
    lanes, shifts = np.divmod(offsets, LANE_BITS)
    names = tuple(spec.name for spec in cls.specs)

    return _Layout(
        cls,
        _getter(names),
        tuple(_setter(cls, name) for name in ("waits", *names)),
        lanes,
        shifts.astype(np.uint64),
        np.array([(1 << spec.width) - 1 for spec in columns], np.uint64),
        np.array([spec.low for spec in columns], np.int64),
        np.array([spec.high for spec in columns], np.int64),
        np.array([1 << spec.width - 1 if spec.signed else 0 for spec in columns], np.int64),
        np.flatnonzero(np.diff(lanes, prepend=-1)),
        np.flatnonzero(shifts + widths > LANE_BITS),
    )


def _getter(names: tuple[str, ...]) -> Callable[[Instruction], tuple[int, ...]]:
    """Return a function that gives the values of attributes as one tuple."""
    get: Callable[[Instruction], Any] = attrgetter(*names) if names else lambda _: ()
    return (lambda instruction: (get(instruction),)) if len(names) == 1 else get


def _setter(cls: type[Instruction], name: str) -> Callable[[Instruction, Any], None]:
    """Return the function that sets an attribute of instructions, which have a slot for each."""
    slot: Any = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
    set_slot: Callable[[Instruction, Any], None] = slot.__set__
    return set_slot


def encode_rows(
    cls: type[Instruction], instructions: Sequence[Instruction], waits: Sequence[Waits]
) -> Words | None:
    """Return the words of instructions of one class with the given waits; None if a value does not fit its field."""
    layout = _layout_of(cls)
    try:
        numbers = [
            (*chain.from_iterable(needed), *_UNUSED[len(needed)], *layout.values(instruction))
            for instruction, needed in zip(instructions, waits, strict=True)
        ]
        values = np.array(numbers, np.int64)
    except (OverflowError, IndexError):  # a value that does not even fit numpy's 64 bits; too many waits
        return None
    if (values < layout.low).any() or (values > layout.high).any():
        return None
    used = _waits_used(values)
    if used is None or used != [len(needed) for needed in waits]:
        return None
    plain = values.astype(np.uint64) & layout.masks
    words = np.zeros((len(instructions), LANES), "<u8")
    words[:, : len(layout.first)] = np.bitwise_or.reduceat(plain << layout.shifts, layout.first, axis=1)
    words[:, layout.lanes[layout.split] + 1] |= plain[:, layout.split] >> (
        np.uint64(LANE_BITS) - layout.shifts[layout.split]
    )
    words[:, 0] |= np.uint64(cls.opcode)
    return words


def decode_rows(cls: type[Instruction], words: Words) -> list[Instruction] | None:
    """Return the instructions of words with the opcode of `cls`; None if a word is invalid."""
    used, layout = used_bits(cls), _layout_of(cls)
    for lane in range(used // LANE_BITS, LANES):
        if (words[:, lane] >> np.uint64(max(used - lane * LANE_BITS, 0))).any():
            return None
    plain = words[:, layout.lanes] >> layout.shifts
    plain[:, layout.split] |= words[:, layout.lanes[layout.split] + 1] << (
        np.uint64(LANE_BITS) - layout.shifts[layout.split]
    )
    values = ((plain & layout.masks).astype(np.int64) ^ layout.signs) - layout.signs
    waits = _waits_used(values)
    if waits is None or (values > layout.high).any():
        return None
    return [
        layout.instruction(
            tuple(zip(row[0 : 2 * used : 2], row[1 : 2 * used : 2], strict=True)), row[_NUMBERS:]
        )
        for row, used in zip(values.tolist(), waits, strict=True)
    ]


def column(cls: type[Instruction], code: NDArray[np.uint8], name: str) -> NDArray[np.int64]:
    """Return the values of a field of encoded instructions of one class; also of a wait, by its name in the word."""
    lanes, lane, shift, spec = _place(cls, code, name)
    value = lanes[:, lane] >> np.uint64(shift)
    if shift + spec.width > LANE_BITS:
        value |= lanes[:, lane + 1] << np.uint64(LANE_BITS - shift)
    return (value & np.uint64((1 << spec.width) - 1)).astype(np.int64)


def with_column(
    cls: type[Instruction], code: NDArray[np.uint8], name: str, values: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return encoded instructions of one class with new values of a field, none of which is negative.

    Raises ProgramError for a value that does not fit the field.
    """
    lanes, lane, shift, spec = _place(cls, code.copy(), name)
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) <= spec.high:
        raise ProgramError(f"{cls.mnemonic}: {name} = {int(values.max())} is outside 0..{spec.high}")
    mask, plain = (1 << spec.width) - 1, values.astype(np.uint64)
    lanes[:, lane] &= np.uint64(~(mask << shift) & (1 << LANE_BITS) - 1)
    lanes[:, lane] |= plain << np.uint64(shift)
    if shift + spec.width > LANE_BITS:
        lanes[:, lane + 1] &= np.uint64(~(mask >> LANE_BITS - shift) & (1 << LANE_BITS) - 1)
        lanes[:, lane + 1] |= plain >> np.uint64(LANE_BITS - shift)
    return lanes.view(np.uint8)


def _place(cls: type[Instruction], code: NDArray[np.uint8], name: str) -> tuple[Words, int, int, FieldSpec]:
    """Return code as lanes, and the lane, first bit and description of a field or wait."""
    spec = next(spec for spec in (*WAIT_SPECS, *cls.specs) if spec.name == name)
    lane, shift = divmod(spec.offset, LANE_BITS)
    return np.ascontiguousarray(code).view("<u8"), lane, shift, spec


def _waits_used(values: NDArray[np.int64]) -> list[int] | None:
    """Return the number of waits of each instruction; None if some waits are invalid (as by `wait_fault`)."""
    units, counts = values[:, 0:_NUMBERS:2], values[:, 1:_NUMBERS:2]
    used = counts > 0
    rising = (units[:, 1:] > units[:, :-1]) & used[:, :-1]
    if (units >= len(PRODUCERS)).any() or (units[~used] != 0).any() or (used[:, 1:] & ~rising).any():
        return None
    numbers: list[int] = used.sum(1).tolist()
    return numbers
