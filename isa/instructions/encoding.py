"""Words of many instructions of one row at a time: the same bits as `encode` and `decode_as`, a column per field.

A program is encoded and decoded before every execution, so this is worth numpy. Faults are not described
here: the caller goes back to one instruction at a time, which says what is wrong with which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.units import PRODUCERS
from npusim.isa.instructions.instruction import Instruction, used_bits
from npusim.isa.instructions.word import WAIT_SPECS, WAITS, WORD_BYTES, Waits

LANE_BITS = 64
LANES = WORD_BYTES * 8 // LANE_BITS
_NUMBERS = len(WAIT_SPECS)
"""Columns of the waits, in front of those of the fields: unit, count, unit, count, ..."""
_UNUSED = [(0,) * (_NUMBERS - 2 * used) for used in range(WAITS + 1)]
Words = NDArray[np.uint64]
"""Instruction words as little-endian 64-bit lanes, [n, LANES]."""


class _Layout(NamedTuple):
    """The waits and fields of a row as columns, in order of their bits; arrays have an entry per column.

    lanes, shifts: the lane that a column begins in, and its first bit there.
    first:         the first column of each lane.
    split:         the columns that end in the next lane; `lanes[split] + 1` gets their bits from `64 - shift` on.
    signs:         the sign bit of a signed column, else 0.
    """

    values: Callable[[Instruction, Waits], tuple[int, ...]]
    names: tuple[str, ...]
    lanes: NDArray[np.int64]
    shifts: NDArray[np.uint64]
    masks: NDArray[np.uint64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    signs: NDArray[np.int64]
    first: NDArray[np.int64]
    split: NDArray[np.int64]


_LAYOUTS: dict[type[Instruction], _Layout] = {}


def _layout_of(cls: type[Instruction]) -> _Layout:
    if cls not in _LAYOUTS:
        _LAYOUTS[cls] = _layout(cls)
    return _LAYOUTS[cls]


def _layout(cls: type[Instruction]) -> _Layout:
    columns = (*WAIT_SPECS, *cls.specs)
    offsets = np.array([each.offset for each in columns])
    widths = np.array([each.width for each in columns])
    lanes, shifts = np.divmod(offsets, LANE_BITS)
    names = tuple(each.name for each in cls.specs)

    def values(instruction: Instruction, waits: Waits) -> tuple[int, ...]:
        fields = [getattr(instruction, name) for name in names]
        return (*chain.from_iterable(waits), *_UNUSED[len(waits)], *fields)

    return _Layout(
        values,
        names,
        lanes,
        shifts.astype(np.uint64),
        np.array([(1 << each.width) - 1 for each in columns], np.uint64),
        np.array([each.low for each in columns], np.int64),
        np.array([each.high for each in columns], np.int64),
        np.array([1 << each.width - 1 if each.signed else 0 for each in columns], np.int64),
        np.flatnonzero(np.diff(lanes, prepend=-1)),
        np.flatnonzero(shifts + widths > LANE_BITS),
    )


def encode_rows(
    cls: type[Instruction], instructions: Sequence[Instruction], waits: Sequence[Waits]
) -> Words | None:
    """The words of instructions of `cls` with these waits; None if some value does not fit its field."""
    of = _layout_of(cls)
    try:
        values = np.array([of.values(*each) for each in zip(instructions, waits, strict=True)], np.int64)
    except (OverflowError, IndexError):  # a value that does not even fit numpy's 64 bits; too many waits
        return None
    if (values < of.low).any() or (values > of.high).any():
        return None
    used = _waits_used(values)
    if used is None or used != [len(each) for each in waits]:
        return None
    plain = values.astype(np.uint64) & of.masks
    words = np.zeros((len(instructions), LANES), "<u8")
    words[:, : len(of.first)] = np.bitwise_or.reduceat(plain << of.shifts, of.first, axis=1)
    words[:, of.lanes[of.split] + 1] |= plain[:, of.split] >> (np.uint64(LANE_BITS) - of.shifts[of.split])
    words[:, 0] |= np.uint64(cls.opcode)
    return words


def decode_rows(cls: type[Instruction], words: Words) -> list[Instruction] | None:
    """The instructions of words that have the opcode of `cls`; None if some word has no meaning."""
    used, of = used_bits(cls), _layout_of(cls)
    for lane in range(used // LANE_BITS, LANES):
        if (words[:, lane] >> np.uint64(max(used - lane * LANE_BITS, 0))).any():
            return None
    plain = words[:, of.lanes] >> of.shifts
    plain[:, of.split] |= words[:, of.lanes[of.split] + 1] << (np.uint64(LANE_BITS) - of.shifts[of.split])
    values = ((plain & of.masks).astype(np.int64) ^ of.signs) - of.signs
    waits = _waits_used(values)
    if waits is None or (values > of.high).any():
        return None
    return [
        cls(
            waits=tuple(zip(row[0 : 2 * used : 2], row[1 : 2 * used : 2], strict=True)),
            **dict(zip(of.names, row[_NUMBERS:], strict=True)),
        )
        for row, used in zip(values.tolist(), waits, strict=True)
    ]


def _waits_used(values: NDArray[np.int64]) -> list[int] | None:
    """How many waits each row of columns has; None if some cannot stand in a word (`wait_fault`)."""
    units, counts = values[:, 0:_NUMBERS:2], values[:, 1:_NUMBERS:2]
    used = counts > 0
    rising = (units[:, 1:] > units[:, :-1]) & used[:, :-1]
    if (units >= len(PRODUCERS)).any() or (units[~used] != 0).any() or (used[:, 1:] & ~rising).any():
        return None
    numbers: list[int] = used.sum(1).tolist()
    return numbers
