"""Words of many instructions of one row at a time: the same bits as `encode` and `decode_as`, a column per field.

A program is encoded and decoded before every execution, so this is worth numpy. Faults are not described
here: the caller goes back to one instruction at a time, which says what is wrong with which.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npusim.isa.instruction import (
    OPCODE_BITS,
    PRODUCERS,
    WAIT_BITS,
    WORD_BYTES,
    Instruction,
    used_bits,
)

LANE_BITS = 64
LANES = WORD_BYTES * 8 // LANE_BITS
Words = NDArray[np.uint64]
"""Instruction words as little-endian 64-bit lanes, [n, LANES]."""


def encode_rows(cls: type[Instruction], instructions: Sequence[Instruction]) -> Words | None:
    """The words of instructions of `cls`; None if some value does not fit its field."""
    try:
        return _encoded(cls, instructions)
    except OverflowError:  # a value that does not even fit numpy's 64 bits
        return None


def _encoded(cls: type[Instruction], instructions: Sequence[Instruction]) -> Words | None:
    words = np.zeros((len(instructions), LANES), "<u8")
    words[:, 0] = cls.opcode
    waits = np.array([each.waits for each in instructions], np.int64)
    if waits.min(initial=0) < 0 or waits.max(initial=0) >> WAIT_BITS:
        return None
    for position in range(len(PRODUCERS)):
        _put(words, OPCODE_BITS + WAIT_BITS * position, WAIT_BITS, waits[:, position])
    for spec in cls.specs:
        values = np.array([getattr(each, spec.name) for each in instructions], np.int64)
        if values.min(initial=0) < spec.low or values.max(initial=0) > spec.high:
            return None
        _put(words, spec.offset, spec.width, values)
    return words


def decode_rows(cls: type[Instruction], words: Words) -> list[Instruction] | None:
    """The instructions of words that have the opcode of `cls`; None if some word has no meaning."""
    used = used_bits(cls)
    for lane in range(LANES):
        free = max(used - lane * LANE_BITS, 0)
        if free < LANE_BITS and (words[:, lane] >> free).any():
            return None
    starts = range(OPCODE_BITS, OPCODE_BITS + WAIT_BITS * len(PRODUCERS), WAIT_BITS)
    columns = [list(zip(*(_take(words, start, WAIT_BITS).tolist() for start in starts), strict=True))]
    for spec in cls.specs:
        values = _take(words, spec.offset, spec.width).astype(np.int64)
        if spec.signed:
            sign = 1 << (spec.width - 1)
            values = (values ^ sign) - sign
        if values.max(initial=0) > spec.high:
            return None
        columns.append(values.tolist())
    names = ("waits", *(spec.name for spec in cls.specs))
    return [cls(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _put(words: Words, offset: int, width: int, values: NDArray[np.int64]) -> None:
    lane, shift = divmod(offset, LANE_BITS)
    plain = values.astype(np.uint64) & ((1 << width) - 1)
    words[:, lane] |= plain << shift
    if shift + width > LANE_BITS:
        words[:, lane + 1] |= plain >> (LANE_BITS - shift)


def _take(words: Words, offset: int, width: int) -> Words:
    lane, shift = divmod(offset, LANE_BITS)
    values: Words = words[:, lane] >> np.uint64(shift)
    if shift + width > LANE_BITS:
        values |= words[:, lane + 1] << np.uint64(LANE_BITS - shift)
    values &= np.uint64((1 << width) - 1)
    return values
