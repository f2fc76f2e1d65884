"""vec.select, and what it shares with `vec.binary`: operands on rows x columns that may repeat rows or columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.lanes import Values, VectorInstruction, Work, bound, clamp_fault, code_type
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.word import ADDRESS_BITS, LAST, SIGNS, bits

PIXEL = "channels of a pixel, which the machine rounds up (`vector.brick_channels`); 0: it does not"

_REPEATS = ("0", "1")


def column_stride_field(doc: str) -> Any:
    """The field that says whether an operand repeats one value along a row."""
    return bits(1, doc, choices=_REPEATS)


class Grid(VectorInstruction):
    """What instructions on rows x columns share."""

    __slots__ = ()

    operand_names: ClassVar[tuple[str, ...]] = ("a", "b")
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
    def elements(self) -> int:
        """Elements of the output."""
        return self.rows * self.columns

    @property
    def output_bytes(self) -> int:
        """Bytes of a result."""
        return self.number_format.size_bytes

    @property
    def operands(self) -> list[tuple[int, int, int]]:
        """Address, row stride in bytes and column stride in elements of each operand."""
        return [
            (
                getattr(self, name),
                getattr(self, f"{name}_row_stride"),
                getattr(self, f"{name}_column_stride"),
            )
            for name in self.operand_names
        ]

    def regions(self, context: Context) -> Regions:
        """All operands are read, the output is written."""
        reads = tuple([self._operand(*operand) for operand in self.operands])
        return reads, (dense(Space.SCRATCHPAD, self.output, self.elements * self.output_bytes),)

    def _operand(self, address: int, row_stride: int, column_stride: int) -> Region:
        row = (self.columns if column_stride else 1) * self.number_format.size_bytes
        if row_stride == row:
            return dense(Space.SCRATCHPAD, address, self.rows * row)
        return Region(Space.SCRATCHPAD, address, (self.rows, row), (row_stride,))

    def faults(self) -> list[str]:
        """At least one element."""
        sizes = zip(("rows", "columns"), self.grid, strict=True)
        return [f"{name} is 0; it may be 1 or more" for name, size in sizes if not size]

    def views(self, memory: Memory, dtype: Any) -> list[Values]:
        """The operands, each as rows x columns."""
        size = np.dtype(dtype).itemsize
        return [
            memory.view(Space.SCRATCHPAD, address, self.grid, (row, column * size), dtype)
            for address, row, column in self.operands
        ]

    def written(self, memory: Memory, values: Values) -> list[Write]:
        """Values of the output."""
        size = values.dtype.itemsize
        target = memory.view(
            Space.SCRATCHPAD, self.output, self.grid, (self.columns * size, size), values.dtype
        )
        return [(target, values)]

    def traffic(self) -> tuple[int, int]:
        """Every operand is read for every element, also where it repeats."""
        read = len(self.operand_names) * self.elements * self.number_format.size_bytes
        return read, self.elements * self.output_bytes

    def actions_of_element(self) -> tuple[str, ...]:
        """The actions of an element."""
        raise NotImplementedError

    def work(self, context: Context) -> tuple[Work, ...]:
        """The actions of every element. A machine that stores channels in bricks fills lanes with whole ones, of
        integers.
        """
        brick, passed = context.hardware.vector.brick_channels, self.elements
        if self.pixel and self.number_format.arithmetic != "float":
            passed = passed * (-(-self.pixel // brick) * brick) // self.pixel
        steps = dict.fromkeys(self.actions_of_element(), 1)
        return (self.part(context, steps, self.elements, self.groups(context, passed)),)


def rescaled_codes(zero: int, left_shift: int, multiplier: int, shift: int, signed: int) -> NDArray[np.int32]:
    """(value - zero) << left_shift, rescaled, for each of the 256 values in the order of their bytes."""
    codes = np.arange(256, dtype=np.uint8).view(code_type(signed)).astype(np.int32)
    return multiply_by_quantized_multiplier((codes - zero) << left_shift, multiplier, shift, "double")


CHOICES = ("codes", "rescaled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Grid):
    """Of two operands of rows x columns give the first where a condition is not 0, otherwise the second.

    "rescaled": the code that is given is first brought to another scale and zero point: multiply (code - zero), round,
    add the new zero, clamp.
    """

    mnemonic: ClassVar[str] = "vec.select"
    opcode: ClassVar[int] = 0x37
    operand_names: ClassVar[tuple[str, ...]] = ("condition", "a", "b")

    function: int = bits(1, "what is given", choices=CHOICES)
    condition: int = bits(ADDRESS_BITS, "scratchpad address of the condition")
    a: int = bits(ADDRESS_BITS, "of the first operand")
    b: int = bits(ADDRESS_BITS, "of the second operand")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "rows")
    columns: int = bits(24, "columns, contiguous in the output")
    condition_row_stride: int = bits(24, "bytes from row to row of the condition; 0 repeats one row")
    a_row_stride: int = bits(24, "of the first operand")
    b_row_stride: int = bits(24, "of the second operand")
    condition_column_stride: int = column_stride_field("1: one value per column, 0: one value per row")
    a_column_stride: int = column_stride_field("of the first operand")
    b_column_stride: int = column_stride_field("of the second operand")
    a_zero: int = bits(9, "zero point of the first operand", signed=True)
    b_zero: int = bits(9, "of the second operand", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    a_multiplier: int = bits(31, "rescale of the first operand")
    b_multiplier: int = bits(31, "of the second operand")
    a_shift: int = bits(6, "shift of the first rescale", signed=True)
    b_shift: int = bits(6, "of the second", signed=True)
    low: int = bound("smallest")
    high: int = bound("largest")
    signed: int = bits(1, "type of operands and output", choices=SIGNS)
    pixel: int = bits(20, PIXEL, place=LAST)

    def actions_of_element(self) -> tuple[str, ...]:
        """A choice, and a rescale of what is chosen."""
        return ("vector_max",) + ("requantise",) * self.function

    def faults(self) -> list[str]:
        """At least one element and, of rescaled codes, a clamp inside the type."""
        clamp = clamp_fault(self.signed, self.low, self.high) if self.function else []
        return Grid.faults(self) + clamp

    def execute(self, memory: Memory) -> list[Write]:
        """Bring every code to the output's scale if wanted, then choose."""
        condition, a, b = self.views(memory, np.uint8)
        first = self._given(self.a_zero, self.a_multiplier, self.a_shift)[a]
        second = self._given(self.b_zero, self.b_multiplier, self.b_shift)[b]
        return self.written(memory, np.where(condition != 0, first, second))

    def _given(self, zero: int, multiplier: int, shift: int) -> NDArray[np.uint8]:
        """What is given for each of the 256 codes, in the order of their bytes."""
        codes = np.arange(256, dtype=np.uint8)
        if not self.function:
            return codes
        rescaled = multiply_by_quantized_multiplier(
            codes.view(code_type(self.signed)).astype(np.int32) - zero, multiplier, shift
        )
        clamped = np.clip(rescaled + np.int32(self.output_zero), self.low, self.high)
        given: NDArray[np.uint8] = clamped.astype(code_type(self.signed)).view(np.uint8)
        return given
