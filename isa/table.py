"""The instruction set: every row, one line each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa import control, dma, mac, vector
from npusim.isa.errors import ProgramError
from npusim.isa.instruction import WORD_BYTES, Instruction, decode_as, layout

INSTRUCTIONS: tuple[type[Instruction], ...] = (
    control.Barrier,
    dma.Copy,
    mac.Convolve,
    mac.Depthwise,
    vector.Binary,
    vector.Pool,
    vector.Mean,
    vector.Rescale,
    vector.Lookup,
    vector.Softmax,
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
    """Decode a program's code. Raises ProgramError that names the instruction by its position."""
    decoded: list[Instruction] = []
    for index, word in enumerate(np.ascontiguousarray(code).view(f"V{WORD_BYTES}").ravel().tolist()):
        try:
            decoded.append(decode(word))
        except ProgramError as error:
            raise ProgramError(f"instruction {index}: {error}") from None
    return decoded


def encode_all(instructions: list[Any]) -> NDArray[np.uint8]:
    """Encode instructions to uint8 [n, WORD_BYTES]. Raises ProgramError that names the instruction."""
    words = []
    for index, instruction in enumerate(instructions):
        try:
            words.append(instruction.encode())
        except ProgramError as error:
            raise ProgramError(f"instruction {index}: {error}") from None
    return np.frombuffer(b"".join(words), np.uint8).reshape(len(words), WORD_BYTES)
