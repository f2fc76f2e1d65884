"""The vector-unit instruction of two operands, and what it shares with others on rows x columns.

Operands and results are rows x columns; an operand may repeat its rows or its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import (
    divide_codes,
    multiply_by_quantized_multiplier,
    requantise,
)
from npusim.isa.base.cause import Cause
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.vector import (
    VECTOR_CAUSES,
    Codes,
    code_type,
    int16_bound,
    int16_field,
    int16_misfits,
    passes,
    range_faults,
    range_of,
    turns,
)
from npusim.isa.instructions.word import FIRST, LAST, FieldSpec, bits

_CYCLES = {
    "vector_add_q8": "add_cycles",
    "vector_mul_q8": "mul_cycles",
    "vector_max": "max_cycles",
    "vector_divide": "divide_cycles",
    "requantise": "requantise_cycles",
    "vector_literal_add": "literal_cycles",
    "vector_literal_mul": "literal_cycles",
    "vector_literal_divide": "literal_divide_cycles",
    "vector_fused": "fused_cycles",
}
"""How long a lane takes for an action, as a field of the vector unit."""


PIXEL = "channels of a pixel, which the machine rounds up (`vector.brick_channels`); 0: it does not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid(Instruction):
    """What instructions on rows x columns share. A subclass has the fields."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    names: ClassVar[tuple[str, ...]] = ("a", "b")
    """What the fields of its operands begin with: an address, `_row_stride` and `_column_stride`."""

    if TYPE_CHECKING:  # fields of every subclass, at their places in its word
        rows: int
        columns: int
        output: int
        pixel: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.grid

    @property
    def operands(self) -> tuple[tuple[int, int, int], ...]:
        """Address, row stride and column stride of each."""
        return tuple(
            [
                (
                    getattr(self, name),
                    getattr(self, f"{name}_row_stride"),
                    getattr(self, f"{name}_column_stride"),
                )
                for name in self.names
            ]
        )

    @property
    def actions(self) -> Sequence[str]:
        """What is done for each element."""
        raise NotImplementedError

    @property
    def wide(self) -> int:
        """1 where elements are int16, else 0: they are bytes."""
        return 0

    def regions(self, context: Context) -> Regions:
        """All operands are read, the output is written."""
        reads = tuple([self._region(*operand) for operand in self.operands])
        return reads, (dense(Space.SCRATCHPAD, self.output, self._elements << self.wide),)

    def _region(self, address: int, row_stride: int, column_stride: int) -> Region:
        rows, columns = self.grid
        columns = (columns if column_stride else 1) << self.wide
        if row_stride == columns:
            return dense(Space.SCRATCHPAD, address, rows * columns)
        return Region(Space.SCRATCHPAD, address, (rows, columns), (row_stride,))

    def faults(self) -> list[str]:
        """At least one element."""
        sizes = zip(("rows", "columns"), self.grid, strict=True)
        return [f"{name} is 0; it may be 1 or more" for name, size in sizes if not size]

    def views(self, memory: Memory, dtype: Any) -> list[Codes]:
        """The operands, each as rows x columns."""
        return [
            memory.view(Space.SCRATCHPAD, address, self.grid, (row, column << self.wide), dtype)
            for address, row, column in self.operands
        ]

    def written(self, memory: Memory, values: NDArray[Any]) -> list[Write]:
        """Values of the output."""
        strides = (self.grid[1] << self.wide, 1 << self.wide)
        target = memory.view(Space.SCRATCHPAD, self.output, self.grid, strides, values.dtype)
        return [(target, values)]

    @property
    def _elements(self) -> int:
        rows, columns = self.grid
        return rows * columns

    def cost(self, context: Context) -> Cost:
        """Start-up, then the cycles of its actions for every `lanes` elements."""
        elements, v = self._elements, context.hardware.vector
        counted = {
            **dict.fromkeys(self.actions, elements),
            "scratchpad_read_byte": len(self.operands) * elements << self.wide,
            "scratchpad_write_byte": elements << self.wide,
        }
        passed = passes(self._passed(v.brick_channels), v)
        return Cost(v.startup_cycles + passed * self._cycles(context), counted)

    def _passed(self, brick: int) -> int:
        """Elements, with those that bricks of so many channels have beyond the channels of a pixel."""
        channels = self.pixel
        return self._elements * (-(-channels // brick) * brick) // channels if channels else self._elements

    def demand(self, context: Context) -> int:
        """The actions of every element."""
        return self._elements * self._cycles(context)

    def _cycles(self, context: Context) -> int:
        cycles: int = sum(getattr(context.hardware.vector, _CYCLES[action]) for action in self.actions)
        return cycles * turns(self.wide, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Grid):
    """What instructions of two operands share; operand strides of zero repeat."""

    a: int = bits(ADDRESS_BITS, "scratchpad address of the first operand")
    b: int = bits(ADDRESS_BITS, "of the second operand")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "rows")
    columns: int = bits(24, "columns, contiguous in the output")
    a_row_stride: int = bits(24, "bytes from row to row of the first operand; 0 repeats one row")
    b_row_stride: int = bits(24, "of the second operand")
    a_column_stride: int = bits(1, "1: one value per column, 0: one value per row", choices=("0", "1"))
    b_column_stride: int = bits(1, "of the second operand", choices=("0", "1"))
    pixel: int = bits(20, PIXEL, place=LAST)
    a_zero: int = bits(9, "zero point of the first operand", signed=True)
    b_zero: int = bits(9, "of the second operand", signed=True)


NAMES = (
    "add", "sub", "mul", "max", "min", "rescaled_max", "rescaled_min", "squared_difference", "prelu", "div",
)  # fmt: skip
"""The elementwise functions, in the order of the field `function`."""
INT16_NAMES = ("add", "sub", "mul", "max", "min")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Pair):
    """Elementwise function of two operands of rows x columns; an operand may repeat its rows or its columns.

    Operand strides of zero repeat. The arithmetic is that of the elementwise functions; its rescales round twice
    ("double").
    """

    mnemonic: ClassVar[str] = "vec.binary"
    opcode: ClassVar[int] = 0x30
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(4, "what is computed", choices=NAMES, place=FIRST)
    output_zero: int = bits(9, "of the output", signed=True)
    a_multiplier: int = bits(31, "rescale of the first operand")
    b_multiplier: int = bits(31, "of the second operand")
    output_multiplier: int = bits(31, "of the result")
    a_shift: int = bits(6, "shift of the first rescale", signed=True)
    b_shift: int = bits(6, "of the second", signed=True)
    output_shift: int = bits(6, "of the result", signed=True)
    left_shift: int = bits(5, "shift of operands before their rescale")
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of operands and output", choices=SIGNS)
    int16: int = int16_field()
    int16_low: int = int16_bound("smallest")
    int16_high: int = int16_bound("largest")

    @property
    def actions(self) -> Sequence[str]:
        """Those of the function."""
        return FUNCTIONS[self.function].actions

    @property
    def wide(self) -> int:
        """1 where elements are int16."""
        return self.int16

    def faults(self) -> list[str]:
        """At least one element and a clamp inside the type; of int16 not all functions."""
        found = Pair.faults(self) + range_faults(self)
        if self.int16 and NAMES[self.function] not in INT16_NAMES:
            found.append(f"{NAMES[self.function]} of int16; it may be {', '.join(INT16_NAMES)}")
        return found

    def misfits(self, context: Context) -> list[str]:
        """Passes for int16."""
        return int16_misfits(self.int16, context)

    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function's arithmetic to the two operands."""
        a, b = self.views(memory, range_of(self)[2])
        return self.written(memory, FUNCTIONS[self.function].compute(self, a, b))


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise function: its arithmetic, and the actions that it counts for each element."""

    name: str
    doc: str
    compute: Callable[[Binary, Codes, Codes], Codes]
    actions: tuple[str, ...]


def rescaled_codes(zero: int, left_shift: int, multiplier: int, shift: int, signed: int) -> NDArray[np.int32]:
    """(code - zero) << left_shift, rescaled, for each of the 256 codes in the order of their bytes."""
    codes = np.arange(256, dtype=np.uint8).view(code_type(signed)).astype(np.int32)
    return multiply_by_quantized_multiplier((codes - zero) << left_shift, multiplier, shift, "double")


def _rescaled(i: Binary, a: Codes, b: Codes) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Both operands, rescaled; codes of 8 bits by tables."""
    if i.int16:
        first, second = _centred(i, a, b)
        return (
            multiply_by_quantized_multiplier(first << i.left_shift, i.a_multiplier, i.a_shift),
            multiply_by_quantized_multiplier(second << i.left_shift, i.b_multiplier, i.b_shift),
        )
    return (
        rescaled_codes(i.a_zero, i.left_shift, i.a_multiplier, i.a_shift, i.signed)[a.view(np.uint8)],
        rescaled_codes(i.b_zero, i.left_shift, i.b_multiplier, i.b_shift, i.signed)[b.view(np.uint8)],
    )


