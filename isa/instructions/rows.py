"""The vector-unit instructions that bring rows to a common measure: shares, their logarithms, and unit length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from npusim.isa.arithmetic.integer import softmax_fixed_point
from npusim.isa.arithmetic.interpolated import ENTRIES, softmax_of_int16
from npusim.isa.arithmetic.rows import log_softmax_fixed_point, unit_length
from npusim.isa.base.cause import Cause
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.vector import (
    VECTOR_CAUSES,
    Codes,
    int16_field,
    int16_misfits,
    passes,
    turns,
)
from npusim.isa.instructions.word import LAST, FieldSpec, bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Instruction):
    """What functions of rows share; these lie one behind the other, or some beside each other."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "independent rows, those that lie beside each other counted once")
    depth: int = bits(24, "elements of a row")
    gap: int = bits(24, "elements of other rows between two elements of a row")

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, and the elements of each."""
        return self._all_rows, self.depth

    @property
    def _all_rows(self) -> int:
        return self.rows * (self.gap + 1)

    @property
    def _elements(self) -> int:
        return self._all_rows * self.depth

    @property
    def wide(self) -> int:
        """1 where elements are int16, else 0: they are bytes."""
        return 0

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        source, target = (
            dense(Space.SCRATCHPAD, at, self._elements << self.wide) for at in (self.input, self.output)
        )
        return (source,), (target,)

    def faults(self) -> list[str]:
        """At least one element."""
        return [f"{n} is 0; it may be 1 or more" for n in ("rows", "depth") if not getattr(self, n)]

    def _computed(self, rows: Codes) -> Codes:
        """Rows of codes [..., depth] -> those of the output."""
        raise NotImplementedError

    def _in_rows(
        self, memory: Memory, dtype: DTypeLike, compute: Callable[[Codes], Codes] | None = None
    ) -> list[Write]:
        """Compute all rows, by `_computed` unless another function is given."""
        shape, size = (self.rows, self.depth, self.gap + 1), self._elements << self.wide
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, size).view(dtype).reshape(shape)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, size).view(dtype).reshape(shape)
        rows = np.ascontiguousarray(source.swapaxes(1, 2))
        return [(target, (compute or self._computed)(rows).swapaxes(1, 2))]

    def _cycles(self, context: Context, of_element: int, of_row: int) -> int:
        """The lanes take elements of one row, or of rows that lie beside each other."""
        v = context.hardware.vector
        if self.gap:
            lines = passes(self.gap + 1, v) * (self.depth * of_element + of_row)
        else:
            lines = passes(self.depth, v) * of_element + of_row
        return v.startup_cycles + self.rows * lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Rows):
    """Softmax over rows of `depth` codes in fixed point (5 integer bits, 12 accumulation bits), of int16 by two tables.

    The output has scale 1/256 and its lowest code means zero. Rows lie one behind the other, or so many beside each
    other that elements of `gap` other rows stand between two elements of a row. Of int16 the output has scale 1/32768;
    exponentials and reciprocals are interpolated (`npusim.isa.arithmetic.interpolated.softmax_tables`).
    """

    mnemonic: ClassVar[str] = "vec.softmax"
    opcode: ClassVar[int] = 0x35
    specs: ClassVar[tuple[FieldSpec, ...]]

    multiplier: int = bits(31, "rescale of the difference to the row's maximum")
    left_shift: int = bits(6, "left shift of that rescale")
    difference_min: int = bits(32, "differences below count as zero probability", signed=True)
    signed: int = bits(1, "type of input and output", choices=SIGNS)
    gap: int = bits(24, "elements of other rows between two elements of a row", place=LAST)
    int16: int = int16_field("input and output are")
    table: int = bits(ADDRESS_BITS, "scratchpad address of the two tables for int16", place=LAST)

    @property
    def wide(self) -> int:
        """1 where elements are int16."""
        return self.int16

    @property
    def _loaded(self) -> int:
        """Bytes of the tables."""
        return 2 * 2 * ENTRIES * self.int16

    def regions(self, context: Context) -> Regions:
        """The input and, for int16, the tables are read; the output is written. All are dense."""
        reads, writes = Rows.regions(self, context)
        return (*reads, dense(Space.SCRATCHPAD, self.table, self._loaded))[: 1 + self.int16], writes

    def faults(self) -> list[str]:
        """At least one element; shifts of int16 are at most 31."""
        found = Rows.faults(self)
        if self.int16 and self.left_shift > 31:
            found.append(f"left_shift is {self.left_shift} with int16; it may be at most 31")
        return found

    def misfits(self, context: Context) -> list[str]:
        """Passes for int16."""
        return int16_misfits(self.int16, context)

    def _of_int16(self, memory: Memory) -> list[Write]:
        """Compute rows of int16 values by the two tables in memory."""
        raw = memory.bytes_at(Space.SCRATCHPAD, self.table, self._loaded).view("<i2").astype(np.int64)
        scale = self.multiplier, self.left_shift

        def shares(rows: Codes) -> Codes:
            return softmax_of_int16(rows.astype(np.int64), *scale, *np.split(raw, 2)).astype(np.int16)

        return self._in_rows(memory, "<i2", shares)

    def execute(self, memory: Memory) -> list[Write]:
        """Maximum, exponentials and sum, then the quotients, row by row."""
        if self.int16:
            return self._of_int16(memory)
        return self._in_rows(memory, np.int8 if self.signed else np.uint8)

    def _computed(self, rows: Codes) -> Codes:
        return softmax_fixed_point(rows, self.multiplier, self.left_shift, self.difference_min)

    def _each(self, context: Context) -> tuple[int, int]:
        """Cycles of an element and of a row."""
        v, times = context.hardware.vector, turns(self.int16, context)
        of_element = v.max_cycles + (v.exp_cycles + v.reduce_cycles) + (v.exp_cycles + v.requantise_cycles)
        return of_element * times, v.exp_cycles * times

    def cost(self, context: Context) -> Cost:
        """Start-up; per row three passes (maximum; exponential and add; exponential and rescale), one reciprocal.

        The lanes take elements of one row, or of rows that lie beside each other. Of int16 the tables come first.
        """
        size = self._elements
        actions = {
            "vector_max": size,
            "vector_exp": 2 * size + self._all_rows,
            "vector_add_i32": size,
            "requantise": size,
            "scratchpad_read_byte": (3 * size << self.wide) + self._loaded,
            "scratchpad_write_byte": size << self.wide,
        }
        tables = passes(self._loaded, context.hardware.vector)
        return Cost(self._cycles(context, *self._each(context)) + tables, actions)

    def demand(self, context: Context) -> int:
        """The three passes over every element, the reciprocal of every row."""
        of_element, of_row = self._each(context)
        return self._elements * of_element + self._all_rows * of_row


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSoftmax(Rows):
    """Logarithms of the softmax of rows of int8 codes in fixed point (5 integer bits, 12 accumulation bits).

    The output counts sixteenths below its largest code.
    """

    mnemonic: ClassVar[str] = "vec.log_softmax"
    opcode: ClassVar[int] = 0x3A
    specs: ClassVar[tuple[FieldSpec, ...]]

    multiplier: int = bits(31, "rescale of the difference to the row's maximum")
    left_shift: int = bits(6, "left shift of that rescale")
    difference_min: int = bits(32, "differences below count as zero probability", signed=True)
    back: int = bits(31, "rescale of a logarithm to a difference of codes")
    back_shift: int = bits(7, "shift of that rescale", signed=True)

    def execute(self, memory: Memory) -> list[Write]:
        """Maximum, exponentials and sum, then the differences from its logarithm, row by row."""
        return self._in_rows(memory, np.int8)

    def _computed(self, rows: Codes) -> Codes:
        return log_softmax_fixed_point(
            rows, self.multiplier, self.left_shift, self.difference_min, self.back, self.back_shift
        )

    def _each(self, context: Context) -> tuple[int, int]:
        """Cycles of an element and of a row."""
        v = context.hardware.vector
        return v.max_cycles + v.exp_cycles + v.reduce_cycles + v.requantise_cycles, v.exp_cycles

    def cost(self, context: Context) -> Cost:
        """Start-up; per row three passes (maximum; exponential and add; difference), one logarithm."""
        size = self._elements
        actions = {
            "vector_max": size,
            "vector_exp": size + self._all_rows,
            "vector_add_i32": size,
            "requantise": size,
            "scratchpad_read_byte": 3 * size,
            "scratchpad_write_byte": size,
        }
        return Cost(self._cycles(context, *self._each(context)), actions)

    def demand(self, context: Context) -> int:
        """The three passes over every element, the logarithm of every row."""
        of_element, of_row = self._each(context)
        return self._elements * of_element + self._all_rows * of_row


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLength(Rows):
    """Rows of codes, less their zero point, divided by the root of the sum of their squares.

    The output has scale 1/128 and the middle code of its type as zero point.
    """

    mnemonic: ClassVar[str] = "vec.unit_length"
    opcode: ClassVar[int] = 0x3B
    specs: ClassVar[tuple[FieldSpec, ...]]

    input_zero: int = bits(9, "zero point of the input", signed=True)
    signed: int = bits(1, "type of input and output", choices=SIGNS)

    def faults(self) -> list[str]:
        """At least one element; the sum of squares stays below 2^31."""
        found = Rows.faults(self)
        if self.depth * 255**2 >= 1 << 31:
            found.append(f"depth {self.depth} may overflow the accumulator; it may be less than 33026")
        return found

    def execute(self, memory: Memory) -> list[Write]:
        """Squares and their sum, its inverse root, then the products, row by row."""
        return self._in_rows(memory, np.int8 if self.signed else np.uint8)

    def _computed(self, rows: Codes) -> Codes:
        return unit_length(rows, self.input_zero)

    def _each(self, context: Context) -> tuple[int, int]:
        """Cycles of an element and of a row."""
        v = context.hardware.vector
        return v.mul_cycles + v.reduce_cycles + v.requantise_cycles, v.exp_cycles

    def cost(self, context: Context) -> Cost:
        """Start-up; per row two passes (square and add; rescale), one inverse root."""
        size = self._elements
        actions = {
            "vector_mul_q8": size,
            "vector_add_i32": size,
            "requantise": size,
            "vector_exp": self._all_rows,
            "scratchpad_read_byte": 2 * size,
            "scratchpad_write_byte": size,
        }
        return Cost(self._cycles(context, *self._each(context)), actions)

    def demand(self, context: Context) -> int:
        """The two passes over every element, the inverse root of every row."""
        of_element, of_row = self._each(context)
        return self._elements * of_element + self._all_rows * of_row
