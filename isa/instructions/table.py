"""The instruction set: every row, one line each."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import ProgramError
from npusim.isa.instructions import (
    cell,
    control,
    dma,
    elementwise,
    gather,
    grid,
    mac,
    real_mac,
    reduction,
    resize,
    rows,
    vector,
    windows,
)
from npusim.isa.instructions.encoding import decode_rows, encode_rows
from npusim.isa.instructions.instruction import Instruction, decode_as, layout
from npusim.isa.instructions.word import WORD_BYTES, Waits

INSTRUCTIONS: tuple[type[Instruction], ...] = (
    control.Barrier,
    dma.Copy,
    dma.Unpack,
    dma.LoadWeights,
    gather.Gather,
    mac.Convolve,
    mac.Depthwise,
    elementwise.Binary,
    windows.Pool,
    vector.Convert,
    vector.Unary,
    vector.Lookup,
    rows.Softmax,
    rows.UnitLength,
    reduction.Reduce,
    cell.LstmCell,
    grid.Select,
    resize.Resize,
    real_mac.RealConvolve,
    real_mac.RealDepthwise,
    control.Call,
)

for _row in INSTRUCTIONS:
    _row.specs = layout(_row)

BY_OPCODE = {row.opcode: row for row in INSTRUCTIONS}
BY_MNEMONIC = {row.mnemonic: row for row in INSTRUCTIONS}


def decode(word: bytes | NDArray[np.uint8]) -> Instruction:
    """Decode one instruction word of WORD_BYTES bytes. Raises ProgramError on an unknown or invalid word."""
    data = bytes(word)
    row = BY_OPCODE.get(data[0]) if len(data) == WORD_BYTES else None
    if row is None:
        known = ", ".join(f"{opcode:#04x}" for opcode in sorted(BY_OPCODE))
        what = f"opcode {data[0]:#04x}" if len(data) == WORD_BYTES else f"{len(data)} bytes"
        raise ProgramError(f"instruction word: {what} is unknown; {WORD_BYTES} bytes with opcodes {known}")
    return decode_as(row, int.from_bytes(data, "little"))


def decode_all(code: NDArray[np.uint8]) -> list[Instruction]:
    """Decode a program's code. Raises ProgramError that names the first bad instruction by its position.

    The instructions of code that cannot change are remembered as long as it lives, for the next run of a program.
    """
    found = _DECODED.get(id(code))
    if found is None:
        found = tuple(_decoded(code))
        if _cannot_change(code):
            _DECODED[id(code)] = found
            weakref.finalize(code, _DECODED.pop, id(code), None)
    return list(found)


_DECODED: dict[int, tuple[Instruction, ...]] = {}


def _cannot_change(code: NDArray[np.uint8]) -> bool:
    """Whether neither an array nor what it is a view of can be written."""
    owner: Any = code
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return owner is None or isinstance(owner, bytes)


def _decoded(code: NDArray[np.uint8]) -> list[Instruction]:
    code = np.ascontiguousarray(code, np.uint8).reshape(-1, WORD_BYTES)
    decoded: list[Instruction] = [_NOTHING] * len(code)
    lanes = code.view("<u8")
    for opcode in sorted(set(code[:, 0].tolist())):
        positions = np.flatnonzero(code[:, 0] == opcode)
        rows = decode_rows(BY_OPCODE[opcode], lanes[positions]) if opcode in BY_OPCODE else None
        if rows is None:
            return _one_by_one(decode, list(code))
        for position, instruction in zip(positions.tolist(), rows, strict=True):
            decoded[position] = instruction
    return decoded


def encode_all(
    instructions: Sequence[Instruction], waits: Sequence[Waits] | None = None
) -> NDArray[np.uint8]:
    """Encode instructions to uint8 [n, WORD_BYTES], read-only; with `waits`, an entry each, in place of their own.

    Raises ProgramError that names the first bad instruction.
    """
    if waits is None:
        waits = [each.waits for each in instructions]
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
            pairs = zip(instructions, waits, strict=True)
            _one_by_one(lambda pair: replace(pair[0], waits=pair[1]).encode(), list(pairs))
        lanes[positions] = words
    code.flags.writeable = False
    return code


_NOTHING = control.Barrier()

_From = TypeVar("_From")
_To = TypeVar("_To")


def _one_by_one(convert: Callable[[_From], _To], values: Sequence[_From]) -> list[_To]:
    """Convert each; raise ProgramError with the position of the first that cannot be."""
    converted = []
    for index, value in enumerate(values):
        try:
            converted.append(convert(value))
        except ProgramError as error:
            raise ProgramError(f"instruction {index}: {error}") from None
    return converted
