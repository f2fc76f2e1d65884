"""The layout of an instruction word: the opcode, the waits, then the fields that an instruction declares with `bits`.

A wait is a pair (unit, count): the instruction starts only when the unit has completed that many instructions since
the program started. A word has room for `WAITS` of them, in rising order of units. Unused ones are zero. An instruction
that must wait for more units follows a barrier that waits for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.units import PRODUCERS

WORD_BYTES = 72
"""Bytes of one encoded instruction."""

OPCODE_BITS = 8
BARRIER = 0x01
"""Opcode of a barrier, behind which the code may have a gap."""
ADDRESS_BITS = 28
"""Bits of a scratchpad address."""
SIGNS = ("uint8", "int8")
"""The 8-bit types, in the order of the fields that select one."""
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
    """One field of an instruction word: `width` bits from bit `offset` on, with its meaning in `doc`."""

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
"""Positions of a field other than in the order of declaration: before all other fields, or after them."""


def bits(width: int, doc: str, *, signed: bool = False, choices: Sequence[str] = (), place: int = 0) -> Any:
    """Declare a field of `width` bits; `choices` names its values from 0 up.

    place: FIRST puts a field before those of its base class. LAST puts a field after all others, so that words
           encoded before the field was added have a zero there.
    """
    metadata = {"width": width, "doc": doc, "signed": signed, "choices": tuple(choices), "place": place}
    return field(default=0, metadata=metadata)


def _wait_specs() -> tuple[FieldSpec, ...]:
    specs, offset = [], OPCODE_BITS
    for number in range(WAITS):
        for name, width, doc in (
            ("unit", WAIT_UNIT_BITS, "unit to wait for"),
            (
                "count",
                WAIT_COUNT_BITS,
                "number of instructions that the unit must have completed; 0: no wait, and the unit is 0",
            ),
        ):
            specs.append(FieldSpec(f"wait{number}.{name}", width, offset, False, (), doc))
            offset += width
    return tuple(specs)


WAIT_SPECS = _wait_specs()
"""Unit and count of each wait, in turn."""


def wait_fault(waits: Waits) -> str:
    """Return why waits cannot be encoded in a word; empty if they can."""
    if len(waits) > WAITS:
        return f"{len(waits)} waits; an instruction has {WAITS}, a barrier in front of it may wait for others"
    for unit, count in waits:
        if not 0 <= unit < len(PRODUCERS):
            return f"wait for unit {unit}; it may be 0..{len(PRODUCERS) - 1}"
        if not 1 <= count <= LARGEST_COUNT:
            return f"wait count {count} is outside 1..{LARGEST_COUNT}"
    units = [unit for unit, _ in waits]
    return "" if units == sorted(set(units)) else "waits are not in rising order of their units"
