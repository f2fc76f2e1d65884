"""The instruction word: an opcode, the waits, and behind them the fields that a row declares with `bits`.

A wait is a pair (unit, count): start only when the unit has completed that many instructions since the program
began. A word has room for `WAITS` of them, in rising order of units; what is not used is zero. An instruction that
must wait for more units stands behind a barrier that waits for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from npusim.isa.hardware.units import PRODUCERS

WORD_BYTES = 72
"""Bytes of one encoded instruction."""

OPCODE_BITS = 8
ADDRESS_BITS = 28
"""Bits of a scratchpad address."""
SIGNS = ("uint8", "int8")
"""The 8-bit types, in the order of fields that choose one."""
CODES = ((0, 255), (-128, 127))
"""Smallest and largest value of each of `SIGNS`."""
WAITS = 4
"""Most units that one instruction can wait for."""
WAIT_UNIT_BITS = 6
WAIT_COUNT_BITS = 24
FIELDS_OFFSET = OPCODE_BITS + WAITS * (WAIT_UNIT_BITS + WAIT_COUNT_BITS)
"""First bit of the fields of an instruction."""
LARGEST_COUNT = (1 << WAIT_COUNT_BITS) - 1

Waits = tuple[tuple[int, int], ...]
"""Pairs of a unit and a count of its completions, in rising order of units."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of an instruction word: `width` bits from `offset`, and what it means."""

    name: str
    width: int
    offset: int
    signed: bool
    choices: tuple[str, ...]
    doc: str

    @property
    def low(self) -> int:
        """Smallest value."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Largest value."""
        if self.choices:
            return len(self.choices) - 1
        return (1 << (self.width - self.signed)) - 1


FIRST, LAST = -1, 1
"""Where a field lies that does not lie where it is declared: before all of these, or behind them."""


def bits(width: int, doc: str, *, signed: bool = False, choices: Sequence[str] = (), place: int = 0) -> Any:
    """Declare a field of `width` bits; `choices` names its values from 0 up.

    A field of a row's own lies before those that rows share with the place FIRST. One that rows share lies behind their
    own with LAST, so that words made before it was thought of have a zero there.
    """
    metadata = {"width": width, "doc": doc, "signed": signed, "choices": tuple(choices), "place": place}
    return field(default=0, metadata=metadata)


def _wait_specs() -> tuple[FieldSpec, ...]:
    specs, offset = [], OPCODE_BITS
    for number in range(WAITS):
        for name, width, doc in (
            ("unit", WAIT_UNIT_BITS, "the unit that is waited for"),
            ("count", WAIT_COUNT_BITS, "instructions that it must have completed; 0: no wait, its unit is 0"),
        ):
            specs.append(FieldSpec(f"wait{number}.{name}", width, offset, False, (), doc))
            offset += width
    return tuple(specs)


WAIT_SPECS = _wait_specs()
"""Unit and count of each wait, in turn."""


def wait_fault(waits: Waits) -> str:
    """What keeps waits from standing in a word; empty if nothing does."""
    if len(waits) > WAITS:
        return f"{len(waits)} waits; an instruction has {WAITS}, a barrier in front of it may wait for others"
    for unit, count in waits:
        if not 0 <= unit < len(PRODUCERS):
            return f"wait for unit {unit}; it may be 0..{len(PRODUCERS) - 1}"
        if not 1 <= count <= LARGEST_COUNT:
            return f"wait count {count} is outside 1..{LARGEST_COUNT}"
    units = [unit for unit, _ in waits]
    return "" if units == sorted(set(units)) else "waits are not in rising order of their units"
