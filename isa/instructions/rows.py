"""Vector-unit instructions that normalize rows: softmax, log-softmax and L2 normalization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.float_codes import clamped, dequantise, quantise, sum_in_order
from npusim.isa.arithmetic.integer import softmax_exponentials, softmax_fixed_point
from npusim.isa.arithmetic.interpolated import ENTRIES, softmax_of_int16
from npusim.isa.arithmetic.rows import log_softmax_fixed_point, unit_length
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.instructions.instruction import Context, zero_faults
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
"""The methods of rows of 8-bit data, in the order of the field `fused`."""
EXPONENTIALS = 256
"""Entries of a table of exponentials: one for each difference of two 8-bit values to the larger one."""
EXPONENTIAL_BYTES = 4
EXPONENTIALS_BYTES = EXPONENTIALS * EXPONENTIAL_BYTES
"""Bytes of a table of exponentials, float32 or int32."""
PASSES_OF_EXPONENTIALS = 2
"""Passes over a row that need its exponentials: for their sum, and for the quotients."""
HELD_ROWS = 16
"""Rows whose sums a lane holds, so that lanes compute roots or reciprocals of several rows together: an assumption."""


class Rows(VectorInstruction):
    """The base of instructions on rows. Rows are stored one after the other, or `gap + 1` of them interleaved."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields of every subclass, at their places in its word
        input: int
        output: int
        rows: int
        depth: int
        gap: int

    @property
    def tile(self) -> tuple[int, ...]:
        """Number of rows and of elements in each."""
        return self.all_rows, self.depth

    @property
    def interleaved(self) -> int:
        """Number of rows in a set of interleaved rows."""
        return self.gap + 1

    @property
    def all_rows(self) -> int:
        """Number of rows, including interleaved ones."""
        return self.rows * self.interleaved

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return self.all_rows * self.depth * self.number_format.size_bytes

    def regions(self, context: Context) -> Regions:
        """Return the regions of the dense input and of the dense output."""
        source, target = (dense(Space.SCRATCHPAD, at, self.size_bytes) for at in (self.input, self.output))
        return (source,), (target,)

    def faults(self) -> list[str]:
        """There is at least one element."""
        return zero_faults(self, ("rows", "depth"))

    def held_groups(self, context: Context) -> int:
        """Return the number of times that the lanes are filled with one value per row, in runs of `HELD_ROWS` rows."""
        whole, rest = divmod(self.rows, HELD_ROWS)
        return whole * self.groups(context, HELD_ROWS) + self.groups(context, rest)

    def by_rows(
        self, memory: Memory, compute: Callable[[Values], Values], source_type: DTypeLike, dtype: DTypeLike
    ) -> list[Write]:
        """Apply a function to all rows and return the write of the results.

        compute: takes and returns elements as [..., depth].
        """
        shape = self.rows, self.depth, self.interleaved
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size_bytes).view(source_type)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.size_bytes).view(dtype)
        results = compute(np.ascontiguousarray(source.reshape(shape).swapaxes(1, 2)))
        return [(target.reshape(shape), results.swapaxes(1, 2))]

    def parts(
        self, context: Context, of_element: Mapping[str, int], of_row: Mapping[str, int]
    ) -> tuple[Work, ...]:
        """Return the work from the actions of an element and those of a row.

        Lanes are filled with elements of one row or, if rows are interleaved, with adjacent elements of several rows.
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
    """The implementation of a function of rows in one arithmetic, with its actions.

    compute:    (instruction, memory, rows [..., depth]) -> rows.
    of_element: the actions of an element, in all passes over a row.
    of_row:     the actions of a row.
    """

    compute: Callable[[Softmax, Memory, Values], Values]
    of_element: Mapping[str, int]
    of_row: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Formatted, Rows):
    """Compute softmax over rows of `depth` elements, or its logarithm. The row's maximum is subtracted first.

    8_bit: fixed point, with 5 integer bits for differences and 19 fraction bits for sums. The output has scale 1/256,
    and its lowest value stands for zero. "fused": the exponential is entry 255 - (largest - value) of an int32 table
    with 31 fraction bits. Logarithms exist for int8 only, "literal"; their scale is 1/16 and their largest value stands
    for zero.

    int16: exponentials and reciprocals are interpolated from two tables
    (`npusim.isa.arithmetic.interpolated.softmax_tables`). The output has scale 1/32768.

    as_float32, "literal": exponentials of the differences and their sum are float64. The quotient is rounded to float32
    and quantized. "fused": the exponential e is entry 255 - (largest - value) of a float32 table, and s is the float32
    sum of the row's exponentials in order. The result is rint(e * output_scale / s) + zero.

    Floats: softmax of beta * x. The fields for scales and beta hold the bits of a float32.
    """

    mnemonic: ClassVar[str] = "vec.softmax"
    opcode: ClassVar[int] = 0x35
    names: ClassVar[tuple[str, ...]] = FUNCTIONS

    function: int = bits(1, "what is computed", choices=FUNCTIONS, place=FIRST)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    rows: int = bits(24, "independent rows; a set of `gap + 1` interleaved rows counts once")
    depth: int = bits(24, "elements of a row")
    gap: int = bits(24, "elements of other rows between two elements of a row")
    multiplier: int = bits(31, "8_bit and int16: multiplier of the difference to the row's maximum")
    left_shift: int = bits(6, "left shift of the multiplied difference")
    difference_min: int = bits(32, "8_bit: smallest difference with a probability above zero", signed=True)
    back: int = bits(31, "8_bit: multiplier from a logarithm to a difference of 8-bit values")
    back_shift: int = bits(7, "shift after the multiplier `back`", signed=True)
    table: int = bits(ADDRESS_BITS, "scratchpad address of the tables (int16, or fused exponentials)")
    fused: int = bits(1, "8_bit and as_float32: method of computation", choices=METHODS)
    input_zero: int = bits(9, "as_float32: zero point of the input", signed=True)
    output_zero: int = bits(9, "as_float32: zero point of the output", signed=True)
    input_scale: int = bits(32, "as_float32: scale of the input")
    output_scale: int = bits(32, "as_float32: scale of the output; fused: quantized value of probability 1")
    low: int = bound("smallest")
    high: int = bound("largest")
    input_signed: int = bits(1, "as_float32: type of the input", choices=SIGNS)
    signed: int = bits(1, "type of 8-bit results, and of the input of 8_bit", choices=SIGNS)
    beta: int = bits(32, "floats: factor of the elements, a float32")

    @property
    def way(self) -> RowWay:
        """The implementation of the function in the number format."""
        if self._has_exponentials:
            return _FUSED_WAY if self._in_float32 else _TABLE_WAY
        way: RowWay = self.ways[FUNCTIONS[self.function], self.number_format.arithmetic]
        return way

    @property
    def _has_exponentials(self) -> bool:
        """True if the table holds exponentials."""
        return bool(self.fused) and self.number_format.size_bytes == 1

    @property
    def _in_float32(self) -> bool:
        return self.number_format.name == "as_float32"

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables."""
        if self.number_format.name == "int16":
            return 2 * 2 * ENTRIES
        return EXPONENTIALS_BYTES if self._has_exponentials else 0

    def regions(self, context: Context) -> Regions:
        """Return the regions of input and tables, which are read, and of the output. All are dense."""
        reads, writes = Rows.regions(self, context)
        tables = (dense(Space.SCRATCHPAD, self.table, self.table_bytes),) if self.table_bytes else ()
        return reads + tables, writes

    def faults(self) -> list[str]:
        """There is at least one element. In as_float32 the clamp is within the output's type. In int16 the left shift
        is at most 31. Logarithms exist for int8, literal, and floats only.
        """
        messages, name = Rows.faults(self), self.number_format.name
        if self._in_float32:
            messages += self.range_faults(self.low, self.high)
        if name == "int16" and self.left_shift > 31:
            messages.append(f"left_shift is {self.left_shift} with int16; it may be at most 31")
        if self.function and (name == "int16" or (name == "8_bit" and not self.signed)):
            messages.append(
                f"function is {FUNCTIONS[1]} of {'int16' if name == 'int16' else 'uint8'}; it may be of int8"
            )
        if name == "8_bit" and self.function and self.fused:
            messages.append(f"fused is {METHODS[1]} with {FUNCTIONS[1]}; it may be {METHODS[0]}")
        return messages + self.function_faults()

    def execute(self, memory: Memory) -> list[Write]:
        """Compute each row's maximum, exponentials and their sum, then the quotients or their logarithms."""
        compute = self.way.compute
        with np.errstate(all="ignore"):
            return self.by_rows(
                memory, lambda rows: compute(self, memory, rows), self.input_dtype, self.dtype
            )

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Three passes each read every element."""
        return 3 * self.size_bytes, self.size_bytes

    def work(self, context: Context) -> tuple[Work, ...]:
        """Three passes over a row (maximum; exponential and add; exponential and quotient, or difference), and one
        reciprocal or logarithm per row. In as_float32 an exponential has twice the bits and counts twice, or it is a
        look-up of 4 bytes. "fused" of 8_bit takes the reciprocals of several rows together.
        """
        way = self.way
        elements, of_rows = self.parts(context, way.of_element, way.of_row)
        if way is _TABLE_WAY and not self.gap:
            of_rows = of_rows._replace(groups=self.held_groups(context))
        return elements, of_rows


def _fixed_point(row: Softmax, memory: Memory, rows: Values) -> Values:
    scale = row.multiplier, row.left_shift
    if row.number_format.name == "int16":
        raw = memory.bytes_at(Space.SCRATCHPAD, row.table, row.table_bytes).view("<i2").astype(np.int64)
        return softmax_of_int16(rows.astype(np.int64), *scale, *np.split(raw, 2)).astype(np.int16)
    if row.function:
        return log_softmax_fixed_point(rows, *scale, row.difference_min, row.back, row.back_shift)
    return softmax_fixed_point(rows, softmax_exponentials(*scale, row.difference_min))


def _by_table(row: Softmax, memory: Memory, rows: Values) -> Values:
    table = memory.bytes_at(Space.SCRATCHPAD, row.table, EXPONENTIALS_BYTES).view("<i4").astype(np.int64)
    return softmax_fixed_point(rows, table)


def _literal(row: Softmax, memory: Memory, rows: Values) -> Values:
    values = dequantise(rows, float32_of(row.input_scale), row.input_zero).astype(np.float64)
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
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
_LOOK_UPS = {"vector_max": 1, "vector_lut": PASSES_OF_EXPONENTIALS * EXPONENTIAL_BYTES}
_FUSED_WAY = RowWay(_fused, {**_LOOK_UPS, "vector_fused": 1, "vector_quantise": 1}, {})
_TABLE_WAY = RowWay(_by_table, {**_LOOK_UPS, "vector_add_i32": 1, "requantise": 1}, {"vector_exp": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLength(Rows):
    """Normalize rows of 8-bit values to unit length: divide each row by the root of its sum of squares.

    The input's zero point is subtracted first. The output has scale 1/128 and the middle value of its type as zero
    point.
    """

    mnemonic: ClassVar[str] = "vec.unit_length"
    opcode: ClassVar[int] = 0x3B

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    rows: int = bits(24, "independent rows; a set of `gap + 1` interleaved rows counts once")
    depth: int = bits(24, "elements of a row")
    gap: int = bits(24, "elements of other rows between two elements of a row")
    input_zero: int = bits(9, "zero point of the input", signed=True)
    signed: int = bits(1, "type of input and output", choices=SIGNS)

    def faults(self) -> list[str]:
        """There is at least one element, and the sum of squares stays below 2^31."""
        messages = Rows.faults(self)
        if self.depth * 255**2 >= 1 << 31:
            messages.append(f"depth {self.depth} may overflow the accumulator; it may be less than 33026")
        return messages

    def execute(self, memory: Memory) -> list[Write]:
        """Compute each row's sum of squares, its inverse square root, then the products."""
        dtype = code_type(self.signed)
        return self.by_rows(memory, lambda rows: unit_length(rows, self.input_zero), dtype, dtype)

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Two passes each read every element."""
        return 2 * self.size_bytes, self.size_bytes

    def work(self, context: Context) -> tuple[Work, ...]:
        """Two passes over a row (square and add; requantize), and one inverse square root per row."""
        steps = {"vector_mul_q8": 1, "vector_add_i32": 1, "requantise": 1}
        return self.parts(context, steps, {"vector_exp": 1})
