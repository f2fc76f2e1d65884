"""Vector-unit instructions on one dense operand: conversions between formats, functions of floats, and look-ups."""

from __future__ import annotations

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
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.instructions.instruction import Context, Cost, zero_faults
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
    stored,
)
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import ADDRESS_BITS, FIRST, LAST, bits


class Dense(VectorInstruction):
    """The base of vector instructions on one dense operand."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields of every subclass, at their places in its word
        input: int
        output: int
        size: int

    @property
    def tile(self) -> tuple[int, ...]:
        """Number of elements."""
        return (self.size,)

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Every element is read and written once."""
        size = self.size * self.number_format.size_bytes
        return size, size

    def regions(self, context: Context) -> Regions:
        """Return the regions of the dense input and of the dense output."""
        read, written = self.traffic()
        source = dense(Space.SCRATCHPAD, self.input, read)
        return (source,), (dense(Space.SCRATCHPAD, self.output, written),)

    def faults(self) -> list[str]:
        """There is at least one element."""
        return zero_faults(self, ("size",))


TYPES = ("uint8", "int8", "int16", "float16", "float32", "int32", "int64")
"""The types of `vec.convert`, in the order of its fields. The last two are types of the input only."""
_RESULT_TYPES, _WIDE = TYPES[:-2], TYPES[-2:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Dense):
    """Convert elements to another scale, zero point or type.

    Between integers: multiply (value - zero), round, add the new zero point, clamp. From integers to floats:
    scale * (value - zero), where int32 and int64 are rounded to float32 first. From floats to 8-bit integers: x /
    scale, rounded half away from zero, plus the zero point, clamped to the type. Between floats, the lanes of the wider
    type compute. `scale` holds the bits of a float32.
    """

    mnemonic: ClassVar[str] = "vec.convert"
    opcode: ClassVar[int] = 0x33

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    size: int = bits(ADDRESS_BITS, "number of elements")
    source: int = bits(3, "type of the input", choices=TYPES)
    target: int = bits(3, "type of the output", choices=_RESULT_TYPES)
    input_zero: int = bits(9, "zero point of an integer input", signed=True)
    output_zero: int = bits(9, "zero point of an integer output", signed=True)
    multiplier: int = bits(31, "multiplier of the requantization between integers")
    shift: int = bits(6, "shift of the requantization between integers", signed=True)
    scale: int = bits(32, "scale of the integers if the other side is floats")
    low: int = bound("smallest")
    high: int = bound("largest")

    @property
    def number_format(self) -> Format:
        """The number format that computes: the wider float type if there is one, else int16 if one side has it."""
        if TYPES[self.source] in _WIDE:
            return FORMATS[format_of("float32")]
        return FORMATS[max(format_of(TYPES[self.source]), format_of(TYPES[self.target]))]

    @property
    def _types(self) -> tuple[Any, Any]:
        """The numpy types of input and output."""
        source, target = (np.dtype(TYPES[index]).newbyteorder("<") for index in (self.source, self.target))
        return source, target

    @property
    def _floats(self) -> bool:
        return self.number_format.arithmetic == "float"

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Every element is read and written once, each side in its own type."""
        source, target = self._types
        return self.size * source.itemsize, self.size * target.itemsize

    def faults(self) -> list[str]:
        """There is at least one element. Between integers, the clamp is within the output's type. int16 cannot be
        converted to or from floats.
        """
        messages = Dense.faults(self)
        target = TYPES[self.target]
        if TYPES[self.source] in _WIDE:
            return messages + (
                []
                if target == "float32"
                else [f"target is {target}; of {TYPES[self.source]} it may be float32"]
            )
        if self._floats:
            wide = "int16" in (TYPES[self.source], target)
            return messages + (["int16 beside floats; it may be int8 or uint8"] if wide else [])
        if target == "int16":
            return messages + ([f"low {self.low} is above high {self.high}"] if self.low > self.high else [])
        return messages + clamp_fault(int(target == "int8"), self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Convert every element."""
        source, target = self._types
        read, written = self.traffic()
        elements = memory.bytes_at(Space.SCRATCHPAD, self.input, read).view(source)
        results = memory.bytes_at(Space.SCRATCHPAD, self.output, written).view(target)
        if self._floats:
            with np.errstate(all="ignore"):
                return [(results, self._converted(elements.astype(np.float32), source, target))]
        if source.itemsize == target.itemsize == 1:
            # A table of all 256 results is faster than computing each element.
            table = self._requantized(np.arange(256, dtype=np.uint8).view(source), target)
            return [(results, table[elements.view(np.uint8)])]
        return [(results, self._requantized(elements, target))]

    def _requantized(self, values: Any, target: Any) -> Any:
        centred = values.astype(np.int32) - np.int32(self.input_zero)
        clamp = self.output_zero, self.low, self.high, target
        return requantise(centred, self.multiplier, self.shift, *clamp, "double")

    def _converted(self, values: Any, source: Any, target: Any) -> Any:
        scale = float32_of(self.scale)
        if source.kind != "f":
            values = scale * (values - np.float32(self.input_zero))
        if target.kind != "f":
            values = real.quantized(values, scale, self.output_zero, target)
        return stored(values, target)

    def work(self, context: Context) -> tuple[Work, ...]:
        """A requantization per element between integers. With floats a product, a quotient, or only the move.

        int64 takes a product for each of its two words.
        """
        source, target = self._types
        if not self._floats:
            action = "requantise"
        elif target.kind != "f":
            action = "float_divide"
        else:
            action = "float_add" if source.kind == "f" else "float_multiply"
        words = 2 if source.itemsize == 8 else 1
        return (self.part(context, {action: words}, self.size),)


