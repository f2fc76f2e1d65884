"""Conversion of one instruction to a line of assembly text and back.

    mac.convolve ifm=4096 ifm_height=8 signed=int8 wait dma0>=2, vector>=1

Fields that are zero are left out. Fields with named values show the names.
"""

from __future__ import annotations

import re
from typing import Any

from npusim.isa.base.errors import ProgramError, nearest
from npusim.isa.base.plain_values import shown
from npusim.isa.hardware.units import PRODUCERS, UNIT_NAMES
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.table import by_mnemonic
from npusim.isa.instructions.word import LARGEST_COUNT, FieldSpec, Waits, wait_fault
from npusim.isa.text.former_names import FORMER, Former

WAIT = "wait"
LONGEST_NUMBER = 40
"""Maximum digits of a number: every field is far shorter, and Python is slow at thousands of digits."""

_PRODUCER_NAMES = [UNIT_NAMES[unit] for unit in PRODUCERS]
_WAIT = re.compile(r"\s*(\w+)\s*>=\s*(\w+)\s*")


def format_instruction(instruction: Instruction) -> str:
    """Return an instruction as text. Values that do not fit their fields are written unchanged."""
    words = [instruction.mnemonic]
    for spec in instruction.specs:
        value = getattr(instruction, spec.name)
        if value:
            named = spec.choices and 0 <= value < len(spec.choices)
            words.append(f"{spec.name}={spec.choices[value] if named else value}")
    waits = [f"{_PRODUCER_NAMES[unit]}>={count}" for unit, count in instruction.waits]
    if waits:
        words += [WAIT, ", ".join(waits)]
    return " ".join(words)


def parse_instruction(text: str) -> Instruction:
    """Parse the instruction of a line of text.

    Raises ProgramError that says what the line contains and what is allowed.
    """
    before, separator, after = _split(text)
    mnemonic, *assignments = before
    former = FORMER.get(mnemonic, Former(mnemonic))
    row = by_mnemonic().get(former.mnemonic)
    if row is None:
        raise ProgramError(_unknown("instruction", mnemonic, list(by_mnemonic())))
    specs = {spec.name: spec for spec in row.specs}
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ProgramError(f"{mnemonic}: {shown(assignment)} is not FIELD=VALUE")
        for field in former.fields.get(name, name).split():
            if field not in specs:
                raise ProgramError(f"{mnemonic}: {_unknown('field', field, list(specs))}")
            if field in values:
                raise ProgramError(f"{mnemonic}: {field} stands twice")
            written = former.values.get(field, {}).get(value, value)
            values[field] = _field_value(mnemonic, specs[field], written)
    for name, value in former.fixed.items():
        values.setdefault(name, _field_value(mnemonic, specs[name], value))
    values["waits"] = _waits(mnemonic, after) if separator else ()
    return row(**values)


def _split(text: str) -> tuple[list[str], bool, str]:
    """Split a line into mnemonic and fields, whether it has a wait, and the text of the wait."""
    words = text.split()
    if not words:
        raise ProgramError("no instruction")
    if WAIT not in words:
        return words, False, ""
    position = words.index(WAIT)
    if position == 0:
        raise ProgramError(f"{WAIT} stands before the instruction")
    return words[:position], True, " ".join(words[position + 1 :])


def _field_value(mnemonic: str, spec: FieldSpec, text: str) -> int:
    if text in spec.choices:
        return spec.choices.index(text)
    value = whole_number(text)
    if value is None:
        what = f"one of {', '.join(spec.choices)}" if spec.choices else "a whole number"
        near = nearest(text, spec.choices)
        hint = f", did you mean {near}?" if near else ""
        raise ProgramError(f"{mnemonic}: {spec.name} = {shown(text)} is not {what}{hint}")
    if not spec.low <= value <= spec.high:
        raise ProgramError(f"{mnemonic}: {spec.name} = {value} is outside {spec.low}..{spec.high}")
    return value


def _waits(mnemonic: str, text: str) -> Waits:
    waits: dict[int, int] = {}
    for part in text.split(","):
        match = _WAIT.fullmatch(part)
        count = whole_number(match[2]) if match else None
        if match is None or count is None:
            raise ProgramError(f"{mnemonic}: wait {shown(part.strip())} is not UNIT>=COUNT, such as mac>=3")
        if match[1] not in _PRODUCER_NAMES:
            raise ProgramError(f"{mnemonic}: wait: {_unknown('unit', match[1], _PRODUCER_NAMES)}")
        position = _PRODUCER_NAMES.index(match[1])
        if position in waits:
            raise ProgramError(f"{mnemonic}: wait: {match[1]} stands twice")
        if not 1 <= count <= LARGEST_COUNT:
            raise ProgramError(f"{mnemonic}: wait {match[1]}>={count} is outside 1..{LARGEST_COUNT}")
        waits[position] = count
    pairs = tuple(sorted(waits.items()))
    fault = wait_fault(pairs)
    if fault:
        raise ProgramError(f"{mnemonic}: {fault}")
    return pairs


def whole_number(text: str) -> int | None:
    """Return the value of a decimal or 0x... literal, or None if the text is no such literal."""
    if len(text) > LONGEST_NUMBER or not text.isascii():
        return None
    try:
        return int(text, 16 if text.lower().lstrip("+-").startswith("0x") else 10)
    except ValueError:
        return None


def _unknown(what: str, word: str, known: list[str]) -> str:
    near = nearest(word, known)
    article = "an" if what[0] in "aeio" else "a"
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known) or 'none'}"
    return f"{shown(word)} is not {article} {what}, {hint}"
