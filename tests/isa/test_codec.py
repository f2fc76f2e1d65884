"""Instruction words: every row through bytes and back, and what is said about words without meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.errors import ProgramError
from npusim.isa.hardware.units import PRODUCERS
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.elementwise import Binary
from npusim.isa.instructions.instruction import Instruction, used_bits
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.table import ROWS, all_instructions, decode, decode_all, encode_all
from npusim.isa.instructions.word import FIELDS_OFFSET, LARGEST_COUNT, WAITS, WORD_BYTES, Waits
from tests.examples import examples

rows = pytest.mark.parametrize("row", all_instructions(), ids=lambda row: row.mnemonic)


def instructions_of(row: type[Instruction]) -> st.SearchStrategy[Instruction]:
    """Instructions of a row with every field anywhere in its range."""
    fields: dict[str, Any] = {spec.name: st.integers(spec.low, spec.high) for spec in row.specs}
    units = st.sampled_from([int(unit) for unit in PRODUCERS])
    waits = st.dictionaries(units, st.integers(1, LARGEST_COUNT), max_size=WAITS)
    return st.builds(row, waits=waits.map(lambda found: tuple(sorted(found.items()))), **fields)


any_instruction = st.sampled_from(all_instructions()).flatmap(instructions_of)


@rows
def test_every_row_round_trips(row: type[Instruction]) -> None:
    @examples(40)
    @given(instructions_of(row))
    def check(instruction: Instruction) -> None:
        word = instruction.encode()
        assert len(word) == WORD_BYTES
        assert decode(word) == instruction

    check()


@pytest.mark.slow
@examples(40)
@given(st.lists(any_instruction, max_size=12))
def test_a_program_has_the_words_of_its_instructions(instructions: list[Instruction]) -> None:
    code = encode_all(instructions)
    assert code.shape == (len(instructions), WORD_BYTES)
    assert code.dtype == np.uint8
    assert code.tobytes() == b"".join(each.encode() for each in instructions)
    assert decode_all(code.copy()) == decode_all(code) == instructions


@pytest.mark.slow
@examples(300)
@given(
    st.binary(min_size=WORD_BYTES, max_size=WORD_BYTES),
    st.sampled_from([*(opcode for opcode, _, _ in ROWS), 0, 255]),
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
    assert [spec.offset for spec in row.specs] == [FIELDS_OFFSET, *ends][: len(ends)]
    assert used_bits(row) <= 8 * WORD_BYTES


def test_a_word_written_out() -> None:
    """Waits dma1>=9 (unit in bits 8..13, count in 14..37) and mac>=2 (38..43, 44..67), channel 1 (128..129),
    value 5 (131..138), size 3 (271..300).
    """
    word = Copy(waits=((1, 9), (4, 2)), channel=1, value=5, size=3).encode()
    waits = 1 << 8 | 9 << 14 | 4 << 38 | 2 << 44
    assert word == (0x10 | waits | 1 << 128 | 5 << 131 | 3 << 271).to_bytes(72, "little")


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Copy(channel=4), "dma.copy: channel = 4 is outside 0..3"),
        (Copy(size=-1), "dma.copy: size = -1 is outside 0..1073741823"),
        (Copy(size=1 << 80), f"dma.copy: size = {1 << 80} is outside 0..1073741823"),
        (Convolve(ifm_zero=256), "mac.convolve: ifm_zero = 256 is outside -256..255"),
        (Binary(function=21), "vec.binary: function = 21 is outside 0..20"),
        (Barrier(waits=((4, 1 << 24),)), "ctl.barrier: wait count 16777216 is outside 1..16777215"),
        (Barrier(waits=((4, 0),)), "ctl.barrier: wait count 0 is outside 1..16777215"),
        (Barrier(waits=((4, -1),)), "ctl.barrier: wait count -1 is outside 1..16777215"),
        (Barrier(waits=((7, 1),)), "ctl.barrier: wait for unit 7; it may be 0..6"),
        (Barrier(waits=((4, 1), (0, 1))), "ctl.barrier: waits are not in rising order of their units"),
        (Barrier(waits=((4, 1), (4, 2))), "ctl.barrier: waits are not in rising order of their units"),
        (
            Barrier(waits=((0, 1), (1, 1), (2, 1), (4, 1), (5, 1))),
            "ctl.barrier: 5 waits; an instruction has 4, a barrier in front of it may wait for others",
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


OPCODES = ", ".join(f"{opcode:#04x}" for opcode in sorted(opcode for opcode, _, _ in ROWS))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (bytes(72), f"instruction word: opcode 0x00 is unknown; 72 bytes with opcodes {OPCODES}"),
        (b"\x10", f"instruction word: 1 bytes is unknown; 72 bytes with opcodes {OPCODES}"),
        (b"", f"instruction word: 0 bytes is unknown; 72 bytes with opcodes {OPCODES}"),
        (
            (0x01 | 1 << 128 + 29).to_bytes(72, "little"),
            "ctl.barrier: unused bits of the instruction word are not zero",
        ),
        (
            (0x01 | 5 << 8).to_bytes(72, "little"),
            "ctl.barrier: wait count 0 is outside 1..16777215",
        ),
        (
            (0x01 | 63 << 8 | 1 << 14).to_bytes(72, "little"),
            "ctl.barrier: wait for unit 63; it may be 0..6",
        ),
        (
            # The first pair is not used, the second is.
            (0x01 | 1 << 44).to_bytes(72, "little"),
            "ctl.barrier: wait count 0 is outside 1..16777215",
        ),
        (
            (0x01 | 4 << 8 | 1 << 14 | 1 << 44).to_bytes(72, "little"),
            "ctl.barrier: waits are not in rising order of their units",
        ),
        (
            (0x31 | 3 << 131).to_bytes(72, "little"),
            "vec.pool: function = 3 has no meaning; it may be 0..2 for average, maximum, l2",
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
    assert decode_all(encode_all([]).copy()) == []


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
            setattr(found, name, ((0, 1),) if name == "waits" else 1)
    assert decode_all(code) == [row()]
    assert isinstance(found.waits, tuple)


def test_waits_may_be_given_beside_the_instructions() -> None:
    waits: list[Waits] = [((0, 3),), ()]
    rows = [Copy(size=5), Barrier()]
    expected = [replace(each, waits=of) for each, of in zip(rows, waits, strict=True)]
    code = encode_all(rows, waits)
    assert decode_all(code.copy()) == decode_all(code) == expected
    with pytest.raises(ProgramError, match=r"^instruction 1: ctl\.barrier: wait count -1"):
        encode_all(rows, [(), ((0, -1),)])


def test_code_that_can_change_is_decoded_again() -> None:
    code = encode_all([Copy(size=5)]).copy()
    view = code[:]
    view.flags.writeable = False
    assert [decode_all(each)[0].size for each in (code, view)] == [5, 5]  # type: ignore[attr-defined]
    code[:] = encode_all([Copy(size=6)])
    assert [decode_all(each)[0].size for each in (code, view)] == [6, 6]  # type: ignore[attr-defined]