def _centred(i: Binary, a: Codes, b: Codes) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return a.astype(np.int32) - i.a_zero, b.astype(np.int32) - i.b_zero


def _add(i: Binary, a: Codes, b: Codes) -> Codes:
    """The operands meet at twice the larger scale with `left_shift` fractional bits."""
    first, second = _rescaled(i, a, b)
    return _output(i, first + second)


def _sub(i: Binary, a: Codes, b: Codes) -> Codes:
    first, second = _rescaled(i, a, b)
    return _output(i, first - second)


def _squared_difference(i: Binary, a: Codes, b: Codes) -> Codes:
    first, second = _rescaled(i, a, b)
    return _output(i, np.square(first - second))


def _mul(i: Binary, a: Codes, b: Codes) -> Codes:
    first, second = _centred(i, a, b)
    return _output(i, first * second)


def _max(i: Binary, a: Codes, b: Codes) -> Codes:
    return np.clip(np.maximum(a, b), *range_of(i)[:2])


def _min(i: Binary, a: Codes, b: Codes) -> Codes:
    return np.clip(np.minimum(a, b), *range_of(i)[:2])


def _rescaled_max(i: Binary, a: Codes, b: Codes) -> Codes:
    return _clamped(i, np.maximum(*_rescaled(i, a, b)))


