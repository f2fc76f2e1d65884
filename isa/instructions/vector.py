"""Vector-unit instructions of one dense operand: conversions between formats, functions of floats, and look-ups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.integer import requantise
from npusim.isa.arithmetic.interpolated import (
    ENTRIES,
    LOGISTIC_ENTRIES,
    logistic_words,
    look_up,
    tanh_words,
)
from npusim.isa.instructions.instruction import Context, Cost
from npusim.isa.instructions.lanes import (
    EFFORT_ACTIONS,
    FORMATS,
    Format,
    Formatted,
    VectorInstruction,
    Way,
    Work,
    bound,
    clamp_fault,
    float32_of,
    format_of,
    int16_misfits,
    stored,
)
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import ADDRESS_BITS, FIRST, LAST, bits


class Dense(VectorInstruction):
    """What functions of one dense operand share."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields of every subclass, at their places in its word
        input: int
        output: int
        size: int

    @property
    def tile(self) -> tuple[int, ...]:
        """The elements."""
        return (self.size,)

    def traffic(self) -> tuple[int, int]:
        """Every element is read and written once."""
        size = self.size * self.number_format.size_bytes
        return size, size

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        read, written = self.traffic()
        source = dense(Space.SCRATCHPAD, self.input, read)
        return (source,), (dense(Space.SCRATCHPAD, self.output, written),)

    def faults(self) -> list[str]:
        """At least one element."""
        return [] if self.size else ["size is 0; it may be 1 or more"]


TYPES = ("uint8", "int8", "int16", "float16", "float32")
"""The types of `vec.convert`, in the order of its fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Dense):
    """Take elements to another scale, zero point or type.

    Between integers: multiply (value - zero), round, add the new zero, clamp. From integers to floats:
    scale * (value - zero). From floats to 8-bit integers: x / scale, rounded half away from zero, plus zero, clamped
    to the type. The wider of the two float types computes. `scale` is the bits of a float32.
    """

    mnemonic: ClassVar[str] = "vec.convert"
    opcode: ClassVar[int] = 0x33

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    size: int = bits(ADDRESS_BITS, "elements")
    source: int = bits(3, "type of the input", choices=TYPES)
    target: int = bits(3, "type of the output", choices=TYPES)
    input_zero: int = bits(9, "zero point of an integer input", signed=True)
    output_zero: int = bits(9, "of an integer output", signed=True)
    multiplier: int = bits(31, "factor between integers")
    shift: int = bits(6, "shift behind it", signed=True)
    scale: int = bits(32, "scale of the integers where the other side is floats")
    low: int = bound("smallest")
    high: int = bound("largest")

    @property
    def number_format(self) -> Format:
        """The format that computes: the wider float type, else int16 if one side has it."""
        return FORMATS[max(format_of(TYPES[self.source]), format_of(TYPES[self.target]))]

    @property
    def _types(self) -> tuple[Any, Any]:
        """The numpy types of input and output."""
        source, target = (np.dtype(TYPES[each]).newbyteorder("<") for each in (self.source, self.target))
        return source, target

    @property
    def _floats(self) -> bool:
        return self.number_format.arithmetic == "float"

    def traffic(self) -> tuple[int, int]:
        """Every element is read and written once, in the type of its side."""
        source, target = self._types
        return self.size * source.itemsize, self.size * target.itemsize

    def faults(self) -> list[str]:
        """At least one element, a clamp inside the type between integers, and no floats beside int16."""
        found = Dense.faults(self)
        target = TYPES[self.target]
        if self._floats:
            wide = "int16" in (TYPES[self.source], target)
            return found + (["int16 beside floats; it may be int8 or uint8"] if wide else [])
        if target == "int16":
            return found + ([f"low {self.low} is above high {self.high}"] if self.low > self.high else [])
        return found + clamp_fault(int(target == "int8"), self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Convert every element; between 8-bit types by a table of all 256 values."""
        source, target = self._types
        read, written = self.traffic()
        elements = memory.bytes_at(Space.SCRATCHPAD, self.input, read).view(source)
        results = memory.bytes_at(Space.SCRATCHPAD, self.output, written).view(target)
        if self._floats:
            with np.errstate(all="ignore"):
                return [(results, self._converted(elements.astype(np.float32), source, target))]
        if source.itemsize == target.itemsize == 1:
            table = self._rescaled(np.arange(256, dtype=np.uint8).view(source), target)
            return [(results, table[elements.view(np.uint8)])]
        return [(results, self._rescaled(elements, target))]

    def _rescaled(self, values: Any, target: Any) -> Any:
        centred = values.astype(np.int32) - np.int32(self.input_zero)
        clamp = self.output_zero, self.low, self.high, target
        return requantise(centred, self.multiplier, self.shift, *clamp, "double")

    def _converted(self, values: Any, source: Any, target: Any) -> Any:
        scale = float32_of(self.scale)
        if source.kind != "f":
            values = scale * (values - np.float32(self.input_zero))
        if target.kind != "f":
            values = real.codes(values, scale, self.output_zero, target)
        return stored(values, target)

    def work(self, context: Context) -> tuple[Work, ...]:
        """A rescale of every element; with floats a product, a quotient, or nothing but the move."""
        source, target = self._types
        if not self._floats:
            action = "requantise"
        elif target.kind != "f":
            action = "float_divide"
        else:
            action = "float_add" if source.kind == "f" else "float_multiply"
        return (self.part(context, {action: 1}, self.size),)


