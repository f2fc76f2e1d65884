"""The vector-unit instructions of one operand: rescale and look-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.cause import Cause
from npusim.isa.hardware.hardware import Vector
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import LAST, FieldSpec, bits

Codes = NDArray[Any]

VECTOR_CAUSES = (
    Cause(
        "vector_overhead",
        "vector overhead",
        "#5bb89f",
        "inside the vector unit: start-up, lanes without an element, loading tables, bytes of positions",
        ("vector.startup_cycles",),
    ),
)


def code_type(signed: int) -> Any:
    """The numpy type of codes, by `SIGNS`."""
    return np.int8 if signed else np.uint8


def clamp_fault(signed: int, low: int, high: int) -> list[str]:
    """What is wrong with a clamp of codes; empty if nothing."""
    code_low, code_high = (-128, 127) if signed else (0, 255)
    if code_low <= low <= high <= code_high:
        return []
    return [f"clamp {low}..{high} does not lie in {code_low}..{code_high}"]


def passes(elements: int, v: Vector) -> int:
    """Cycles for one pass of a one-cycle function over `elements`."""
    return -(-elements // v.lanes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unary(Instruction):
    """Fields of the functions of one dense operand."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    size: int = bits(ADDRESS_BITS, "elements")

    @property
    def tile(self) -> tuple[int, ...]:
        """The elements."""
        return (self.size,)

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        source = dense(Space.SCRATCHPAD, self.input, self.size)
        return (source,), (dense(Space.SCRATCHPAD, self.output, self.size),)

    def faults(self) -> list[str]:
        """At least one element."""
        return [] if self.size else ["size is 0; it may be 1 or more"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale(_Unary):
    """Take codes to another scale, zero point or type: multiply (code - zero), round, add the new zero, clamp."""

    mnemonic: ClassVar[str] = "vec.rescale"
    opcode: ClassVar[int] = 0x33
    specs: ClassVar[tuple[FieldSpec, ...]]

    input_zero: int = bits(9, "zero point of the input", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    multiplier: int = bits(31, "rescale")
    shift: int = bits(6, "shift of the rescale", signed=True)
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    input_signed: int = bits(1, "type of the input", choices=SIGNS)
    signed: int = bits(1, "type of the output", choices=SIGNS)

    def faults(self) -> list[str]:
        """At least one element and a clamp inside the type."""
        return _Unary.faults(self) + clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Rescale the 256 possible codes, then look each element up."""
        table = requantise(
            np.arange(256, dtype=np.uint8).view(code_type(self.input_signed)).astype(np.int32) - self.input_zero,
            self.multiplier, self.shift, self.output_zero, self.low, self.high, code_type(self.signed), "double",
        )  # fmt: skip
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.size)
        return [(target, table.view(np.uint8)[source])]

    def cost(self, context: Context) -> Cost:
        """Start-up, then the rescale of every `lanes` elements."""
        v = context.hardware.vector
        cycles = v.startup_cycles + passes(self.size, v) * v.requantise_cycles
        actions = {
            "requantise": self.size, "scratchpad_read_byte": self.size, "scratchpad_write_byte": self.size,
        }  # fmt: skip
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The rescale of every element."""
        return self.size * context.hardware.vector.requantise_cycles


ENTRY_BYTES = (1, 2, 4)
"""What an entry of a look-up table may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(_Unary):
    """Replace each byte by its entry of a table of 256 entries.

    A lane gives one byte of an entry at a time: entries of 2 and 4 bytes take as many turns.
    """

    mnemonic: ClassVar[str] = "vec.lookup"
    opcode: ClassVar[int] = 0x34
    specs: ClassVar[tuple[FieldSpec, ...]]

    table: int = bits(ADDRESS_BITS, "scratchpad address of the table, indexed by the input's byte")
    entry: int = bits(2, "bytes of an entry, and of an element of the output", choices=("1", "2", "4"))
    fused: int = bits(
        1,
        "takes no time: who gave the input looked it up (`vector.fused_lookup`)",
        choices=("no", "yes"),
        place=LAST,
    )

    @property
    def _given(self) -> int:
        """Bytes of the output."""
        return self.size * ENTRY_BYTES[self.entry]

    @property
    def _loaded(self) -> int:
        """Bytes of the table."""
        return 256 * ENTRY_BYTES[self.entry]

    def regions(self, context: Context) -> Regions:
        """Input and table are read, the output is written."""
        source = dense(Space.SCRATCHPAD, self.input, self.size)
        table = dense(Space.SCRATCHPAD, self.table, self._loaded)
        return (source, table), (dense(Space.SCRATCHPAD, self.output, self._given),)

    def misfits(self, context: Context) -> list[str]:
        """Only some machines look up on the way."""
        if self.fused <= context.hardware.vector.fused_lookup:
            return []
        return [f"{context.hardware.name} looks nothing up on the way; vector.fused_lookup is false"]

    def execute(self, memory: Memory) -> list[Write]:
        """Look every byte up."""
        table = memory.bytes_at(Space.SCRATCHPAD, self.table, self._loaded).reshape(256, -1)
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size)
        return [(memory.bytes_at(Space.SCRATCHPAD, self.output, self._given), table[source].reshape(-1))]

    def cost(self, context: Context) -> Cost:
        """Start-up, loading the table at `lanes` bytes per cycle, then a look-up for each byte of the output; nothing
        of that where it is done on the way.
        """
        v = context.hardware.vector
        if self.fused:
            return Cost(0, {"vector_lut": self._given})
        cycles = v.startup_cycles + passes(self._loaded, v) + passes(self._given, v) * v.lut_cycles
        actions = {
            "vector_lut": self._given,
            "scratchpad_read_byte": self._given + self._loaded,
            "scratchpad_write_byte": self._given,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The look-up of every byte of the output."""
        return 0 if self.fused else self._given * context.hardware.vector.lut_cycles
