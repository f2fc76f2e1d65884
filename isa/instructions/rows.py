"""Vector-unit instructions that bring rows to a common measure: shares, their logarithms, and unit length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.float_codes import clamped, dequantise, quantise, sum_in_order
from npusim.isa.arithmetic.integer import softmax_fixed_point
from npusim.isa.arithmetic.interpolated import ENTRIES, softmax_of_int16
from npusim.isa.arithmetic.rows import log_softmax_fixed_point, unit_length
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.lanes import (
    Formatted,
    Values,
    VectorInstruction,
    Work,
    bound,
    code_type,
    float32_of,
    stored,
)
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import ADDRESS_BITS, FIRST, SIGNS, bits

FUNCTIONS = ("softmax", "log_softmax")
"""Functions of `vec.softmax`, in the order of its field."""
METHODS = ("literal", "fused")
"""How softmax is computed in float32 on 8-bit data, in the order of the field `fused`."""
EXPONENTIALS_BYTES = 1024
"""Of a table of 256 float32 exponentials."""


class Rows(VectorInstruction):
    """What functions of rows share; rows lie one behind the other, or `gap + 1` of them beside each other."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields of every subclass, at their places in its word
        input: int
        output: int
        rows: int
        depth: int
        gap: int

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, and the elements of each."""
        return self.all_rows, self.depth

    @property
    def all_rows(self) -> int:
        """Rows, those beside each other counted one by one."""
        return self.rows * (self.gap + 1)

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return self.all_rows * self.depth * self.number_format.size_bytes

    def regions(self, context: Context) -> Regions:
        """Dense input and output, and a dense table where there is one."""
        source, target = (dense(Space.SCRATCHPAD, at, self.size_bytes) for at in (self.input, self.output))
        return (source,), (target,)

    def faults(self) -> list[str]:
        """At least one element."""
        return [f"{n} is 0; it may be 1 or more" for n in ("rows", "depth") if not getattr(self, n)]

    def by_rows(
        self, memory: Memory, compute: Callable[[Values], Values], source_type: DTypeLike, dtype: DTypeLike
    ) -> list[Write]:
        """Compute all rows; `compute` takes and gives elements as [..., depth]."""
        shape = self.rows, self.depth, self.gap + 1
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size_bytes).view(source_type)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.size_bytes).view(dtype)
        results = compute(np.ascontiguousarray(source.reshape(shape).swapaxes(1, 2)))
        return [(target.reshape(shape), results.swapaxes(1, 2))]

    def parts(
        self, context: Context, of_element: Mapping[str, int], of_row: Mapping[str, int]
    ) -> tuple[Work, ...]:
        """Work by the actions of an element and of a row. Lanes take elements of one row, or of rows that lie beside
        each other.
        """
        if self.gap:
            groups = self.rows * self.groups(context, self.gap + 1)
            elements = groups * self.depth
        else:
            groups, elements = self.rows, self.rows * self.groups(context, self.depth)
        return (
            self.part(context, of_element, self.all_rows * self.depth, elements),
            self.part(context, of_row, self.all_rows, groups),
        )


class RowWay(NamedTuple):
    """How a function of rows is computed in one arithmetic: the actions of an element in three passes, and of a row.

    compute: (instruction, memory, rows [..., depth]) -> rows.
    """

    compute: Callable[[Softmax, Memory, Values], Values]
    of_element: Mapping[str, int]
    of_row: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Formatted, Rows):
    """Softmax over rows of `depth` elements, or its logarithm; an element's largest is taken off first.

    8_bit: fixed point, with 5 integer bits of differences and 12 of sums. The output has scale 1/256 and its lowest
    value means zero; logarithms, of int8 only, count sixteenths below the largest value. int16: exponentials and
    reciprocals are interpolated in two tables (`npusim.isa.arithmetic.interpolated.softmax_tables`), the output has
    scale 1/32768. as_float32, "literal": exponentials of the differences to the row's largest number, and their sum,
    have 64 bits; a quotient is rounded to float32, and quantized. "fused": e is the entry 255 - (largest - value) of a
    table of float32, s the float32 sum of the row's, one after the other; the result is
    rint(e * output_scale / s) + zero. Floats: softmax of beta * x. Scales and beta are the bits of a float32.
    """

    mnemonic: ClassVar[str] = "vec.softmax"
    opcode: ClassVar[int] = 0x35
    names: ClassVar[tuple[str, ...]] = FUNCTIONS

    function: int = bits(1, "what is computed", choices=FUNCTIONS, place=FIRST)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "independent rows, those that lie beside each other counted once")
    depth: int = bits(24, "elements of a row")
    gap: int = bits(24, "elements of other rows between two elements of a row")
    multiplier: int = bits(31, "8_bit and int16: factor of the difference to the row's maximum")
    left_shift: int = bits(6, "left shift of that factor")
    difference_min: int = bits(32, "8_bit: differences below count as zero probability", signed=True)
    back: int = bits(31, "8_bit: factor from a logarithm to a difference of 8-bit values")
    back_shift: int = bits(7, "shift of that factor", signed=True)
    table: int = bits(ADDRESS_BITS, "scratchpad address of the tables of int16, or of fused exponentials")
    fused: int = bits(1, "as_float32: how it is computed", choices=METHODS)
    input_zero: int = bits(9, "as_float32: zero point of the input", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    input_scale: int = bits(32, "as_float32: scale of the input")
    output_scale: int = bits(32, "of the output; fused, the largest result in steps of the output")
    low: int = bound("smallest")
    high: int = bound("largest")
    input_signed: int = bits(1, "as_float32: type of the input", choices=SIGNS)
    signed: int = bits(1, "type of 8-bit results, and of the input of 8_bit", choices=SIGNS)
    beta: int = bits(32, "floats: factor of the elements")

    @property
    def way(self) -> RowWay:
        """How the function is computed in the format."""
        return (
            _FUSED_WAY
            if self._in_float32 and self.fused
            else self.ways[FUNCTIONS[self.function], self.number_format.arithmetic]
        )

    @property
    def _in_float32(self) -> bool:
        return self.number_format.name == "as_float32"

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables."""
        if self.number_format.name == "int16":
            return 2 * 2 * ENTRIES
        return EXPONENTIALS_BYTES if self._in_float32 and self.fused else 0

    def regions(self, context: Context) -> Regions:
        """The input and the tables are read; the output is written. All are dense."""
        reads, writes = Rows.regions(self, context)
        tables = (dense(Space.SCRATCHPAD, self.table, self.table_bytes),) if self.table_bytes else ()
        return reads + tables, writes

    def faults(self) -> list[str]:
        """At least one element, a clamp inside the type in float32, shifts of int16 of at most 31, and logarithms of
        int8 and floats only.
        """
        found, name = Rows.faults(self), self.number_format.name
        if self._in_float32:
            found += self.range_faults(self.low, self.high)
        if name == "int16" and self.left_shift > 31:
            found.append(f"left_shift is {self.left_shift} with int16; it may be at most 31")
        if self.function and (name == "int16" or (name == "8_bit" and not self.signed)):
            found.append(
                f"function is {FUNCTIONS[1]} of {'int16' if name == 'int16' else 'uint8'}; it may be of int8"
            )
        return found + self.function_faults()

    def execute(self, memory: Memory) -> list[Write]:
        """Maximum, exponentials and sum, then the quotients or their logarithms, row by row."""
        source = code_type(self.input_signed) if self._in_float32 else self.dtype
        with np.errstate(all="ignore"):
            return self.by_rows(memory, lambda rows: self.way.compute(self, memory, rows), source, self.dtype)

    def traffic(self) -> tuple[int, int]:
        """Three passes read every element."""
        return 3 * self.size_bytes, self.size_bytes

    def work(self, context: Context) -> tuple[Work, ...]:
        """Three passes over a row (maximum; exponential and add; exponential and quotient, or difference), and its
        reciprocal or logarithm. Exponentials of float32 on 8-bit data have twice the bits, or are entries of 4 bytes.
        """
        way = self.way
        return self.parts(context, way.of_element, way.of_row)


