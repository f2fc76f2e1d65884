"""Instruction words: every row through bytes and back, and what is said about words without meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.isa.base.errors import ProgramError
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import (
    NO_WAITS,
    OPCODE_BITS,
    PRODUCERS,
    WAIT_BITS,
    WORD_BYTES,
    Instruction,
    Unit,
    used_bits,
)
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.table import BY_OPCODE, INSTRUCTIONS, decode, decode_all, encode_all
from npusim.isa.instructions.vector import Binary

rows = pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: row.mnemonic)


def instructions_of(row: type[Instruction]) -> st.SearchStrategy[Instruction]:
    """Instructions of a row with every field anywhere in its range."""
    fields: dict[str, Any] = {spec.name: st.integers(spec.low, spec.high) for spec in row.specs}
    waits = st.tuples(*[st.integers(0, (1 << WAIT_BITS) - 1)] * len(PRODUCERS))
    return st.builds(row, waits=waits, **fields)


any_instruction = st.sampled_from(INSTRUCTIONS).flatmap(instructions_of)


@rows
def test_every_row_round_trips(row: type[Instruction]) -> None:
    @settings(max_examples=40)
    @given(instructions_of(row))
    def check(instruction: Instruction) -> None:
        word = instruction.encode()
        assert len(word) == WORD_BYTES
        assert decode(word) == instruction

    check()


@settings(max_examples=40)
@given(st.lists(any_instruction, max_size=12))
def test_a_program_has_the_words_of_its_instructions(instructions: list[Instruction]) -> None:
    code = encode_all(instructions)
    assert code.shape == (len(instructions), WORD_BYTES)
    assert code.dtype == np.uint8
    assert code.tobytes() == b"".join(each.encode() for each in instructions)
    assert decode_all(code) == instructions


@settings(max_examples=300)
@given(
    st.binary(min_size=WORD_BYTES, max_size=WORD_BYTES),
    st.sampled_from([*BY_OPCODE, 0, 255]),
    st.integers(0, 8 * WORD_BYTES),
)
def test_random_words_are_refused_or_mean_exactly_themselves(
    word: bytes, opcode: int, kept_bits: int
) -> None:
    number = int.from_bytes(word, "little") & ((1 << kept_bits) - 1)
    word = bytes([opcode]) + number.to_bytes(WORD_BYTES, "little")[1:]
    code = np.frombuffer(word, np.uint8).reshape(1, -1)
    found, refused = _outcome(decode, word)
    if found is not None:
        assert found.encode() == word
        assert decode_all(code) == [found]
    else:
        assert _outcome(decode_all, code) == (None, f"instruction 0: {refused}")


def _outcome(function: Callable[[Any], Any], argument: object) -> tuple[Any, str]:
    """The result and no message, or no result and the message of the ProgramError."""
    try:
        return function(argument), ""
    except ProgramError as fault:
        return None, str(fault)


@rows
def test_each_field_has_its_own_bits(row: type[Instruction]) -> None:
    """Every bit belongs to one field: setting one field to its largest value changes its bits and no others."""
    empty = int.from_bytes(row().encode(), "little")
    for spec in row.specs:
        fields: Any = {spec.name: -1 if spec.signed else spec.high}
        changed = int.from_bytes(row(**fields).encode(), "little") ^ empty
        mask = ((1 << spec.width) - 1) << spec.offset
        assert changed & ~mask == 0, spec.name
        assert changed == mask or spec.choices, spec.name
    ends = [spec.offset + spec.width for spec in row.specs]
    assert [spec.offset for spec in row.specs] == [OPCODE_BITS + WAIT_BITS * len(PRODUCERS), *ends][
        : len(ends)
    ]
    assert used_bits(row) <= 8 * WORD_BYTES


def test_a_word_written_out() -> None:
    """channel 1 (bits 148..149), value 5 (151..158), size 3 (291..320), wait mac>=2 (88..107)."""
    waits = tuple(2 if unit is Unit.MAC else 0 for unit in PRODUCERS)
    word = Copy(waits=waits, channel=1, value=5, size=3).encode()
    assert word == (0x10 | 2 << 88 | 1 << 148 | 5 << 151 | 3 << 291).to_bytes(72, "little")


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Copy(channel=4), "dma.copy: channel = 4 is outside 0..3"),
        (Copy(size=-1), "dma.copy: size = -1 is outside 0..1073741823"),
        (Copy(size=1 << 80), f"dma.copy: size = {1 << 80} is outside 0..1073741823"),
        (Convolve(ifm_zero=256), "mac.convolve: ifm_zero = 256 is outside -256..255"),
        (Binary(function=5), "vec.binary: function = 5 is outside 0..4"),
        (
            Barrier(waits=(0, 0, 0, 0, 1 << 20, 0, 0)),
            "ctl.barrier: wait count 1048576 is outside 0..1048575",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused(instruction: Instruction, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        instruction.encode()
    assert str(caught.value) == message
    with pytest.raises(ProgramError) as caught:
        encode_all([Barrier(), instruction])
    assert str(caught.value) == f"instruction 1: {message}"


OPCODES = ", ".join(f"{opcode:#04x}" for opcode in sorted(BY_OPCODE))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (bytes(72), f"instruction word: opcode 0x00 is unknown; 72 bytes with opcodes {OPCODES}"),
        (b"\x10", f"instruction word: 1 bytes is unknown; 72 bytes with opcodes {OPCODES}"),
        (b"", f"instruction word: 0 bytes is unknown; 72 bytes with opcodes {OPCODES}"),
        (
            (0x01 | 1 << 148).to_bytes(72, "little"),
            "ctl.barrier: unused bits of the instruction word are not zero",
        ),
        (
            (0x30 | 9 << 148).to_bytes(72, "little"),
            "vec.binary: function = 9 has no meaning; it may be 0..4 for add, sub, mul, max, min",
        ),
    ],
)
def test_words_without_meaning_are_refused(word: bytes, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        decode(word)
    assert str(caught.value) == message


def test_the_first_bad_word_of_a_program_is_named() -> None:
    code = encode_all([Barrier()] * 4).copy()
    code[1, 71] = 1
    code[3, 0] = 0
    with pytest.raises(ProgramError, match=r"^instruction 1: ctl\.barrier: unused bits"):
        decode_all(code)


def test_an_empty_program_has_no_words() -> None:
    assert decode_all(encode_all([])) == []


def test_instructions_of_code_that_cannot_change_are_remembered() -> None:
    code = encode_all([Copy(size=5), Barrier()])
    first, second = decode_all(code), decode_all(code)
    assert first == second == decode_all(code.copy())
    assert first is not second
    assert first[0] is second[0]


@rows
def test_instructions_cannot_be_changed(row: type[Instruction]) -> None:
    code = encode_all([row()])
    (found,) = decode_all(code)
    for name in ("waits", *[spec.name for spec in row.specs], "another"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(found, name, (1,) * len(PRODUCERS) if name == "waits" else 1)
    assert decode_all(code) == [row()]
    assert isinstance(found.waits, tuple)


def test_waits_may_be_given_beside_the_instructions() -> None:
    waits = [(3, *NO_WAITS[1:]), NO_WAITS]
    rows = [Copy(size=5), Barrier()]
    expected = [replace(each, waits=of) for each, of in zip(rows, waits, strict=True)]
    assert decode_all(encode_all(rows, waits)) == expected
    with pytest.raises(ProgramError, match=r"^instruction 1: ctl\.barrier: wait count -1"):
        encode_all(rows, [NO_WAITS, (-1, *NO_WAITS[1:])])


def test_code_that_can_change_is_decoded_again() -> None:
    code = encode_all([Copy(size=5)]).copy()
    view = code[:]
    view.flags.writeable = False
    assert [decode_all(each)[0].size for each in (code, view)] == [5, 5]  # type: ignore[attr-defined]
    code[:] = encode_all([Copy(size=6)])
    assert [decode_all(each)[0].size for each in (code, view)] == [6, 6]  # type: ignore[attr-defined]
