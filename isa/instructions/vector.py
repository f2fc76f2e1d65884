"""The vector-unit instructions: elementwise functions, rescale, look-up, softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, requantise, softmax_fixed_point
from npusim.isa.base.cause import Cause
from npusim.isa.hardware.hardware import Vector
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.word import FieldSpec, bits

Codes = NDArray[Any]

VECTOR_CAUSES = (
    Cause(
        "vector_overhead",
        "vector start-up",
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
class Binary(Instruction):
    """Elementwise function of two operands of rows x columns; an operand may repeat its rows or its columns.

    Operand strides of zero repeat. The arithmetic is that of the elementwise functions; its rescales round twice
    ("double").
    """

    mnemonic: ClassVar[str] = "vec.binary"
    opcode: ClassVar[int] = 0x30
    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(4, "what is computed", choices=("add", "sub", "mul", "max", "min"))
    a: int = bits(ADDRESS_BITS, "scratchpad address of the first operand")
    b: int = bits(ADDRESS_BITS, "of the second operand")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "rows")
    columns: int = bits(24, "columns, contiguous in the output")
    a_row_stride: int = bits(24, "bytes from row to row of the first operand; 0 repeats one row")
    b_row_stride: int = bits(24, "of the second operand")
    a_column_stride: int = bits(1, "1: one value per column, 0: one value per row", choices=("0", "1"))
    b_column_stride: int = bits(1, "of the second operand", choices=("0", "1"))
    a_zero: int = bits(9, "zero point of the first operand", signed=True)
    b_zero: int = bits(9, "of the second operand", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    a_multiplier: int = bits(31, "rescale of the first operand (add, sub)")
    b_multiplier: int = bits(31, "of the second operand")
    output_multiplier: int = bits(31, "of the result")
    a_shift: int = bits(6, "shift of the first rescale", signed=True)
    b_shift: int = bits(6, "of the second", signed=True)
    output_shift: int = bits(6, "of the result", signed=True)
    left_shift: int = bits(5, "shift of operands before the rescale (add, sub)")
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of operands and output", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.rows, self.columns

    def _operand(self, address: int, row_stride: int, column_stride: int) -> Region:
        columns = self.columns if column_stride else 1
        if row_stride == columns:
            return dense(Space.SCRATCHPAD, address, self.rows * columns)
        return Region(Space.SCRATCHPAD, address, (self.rows, columns), (row_stride,))

    def regions(self, context: Context) -> Regions:
        """Both operands are read, the output is written."""
        a = self._operand(self.a, self.a_row_stride, self.a_column_stride)
        b = self._operand(self.b, self.b_row_stride, self.b_column_stride)
        return (a, b), (dense(Space.SCRATCHPAD, self.output, self.rows * self.columns),)

    def faults(self) -> list[str]:
        """At least one element and a clamp inside the type."""
        found = [
            f"{name} is 0; it may be 1 or more" for name in ("rows", "columns") if not getattr(self, name)
        ]
        return found + clamp_fault(self.signed, self.low, self.high)

    def _view(self, memory: Memory, address: int, row_stride: int, column_stride: int) -> Codes:
        shape = (self.rows, self.columns)
        return memory.view(
            Space.SCRATCHPAD, address, shape, (row_stride, column_stride), code_type(self.signed)
        )

    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function's arithmetic to the two operands."""
        a = self._view(memory, self.a, self.a_row_stride, self.a_column_stride)
        b = self._view(memory, self.b, self.b_row_stride, self.b_column_stride)
        values = FUNCTIONS[self.function].compute(self, a, b)
        return [(self._view(memory, self.output, self.columns, 1), values)]

    def cost(self, context: Context) -> Cost:
        """Start-up, then the function's cycles for every `lanes` elements."""
        function = FUNCTIONS[self.function]
        elements = self.rows * self.columns
        v = context.hardware.vector
        cycles = v.startup_cycles + passes(elements, v) * function.cycles(v)
        actions = {
            function.action: elements,
            "scratchpad_read_byte": 2 * elements,
            "scratchpad_write_byte": elements,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The function of every element."""
        return self.rows * self.columns * FUNCTIONS[self.function].cycles(context.hardware.vector)


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise function: its arithmetic, its cycles per element and lane, the action it counts."""

    name: str
    doc: str
    compute: Callable[[Binary, Codes, Codes], Codes]
    cycles: Callable[[Vector], int]
    action: str


def _rescaled_codes(
    zero: int, left_shift: int, multiplier: int, shift: int, signed: int
) -> NDArray[np.int32]:
    """(code - zero) << left_shift, rescaled, for each of the 256 codes in the order of their bytes."""
    codes = np.arange(256, dtype=np.uint8).view(code_type(signed)).astype(np.int32)
    return multiply_by_quantized_multiplier((codes - zero) << left_shift, multiplier, shift, "double")


def _add(i: Binary, a: Codes, b: Codes) -> Codes:
    """The operands meet at twice the larger scale with `left_shift` fractional bits."""
    first = _rescaled_codes(i.a_zero, i.left_shift, i.a_multiplier, i.a_shift, i.signed)[a.view(np.uint8)]
    second = _rescaled_codes(i.b_zero, i.left_shift, i.b_multiplier, i.b_shift, i.signed)[b.view(np.uint8)]
    total = first - second if FUNCTIONS[i.function].name == "sub" else first + second
    return _output(i, total)


def _mul(i: Binary, a: Codes, b: Codes) -> Codes:
    product = (a.astype(np.int32) - i.a_zero) * (b.astype(np.int32) - i.b_zero)
    return _output(i, product)


def _max(i: Binary, a: Codes, b: Codes) -> Codes:
    return np.clip(np.maximum(a, b), i.low, i.high)


def _min(i: Binary, a: Codes, b: Codes) -> Codes:
    return np.clip(np.minimum(a, b), i.low, i.high)


def _output(i: Binary, values: NDArray[np.int32]) -> Codes:
    return requantise(
        values,
        i.output_multiplier,
        i.output_shift,
        i.output_zero,
        i.low,
        i.high,
        code_type(i.signed),
        "double",
    )


FUNCTIONS: tuple[Function, ...] = (
    Function("add", "a + b, each rescaled, sum rescaled", _add, lambda v: v.add_cycles, "vector_add_q8"),
    Function(
        "sub", "a - b, each rescaled, difference rescaled", _add, lambda v: v.add_cycles, "vector_add_q8"
    ),
    Function("mul", "(a - zero) * (b - zero), rescaled", _mul, lambda v: v.mul_cycles, "vector_mul_q8"),
    Function("max", "the larger code", _max, lambda v: v.max_cycles, "vector_max"),
    Function("min", "the smaller code", _min, lambda v: v.max_cycles, "vector_max"),
)
"""The elementwise functions, in the order of the field `function`."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(_Unary):
    """Replace each byte by its entry of a 256-byte table."""

    mnemonic: ClassVar[str] = "vec.lookup"
    opcode: ClassVar[int] = 0x34
    specs: ClassVar[tuple[FieldSpec, ...]]

    table: int = bits(ADDRESS_BITS, "scratchpad address of the table, indexed by the input's byte")

    def regions(self, context: Context) -> Regions:
        """Input and table are read."""
        reads, writes = _Unary.regions(self, context)
        return (*reads, dense(Space.SCRATCHPAD, self.table, 256)), writes

    def execute(self, memory: Memory) -> list[Write]:
        """Look every byte up."""
        table = memory.bytes_at(Space.SCRATCHPAD, self.table, 256)
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size)
        return [(memory.bytes_at(Space.SCRATCHPAD, self.output, self.size), table[source])]

    def cost(self, context: Context) -> Cost:
        """Start-up, loading the table at `lanes` bytes per cycle, then the look-ups."""
        v = context.hardware.vector
        cycles = v.startup_cycles + passes(256, v) + passes(self.size, v) * v.lut_cycles
        actions = {
            "vector_lut": self.size,
            "scratchpad_read_byte": self.size + 256,
            "scratchpad_write_byte": self.size,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The look-up of every element."""
        return self.size * context.hardware.vector.lut_cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Instruction):
    """Softmax over rows of `depth` codes in fixed point (5 integer bits, 12 accumulation bits).

    The output has scale 1/256 and its lowest code means zero.
    """

    mnemonic: ClassVar[str] = "vec.softmax"
    opcode: ClassVar[int] = 0x35
    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES
    specs: ClassVar[tuple[FieldSpec, ...]]

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "independent rows")
    depth: int = bits(24, "elements of a row")
    multiplier: int = bits(31, "rescale of the difference to the row's maximum")
    left_shift: int = bits(6, "left shift of that rescale")
    difference_min: int = bits(32, "differences below count as zero probability", signed=True)
    signed: int = bits(1, "type of input and output", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, and the elements of each."""
        return self.rows, self.depth

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        size = self.rows * self.depth
        return (dense(Space.SCRATCHPAD, self.input, size),), (dense(Space.SCRATCHPAD, self.output, size),)

    def faults(self) -> list[str]:
        """At least one element."""
        return [f"{n} is 0; it may be 1 or more" for n in ("rows", "depth") if not getattr(self, n)]

    def execute(self, memory: Memory) -> list[Write]:
        """Maximum, exponentials and sum, then the quotients, row by row."""
        dtype = code_type(self.signed)
        size = self.rows * self.depth
        codes = memory.bytes_at(Space.SCRATCHPAD, self.input, size).view(dtype).reshape(self.rows, self.depth)
        values = softmax_fixed_point(codes, self.multiplier, self.left_shift, self.difference_min)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, size)
        return [(target.view(dtype).reshape(self.rows, self.depth), values)]

    def cost(self, context: Context) -> Cost:
        """Start-up; per row three passes (maximum; exponential and add; exponential and rescale), one reciprocal."""
        v = context.hardware.vector
        per_pass = v.max_cycles + (v.exp_cycles + v.reduce_cycles) + (v.exp_cycles + v.requantise_cycles)
        cycles = v.startup_cycles + self.rows * (passes(self.depth, v) * per_pass + v.exp_cycles)
        size = self.rows * self.depth
        actions = {
            "vector_max": size,
            "vector_exp": 2 * size + self.rows,
            "vector_add_i32": size,
            "requantise": size,
            "scratchpad_read_byte": 3 * size,
            "scratchpad_write_byte": size,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The three passes over every element, the reciprocal of every row."""
        v = context.hardware.vector
        per_element = v.max_cycles + v.exp_cycles + v.reduce_cycles + v.exp_cycles + v.requantise_cycles
        return self.rows * (self.depth * per_element + v.exp_cycles)