def _rescaled_min(i: Binary, a: Codes, b: Codes) -> Codes:
    return _clamped(i, np.minimum(*_rescaled(i, a, b)))


def _prelu(i: Binary, a: Codes, b: Codes) -> Codes:
    first, second = _centred(i, a, b)
    above = multiply_by_quantized_multiplier(first, i.a_multiplier, i.a_shift)
    below = multiply_by_quantized_multiplier(first * second, i.output_multiplier, i.output_shift)
    return _clamped(i, np.where(first >= 0, above, below))


def _div(i: Binary, a: Codes, b: Codes) -> Codes:
    return _clamped(i, divide_codes(*_centred(i, a, b), i.output_multiplier, i.output_shift))


def _clamped(i: Binary, values: NDArray[np.int32]) -> Codes:
    """Results on the output's scale, in 32 bits, as codes."""
    codes: Codes = np.clip(values + np.int32(i.output_zero), i.low, i.high).astype(code_type(i.signed))
    return codes


def _output(i: Binary, values: NDArray[np.int32]) -> Codes:
    return requantise(
        values,
        i.output_multiplier,
        i.output_shift,
        i.output_zero,
        *range_of(i),
        "double",
    )


ADD, MUL, MAX, DIVIDE = ("vector_add_q8",), ("vector_mul_q8",), ("vector_max",), ("vector_divide",)

FUNCTIONS: tuple[Function, ...] = (
    Function("add", "a + b, each rescaled, sum rescaled", _add, ADD),
    Function("sub", "a - b, each rescaled, difference rescaled", _sub, ADD),
    Function("mul", "(a - zero) * (b - zero), rescaled", _mul, MUL),
    Function("max", "the larger code", _max, MAX),
    Function("min", "the smaller code", _min, MAX),
    Function("rescaled_max", "the larger of a and b, each rescaled to the output", _rescaled_max, ADD),
    Function("rescaled_min", "the smaller of a and b, each rescaled to the output", _rescaled_min, ADD),
    Function(
        "squared_difference", "square of a - b, each rescaled, rescaled", _squared_difference, ADD + MUL
    ),
    Function(
        "prelu", "a rescaled; below its zero (a - zero) * (b - zero), rescaled by the output's", _prelu, MUL
    ),
    Function("div", "(a - zero) / (b - zero) by a reciprocal, rescaled; 0 for b = zero", _div, DIVIDE + MUL),
)
"""The elementwise functions, in the order of the field `function`."""
