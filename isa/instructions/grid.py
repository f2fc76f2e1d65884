"""vec.select, and the base class of `vec.select` and `vec.binary`: operands of rows x columns that may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, requantise
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.instructions.instruction import Context, zero_faults
from npusim.isa.instructions.lanes import Values, VectorInstruction, Work, bound, clamp_fault, code_type
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.word import ADDRESS_BITS, LAST, SIGNS, bits

PIXEL = "channels of a pixel, rounded up by hardware with `vector.brick_channels`; 0: not rounded up"

_REPEATS = ("0", "1")


def column_stride_field(doc: str) -> Any:
    """Declare the field that says whether an operand repeats one value along a row."""
    return bits(1, doc, choices=_REPEATS)


class Grid(VectorInstruction):
    """The base of vector instructions whose operands and output are grids of rows x columns."""

    __slots__ = ()

    operand_names: ClassVar[tuple[str, ...]] = ("a", "b")
    """Prefixes of the operand fields: NAME is an address, NAME_row_stride and NAME_column_stride its strides."""

    if TYPE_CHECKING:  # fields of every subclass, at their places in its word
        rows: int
        columns: int
        output: int
        pixel: int

    @property
    def tile(self) -> tuple[int, ...]:
        """Number of rows and columns."""
        return self.rows, self.columns

    @property
    def elements(self) -> int:
        """Number of elements of the output."""
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
        """Return the regions of all operands and of the output."""
        reads = tuple([self._operand(*operand) for operand in self.operands])
        return reads, (dense(Space.SCRATCHPAD, self.output, self.elements * self.output_bytes),)

    def _operand(self, address: int, row_stride: int, column_stride: int) -> Region:
        row = (self.columns if column_stride else 1) * self.number_format.size_bytes
        if row_stride == row:
            return dense(Space.SCRATCHPAD, address, self.rows * row)
        return Region(Space.SCRATCHPAD, address, (self.rows, row), (row_stride,))

    def faults(self) -> list[str]:
        """There is at least one element."""
        return zero_faults(self, ("rows", "columns"))

    def views(self, memory: Memory, dtype: Any) -> list[Values]:
        """Return a view of each operand in the scratchpad, [rows, columns]."""
        size = np.dtype(dtype).itemsize
        return [
            memory.view(Space.SCRATCHPAD, address, self.tile, (row, column * size), dtype)
            for address, row, column in self.operands
        ]

    def written(self, memory: Memory, values: Values) -> list[Write]:
        """Return the write of the output values."""
        size = values.dtype.itemsize
        target = memory.view(
            Space.SCRATCHPAD, self.output, self.tile, (self.columns * size, size), values.dtype
        )
        return [(target, values)]

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Every operand is read for every element, even if it is repeated."""
        read = len(self.operand_names) * self.elements * self.number_format.size_bytes
        return read, self.elements * self.output_bytes

    def steps_of_element(self) -> Mapping[str, int]:
        """Return how often one output element causes each energy action, by the name of the action."""
        raise NotImplementedError

    def work(self, context: Context) -> tuple[Work, ...]:
        """Every element takes its actions in a lane. Hardware that stores integer channels in bricks
        (`vector.brick_channels`) also spends lanes on the channels that fill up the last brick of a pixel.
        """
        brick, passed = context.hardware.vector.brick_channels, self.elements
        if self.pixel and self.number_format.arithmetic != "float":
            passed = passed * (-(-self.pixel // brick) * brick) // self.pixel
        return (self.part(context, self.steps_of_element(), self.elements, self.groups(context, passed)),)


@lru_cache(maxsize=256)
def rescaled_codes(zero: int, left_shift: int, multiplier: int, shift: int, signed: int) -> NDArray[np.int32]:
    """Return (value - zero) << left_shift, requantized, for each of the 256 values in the order of their bytes.

    All tiles of a layer share the table, which nobody may write.
    """
    codes = np.arange(256, dtype=np.uint8).view(code_type(signed)).astype(np.int32)
    table = multiply_by_quantized_multiplier((codes - zero) << left_shift, multiplier, shift, "double")
    table.flags.writeable = False
    return table


CHOICES = ("codes", "rescaled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Grid):
    """Select each element from the first operand if the condition is not 0, else from the second.

    With "rescaled", the selected value is requantized: multiply (value - zero), round, add the new zero point, clamp.
    """

    mnemonic: ClassVar[str] = "vec.select"
    opcode: ClassVar[int] = 0x37
    operand_names: ClassVar[tuple[str, ...]] = ("condition", "a", "b")

    function: int = bits(1, "whether selected values are copied or requantized", choices=CHOICES)
    condition: int = bits(ADDRESS_BITS, "scratchpad address of the condition")
    a: int = bits(ADDRESS_BITS, "scratchpad address of the first operand")
    b: int = bits(ADDRESS_BITS, "scratchpad address of the second operand")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    rows: int = bits(24, "rows")
    columns: int = bits(24, "columns, contiguous in the output")
    condition_row_stride: int = bits(24, "bytes from row to row of the condition; 0 repeats one row")
    a_row_stride: int = bits(24, "bytes from row to row of the first operand; 0 repeats one row")
    b_row_stride: int = bits(24, "bytes from row to row of the second operand; 0 repeats one row")
    condition_column_stride: int = column_stride_field(
        "condition: 1 for a value per column, 0 for one value per row"
    )
    a_column_stride: int = column_stride_field(
        "first operand: 1 for a value per column, 0 for one value per row"
    )
    b_column_stride: int = column_stride_field(
        "second operand: 1 for a value per column, 0 for one value per row"
    )
    a_zero: int = bits(9, "zero point of the first operand", signed=True)
    b_zero: int = bits(9, "zero point of the second operand", signed=True)
    output_zero: int = bits(9, "zero point of the output", signed=True)
    a_multiplier: int = bits(31, "multiplier of the first operand's requantization")
    b_multiplier: int = bits(31, "multiplier of the second operand's requantization")
    a_shift: int = bits(6, "shift of the first operand's requantization", signed=True)
    b_shift: int = bits(6, "shift of the second operand's requantization", signed=True)
    low: int = bound("smallest")
    high: int = bound("largest")
    signed: int = bits(1, "type of operands and output", choices=SIGNS)
    pixel: int = bits(20, PIXEL, place=LAST)

    def steps_of_element(self) -> Mapping[str, int]:
        """Return the actions of an element: a selection and, if "rescaled", a requantization."""
        return {"vector_max": 1, "requantise": 1} if self.function else {"vector_max": 1}

    def faults(self) -> list[str]:
        """There is at least one element. If values are requantized, the clamp is within the output's type."""
        clamp = clamp_fault(self.signed, self.low, self.high) if self.function else []
        return Grid.faults(self) + clamp

    def execute(self, memory: Memory) -> list[Write]:
        """Requantize both operands if "rescaled", then select."""
        condition, a, b = self.views(memory, np.uint8)
        first = self._results_of(self.a_zero, self.a_multiplier, self.a_shift)[a]
        second = self._results_of(self.b_zero, self.b_multiplier, self.b_shift)[b]
        return self.written(memory, np.where(condition != 0, first, second))

    def _results_of(self, zero: int, multiplier: int, shift: int) -> NDArray[np.uint8]:
        """Return the result for each of the 256 operand values, in the order of their bytes."""
        codes = np.arange(256, dtype=np.uint8)
        if not self.function:
            return codes
        dtype = code_type(self.signed)
        clamp = self.output_zero, self.low, self.high, dtype
        centred = codes.view(dtype).astype(np.int32) - np.int32(zero)
        return requantise(centred, multiplier, shift, *clamp).view(np.uint8)