_NAMES = tuple(row.name for row in real.UNARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Formatted, Dense):
    """A function of every float of a dense operand. `alpha` is the parameter of those that have one, as float32."""

    mnemonic: ClassVar[str] = "vec.unary"
    opcode: ClassVar[int] = 0x51
    names: ClassVar[tuple[str, ...]] = _NAMES
    ways: ClassVar[Any] = {
        (row.name, "float"): Way(row.compute, f"float_{EFFORT_ACTIONS[row.effort]}") for row in real.UNARY
    }

    function: int = bits(6, "what is computed", choices=_NAMES, place=FIRST)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    size: int = bits(ADDRESS_BITS, "elements")
    alpha: int = bits(32, "parameter of the function, the bits of a float32")

    def faults(self) -> list[str]:
        """At least one element, of a float type."""
        return Dense.faults(self) + self.function_faults()

    @np.errstate(all="ignore")
    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function."""
        values = self.way.compute(self.floats(memory, self.input, (self.size,)), float32_of(self.alpha))
        return [(self.elements_at(memory, self.output, (self.size,)), stored(values, self.dtype))]

    def work(self, context: Context) -> tuple[Work, ...]:
        """The function of every element."""
        return (self.part(context, self.way.steps(1), self.size),)


INT16_TABLES = ("no", "interpolated", "logistic", "tanh")
"""Functions of int16 by a table between whose entries lanes interpolate, in the order of the field `int16`."""

ENTRY_BYTES = (1, 2, 4)
"""What an entry of a look-up table may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Dense):
    """Replace each byte by its entry of a table of 256 entries.

    A lane gives one byte of an entry at a time: entries of 2 and 4 bytes take as many turns. Results for int16 lie
    between two of 513 entries of 2 bytes (`interpolated`), or of 256 of the logistic function, whose argument is the
    value times `multiplier` without its last `right` bits: `npusim.isa.arithmetic.interpolated`.
    """

    mnemonic: ClassVar[str] = "vec.lookup"
    opcode: ClassVar[int] = 0x34

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    size: int = bits(ADDRESS_BITS, "elements")
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
    def number_format(self) -> Format:
        """The format of the input."""
        return FORMATS[format_of("int16")] if self.int16 else FORMATS[0]

    @property
    def _given(self) -> int:
        """Bytes of the output."""
        return self.size * (2 if self.int16 else ENTRY_BYTES[self.entry])

    @property
    def table_bytes(self) -> int:
        """Bytes of the table."""
        if self.int16:
            return 2 * (ENTRIES if INT16_TABLES[self.int16] == "interpolated" else LOGISTIC_ENTRIES)
        return 256 * ENTRY_BYTES[self.entry]

    def regions(self, context: Context) -> Regions:
        """Input and table are read, the output is written."""
        source = dense(Space.SCRATCHPAD, self.input, self.size * self.number_format.size_bytes)
        table = dense(Space.SCRATCHPAD, self.table, self.table_bytes)
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
        entries = memory.bytes_at(Space.SCRATCHPAD, self.table, self.table_bytes)
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
        table = memory.bytes_at(Space.SCRATCHPAD, self.table, self.table_bytes).reshape(256, -1)
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size)
        return [(memory.bytes_at(Space.SCRATCHPAD, self.output, self._given), table[source].reshape(-1))]

    def traffic(self) -> tuple[int, int]:
        """An entry's bytes are read one by one; of int16 every value."""
        return self._given, self._given

    def work(self, context: Context) -> tuple[Work, ...]:
        """A look-up for each byte of the output; a result for int16 takes two and a product."""
        if self.int16:
            return (self.part(context, {"vector_lut": 2, "vector_mul_q8": 1}, self.size),)
        return (self.part(context, {"vector_lut": 1}, self._given),)

    def cost(self, context: Context) -> Cost:
        """That of the work behind loading the table; no time where the look-up is done on the way."""
        if self.fused:
            return Cost(0, {"vector_lut": self._given})
        return Dense.cost(self, context)

    def demand(self, context: Context) -> int:
        """That of the work, unless it is done on the way."""
        return Dense.demand(self, context) if self.int16 or not self.fused else 0