def _fixed_point(row: Softmax, memory: Memory, rows: Values) -> Values:
    scale = row.multiplier, row.left_shift
    if row.number_format.name == "int16":
        raw = memory.bytes_at(Space.SCRATCHPAD, row.table, row.table_bytes).view("<i2").astype(np.int64)
        return softmax_of_int16(rows.astype(np.int64), *scale, *np.split(raw, 2)).astype(np.int16)
    if row.function:
        return log_softmax_fixed_point(rows, *scale, row.difference_min, row.back, row.back_shift)
    return softmax_fixed_point(rows, *scale, row.difference_min)


def _literal(row: Softmax, memory: Memory, rows: Values) -> Values:
    reals = dequantise(rows, float32_of(row.input_scale), row.input_zero).astype(np.float64)
    exponentials = np.exp(reals - reals.max(axis=-1, keepdims=True))
    shares = (exponentials / sum_in_order(exponentials)).astype(np.float32)
    return quantise(shares, float32_of(row.output_scale), row.output_zero, row.low, row.high, row.dtype)


def _fused(row: Softmax, memory: Memory, rows: Values) -> Values:
    table = memory.bytes_at(Space.SCRATCHPAD, row.table, EXPONENTIALS_BYTES).view("<f4")
    wide = rows.astype(np.int32)
    exponentials = table[255 - (wide.max(axis=-1, keepdims=True) - wide)]
    products = exponentials.astype(np.float64) * float32_of(row.output_scale)  # exact
    whole = np.rint(products / sum_in_order(exponentials).astype(np.float64)) + row.output_zero
    return clamped(whole.astype(np.float32), row.low, row.high, row.dtype)


