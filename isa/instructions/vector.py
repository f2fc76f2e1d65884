"""The vector-unit instructions of one operand: rescale and look-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import requantise
from npusim.isa.arithmetic.interpolated import (
    ENTRIES,
    LOGISTIC_ENTRIES,
    logistic_words,
    look_up,
    tanh_words,
)
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


def int16_field(what: str = "operands and output are") -> Any:
    """The field of a row that also computes on int16."""
    doc = f"{what} int16, in passes (`vector.int16_passes`)"
    return bits(1, doc, choices=("no", "yes"), place=LAST)


def int16_bound(which: str) -> Any:
    """The field of the smallest or the largest int16 result, in place of `low` or `high`."""
    return bits(16, f"{which} result if it is int16", signed=True, place=LAST)


def range_faults(instruction: Any) -> list[str]:
    """What is wrong with the range of results, 8-bit or int16; empty if nothing."""
    if not instruction.int16:
        return clamp_fault(instruction.signed, instruction.low, instruction.high)
    low, high = instruction.int16_low, instruction.int16_high
    return [] if low <= high else [f"int16_low {low} is above int16_high {high}"]


def range_of(instruction: Any) -> tuple[int, int, Any]:
    """The smallest and the largest result of an instruction, and their numpy type."""
    if instruction.int16:
        return instruction.int16_low, instruction.int16_high, np.dtype("<i2")
    return instruction.low, instruction.high, code_type(instruction.signed)


def int16_misfits(wide: int, context: Context) -> list[str]:
    """What int16 values need that the machine does not have; empty if nothing."""
    if not wide or context.hardware.vector.int16_passes:
        return []
    return ["computes on int16, the machine has vector.int16_passes = 0"]


def turns(wide: int, context: Context) -> int:
    """How often lanes pass over their elements."""
    return context.hardware.vector.int16_passes if wide else 1


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
    int16_input: int = int16_field("the input is")
    int16: int = int16_field("the output is")
    int16_low: int = int16_bound("smallest")
    int16_high: int = int16_bound("largest")

    @property
    def _bytes(self) -> tuple[int, int]:
        """Bytes of an element of the input and of the output."""
        return 1 + self.int16_input, 1 + self.int16

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        read, written = (self.size * each for each in self._bytes)
        source = dense(Space.SCRATCHPAD, self.input, read)
        return (source,), (dense(Space.SCRATCHPAD, self.output, written),)

    def faults(self) -> list[str]:
        """At least one element and a clamp inside the type."""
        return _Unary.faults(self) + range_faults(self)

    def misfits(self, context: Context) -> list[str]:
        """Passes for int16."""
        return int16_misfits(self.int16 | self.int16_input, context)

    def _wide(self, memory: Memory) -> list[Write]:
        """Requantize each element."""
        low, high, output_type = range_of(self)
        input_type = np.dtype("<i2") if self.int16_input else code_type(self.input_signed)
        read, written = (self.size * each for each in self._bytes)
        values = memory.bytes_at(Space.SCRATCHPAD, self.input, read).view(input_type).astype(np.int32)
        values -= self.input_zero
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, written).view(output_type)
        results = requantise(
            values, self.multiplier, self.shift, self.output_zero, low, high, output_type, "double"
        )
        return [(target, results)]

    def execute(self, memory: Memory) -> list[Write]:
        """Rescale the 256 possible codes, then look each element up."""
        if self.int16 or self.int16_input:
            return self._wide(memory)
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
        cycles = v.startup_cycles + passes(self.size, v) * self._cycles(context)
        read, written = (self.size * each for each in self._bytes)
        actions = {"requantise": self.size, "scratchpad_read_byte": read, "scratchpad_write_byte": written}
        return Cost(cycles, actions)

    def _cycles(self, context: Context) -> int:
        return context.hardware.vector.requantise_cycles * turns(self.int16 | self.int16_input, context)

    def demand(self, context: Context) -> int:
        """The rescale of every element."""
        return self.size * self._cycles(context)


INT16_TABLES = ("no", "interpolated", "logistic", "tanh")
"""Functions of int16 by a table between whose entries lanes interpolate, in the order of the field `int16`."""

ENTRY_BYTES = (1, 2, 4)
"""What an entry of a look-up table may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(_Unary):
    """Replace each byte by its entry of a table of 256 entries.

    A lane gives one byte of an entry at a time: entries of 2 and 4 bytes take as many turns. Results for int16 lie
    between two of 513 entries of 2 bytes (`interpolated`), or of 256 of the logistic function, whose argument is the
    value times `multiplier` without its last `right` bits: `npusim.isa.arithmetic.interpolated`.
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
    int16: int = bits(
        2, "the function of int16, in passes (`vector.int16_passes`)", choices=INT16_TABLES, place=LAST
    )
    multiplier: int = bits(15, "what takes an argument of logistic and tanh to 1/12288", place=LAST)
    right: int = bits(5, "places by which that is moved right, rounded", place=LAST)

    @property
    def _given(self) -> int:
        """Bytes of the output."""
        return self.size * (2 if self.int16 else ENTRY_BYTES[self.entry])

    @property
    def _loaded(self) -> int:
        """Bytes of the table."""
        if self.int16:
            return 2 * (ENTRIES if INT16_TABLES[self.int16] == "interpolated" else LOGISTIC_ENTRIES)
        return 256 * ENTRY_BYTES[self.entry]

    def regions(self, context: Context) -> Regions:
        """Input and table are read, the output is written."""
        source = dense(Space.SCRATCHPAD, self.input, self.size * (2 if self.int16 else 1))
        table = dense(Space.SCRATCHPAD, self.table, self._loaded)
        return (source, table), (dense(Space.SCRATCHPAD, self.output, self._given),)

    def misfits(self, context: Context) -> list[str]:
        """Only some machines look up on the way, or compute on int16."""
        if self.int16:
            return int16_misfits(1, context)
        if self.fused <= context.hardware.vector.fused_lookup:
            return []
        return [f"{context.hardware.name} looks nothing up on the way; vector.fused_lookup is false"]

    def _interpolated(self, memory: Memory) -> list[Write]:
        """Look every int16 value up."""
        source, target = (
            memory.bytes_at(Space.SCRATCHPAD, at, 2 * self.size).view("<i2")
            for at in (self.input, self.output)
        )
        entries = memory.bytes_at(Space.SCRATCHPAD, self.table, self._loaded)
        values, function = source.astype(np.int64), INT16_TABLES[self.int16]
        if function == "interpolated":
            return [(target, look_up(entries.view("<i2").astype(np.int64), values).astype(np.int16))]
        steps = (values * self.multiplier + ((1 << self.right) >> 1)) >> self.right
        compute = logistic_words if function == "logistic" else tanh_words
        return [(target, compute(steps, entries.view("<u2").astype(np.int64)).astype(np.int16))]

    def execute(self, memory: Memory) -> list[Write]:
        """Look every byte up."""
        if self.int16:
            return self._interpolated(memory)
        table = memory.bytes_at(Space.SCRATCHPAD, self.table, self._loaded).reshape(256, -1)
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size)
        return [(memory.bytes_at(Space.SCRATCHPAD, self.output, self._given), table[source].reshape(-1))]

    def cost(self, context: Context) -> Cost:
        """Start-up, loading the table at `lanes` bytes per cycle, then a look-up for each byte of the output; nothing
        of that where it is done on the way. A result for int16 takes two look-ups and a product, in passes.
        """
        v = context.hardware.vector
        if self.fused:
            return Cost(0, {"vector_lut": self._given})
        if self.int16:
            table = v.startup_cycles + passes(self._loaded, v)
            actions = {
                "vector_lut": 2 * self.size,
                "vector_mul_q8": self.size,
                "scratchpad_read_byte": self._given + self._loaded,
                "scratchpad_write_byte": self._given,
            }
            return Cost(table + passes(self.size, v) * self._cycles(context), actions)
        cycles = v.startup_cycles + passes(self._loaded, v) + passes(self._given, v) * v.lut_cycles
        actions = {
            "vector_lut": self._given,
            "scratchpad_read_byte": self._given + self._loaded,
            "scratchpad_write_byte": self._given,
        }
        return Cost(cycles, actions)

    def _cycles(self, context: Context) -> int:
        """Of an int16 element."""
        v = context.hardware.vector
        return (2 * v.lut_cycles + v.mul_cycles) * turns(1, context)

    def demand(self, context: Context) -> int:
        """The look-up of every byte of the output; for int16 two look-ups and a product for every element."""
        if self.int16:
            return self.size * self._cycles(context)
        return 0 if self.fused else self._given * context.hardware.vector.lut_cycles