_NAMES = tuple(row.name for row in real.UNARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Formatted, Dense):
    """Apply a function to every float of a dense operand. `alpha` is the parameter of functions that have one."""

    mnemonic: ClassVar[str] = "vec.unary"
    opcode: ClassVar[int] = 0x51
    names: ClassVar[tuple[str, ...]] = _NAMES
    ways: ClassVar[Any] = {
        (row.name, "float"): Way(row.compute, f"float_{EFFORT_ACTIONS[row.effort]}") for row in real.UNARY
    }

    function: int = bits(6, "what is computed", choices=_NAMES, place=FIRST)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    size: int = bits(ADDRESS_BITS, "number of elements")
    alpha: int = bits(32, "parameter of the function, the bits of a float32")

    def faults(self) -> list[str]:
        """There is at least one element, and the format is a float type."""
        return Dense.faults(self) + self.function_faults()

    @np.errstate(all="ignore")
    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function to every element."""
        values = self.way.compute(self.floats(memory, self.input, (self.size,)), float32_of(self.alpha))
        return [(self.elements_at(memory, self.output, (self.size,)), stored(values, self.dtype))]

    def work(self, context: Context) -> tuple[Work, ...]:
        """Every element takes the action of the function in a lane."""
        return (self.part(context, self.way.steps(1), self.size),)


INT16_TABLES = ("no", "interpolated", "logistic", "tanh")
"""Functions of int16 by a table with interpolation between entries, in the order of the field `int16`."""

ENTRY_BYTES = (1, 2, 4)
"""Sizes of an entry of a look-up table, in the order of the field `entry`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Dense):
    """Replace each byte by its entry in a table of 256 entries, or each int16 by interpolation in a table.

    A lane reads one byte of an entry per step, so entries of 2 and 4 bytes take 2 and 4 steps. For int16,
    "interpolated" interpolates between two of 513 entries of 2 bytes. "logistic" and "tanh" interpolate between two of
    256 entries of the logistic function; its argument is the value times `multiplier`, shifted right by `right`. The
    formulas are those of `npusim.isa.arithmetic.interpolated`.
    """

    mnemonic: ClassVar[str] = "vec.lookup"
    opcode: ClassVar[int] = 0x34

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    size: int = bits(ADDRESS_BITS, "number of elements")
    table: int = bits(ADDRESS_BITS, "scratchpad address of the table, indexed by the input's byte")
    entry: int = bits(2, "bytes of an entry, and of an element of the output", choices=("1", "2", "4"))
    fused: int = bits(
        1,
        "yes: takes no time, as the MAC array's output stage did the look-up (`vector.fused_lookup`)",
        choices=("no", "yes"),
        place=LAST,
    )
    int16: int = bits(2, "function of int16 values (`vector.int16_passes`)", choices=INT16_TABLES, place=LAST)
    multiplier: int = bits(
        15, "multiplier that scales an argument of logistic or tanh to 1/12288", place=LAST
    )
    right: int = bits(5, "rounding right shift after the multiplier", place=LAST)

    @property
    def number_format(self) -> Format:
        """The number format of the input."""
        return FORMATS[format_of("int16")] if self.int16 else FORMATS[0]

    @property
    def _output_bytes(self) -> int:
        """Bytes of the output."""
        return self.size * (2 if self.int16 else ENTRY_BYTES[self.entry])

    @property
    def table_bytes(self) -> int:
        """Bytes of the table."""
        if self.int16:
            return 2 * (ENTRIES if INT16_TABLES[self.int16] == "interpolated" else LOGISTIC_ENTRIES)
        return 256 * ENTRY_BYTES[self.entry]

    def regions(self, context: Context) -> Regions:
        """Return the regions of input and table, which are read, and of the output."""
        source = dense(Space.SCRATCHPAD, self.input, self.size * self.number_format.size_bytes)
        table = dense(Space.SCRATCHPAD, self.table, self.table_bytes)
        return (source, table), (dense(Space.SCRATCHPAD, self.output, self._output_bytes),)

    def misfits(self, context: Context) -> list[str]:
        """A fused look-up needs `vector.fused_lookup`, and int16 needs `vector.int16_passes`."""
        if self.int16 or self.fused <= context.hardware.vector.fused_lookup:
            return Dense.misfits(self, context)
        return [f"{context.hardware.name} has no fused look-up; vector.fused_lookup is false"]

    def _interpolated(self, memory: Memory) -> list[Write]:
        """Return the writes of a look-up of int16 values."""
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
        """Look up every element in the table."""
        if self.int16:
            return self._interpolated(memory)
        table = memory.bytes_at(Space.SCRATCHPAD, self.table, self.table_bytes).reshape(256, -1)
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size)
        return [
            (memory.bytes_at(Space.SCRATCHPAD, self.output, self._output_bytes), table[source].reshape(-1))
        ]

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. An element is read once for every byte of its entry."""
        return self._output_bytes, self._output_bytes

    def work(self, context: Context) -> tuple[Work, ...]:
        """One look-up per byte of the output. An int16 result takes two look-ups and a product."""
        if self.int16:
            return (self.part(context, {"vector_lut": 2, "vector_mul_q8": 1}, self.size),)
        return (self.part(context, {"vector_lut": 1}, self._output_bytes),)

    def cost(self, context: Context) -> Cost:
        """A fused look-up takes no time. Otherwise the table is loaded, then the work is done."""
        if self.fused:
            return Cost(0, {"vector_lut": self._output_bytes})
        return Dense.cost(self, context)

    def demand(self, context: Context) -> int:
        """Return the lane cycles of the work; 0 for a fused look-up."""
        return Dense.demand(self, context) if self.int16 or not self.fused else 0