def _in_floats(row: Softmax, memory: Memory, rows: Values) -> Values:
    values = real.softmax(rows.astype(np.float32), float32_of(row.beta), logarithm=bool(row.function))
    return stored(values, row.dtype)


_FIXED = {"vector_max": 1, "vector_exp": 2, "vector_add_i32": 1, "requantise": 1}
Softmax.ways = {
    ("softmax", "fixed_point"): RowWay(_fixed_point, _FIXED, {"vector_exp": 1}),
    ("log_softmax", "fixed_point"): RowWay(_fixed_point, {**_FIXED, "vector_exp": 1}, {"vector_exp": 1}),
    ("softmax", "as_float32"): RowWay(
        _literal, {"vector_max": 1, "vector_dequantise": 2, "vector_exp": 4, "vector_quantise": 1}, {}
    ),
    ("softmax", "float"): RowWay(
        _in_floats, {"float_add": 4, "float_multiply": 3, "float_function": 2}, {"float_divide": 1}
    ),
    ("log_softmax", "float"): RowWay(
        _in_floats, {"float_add": 5, "float_multiply": 2, "float_function": 1}, {"float_function": 1}
    ),
}
_FUSED_WAY = RowWay(_fused, {"vector_max": 1, "vector_lut": 8, "vector_fused": 1, "vector_quantise": 1}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLength(Rows):
    """Rows of 8-bit values, less their zero point, divided by the root of the sum of their squares.

    The output has scale 1/128 and the middle value of its type as zero point.
    """

    mnemonic: ClassVar[str] = "vec.unit_length"
    opcode: ClassVar[int] = 0x3B

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "independent rows, those that lie beside each other counted once")
    depth: int = bits(24, "elements of a row")
    gap: int = bits(24, "elements of other rows between two elements of a row")
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
        dtype = code_type(self.signed)
        return self.by_rows(memory, lambda rows: unit_length(rows, self.input_zero), dtype, dtype)

    def traffic(self) -> tuple[int, int]:
        """Two passes read every element."""
        return 2 * self.size_bytes, self.size_bytes

    def work(self, context: Context) -> tuple[Work, ...]:
        """Two passes over a row (square and add; requantize), and one inverse root."""
        steps = {"vector_mul_q8": 1, "vector_add_i32": 1, "requantise": 1}
        return self.parts(context, steps, {"vector_exp": 1})
