"""The vector-unit instructions that compare and choose.

They work on rows x columns as `vec.binary` does. A truth is a byte, 1 or 0; what is not 0 is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier
from npusim.isa.instructions.elementwise import ADD, MAX, PIXEL, Grid, Pair, rescaled_codes
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.vector import clamp_fault, code_type
from npusim.isa.instructions.word import FIRST, LAST, FieldSpec, bits

SCALES = ("codes", "rounded", "exact")

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}
"""The comparisons, in the order of the field `relation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Pair):
    """Compare two operands of rows x columns; the output is 1 where the relation holds, otherwise 0.

    Operands are compared as codes; "rounded", as (code - zero) << left_shift, rescaled; or "exact", as
    ((code - zero) * multiplier) << shift in 64 bits, where multipliers are below 2**24 and shifts 0..16.
    """

    mnemonic: ClassVar[str] = "vec.compare"
    opcode: ClassVar[int] = 0x36
    specs: ClassVar[tuple[FieldSpec, ...]]

    relation: int = bits(3, "what is true", choices=tuple(RELATIONS), place=FIRST)
    scale: int = bits(2, "what is compared", choices=SCALES, place=FIRST)
    a_multiplier: int = bits(31, "rescale of the first operand")
    b_multiplier: int = bits(31, "of the second operand")
    a_shift: int = bits(6, "shift of the first rescale", signed=True)
    b_shift: int = bits(6, "of the second", signed=True)
    left_shift: int = bits(5, "shift of operands before their rescale")
    signed: int = bits(1, "type of the operands", choices=SIGNS)

    @property
    def actions(self) -> Sequence[str]:
        """A comparison, of codes or of what two rescales make of them."""
        return MAX if SCALES[self.scale] == "codes" else ADD

    def faults(self) -> list[str]:
        """At least one element; exact factors leave the products room."""
        found = Pair.faults(self)
        if SCALES[self.scale] == "exact":
            for name in ("a", "b"):
                multiplier, shift = getattr(self, f"{name}_multiplier"), getattr(self, f"{name}_shift")
                if multiplier > 1 << 24 or not 0 <= shift <= 16:
                    found.append(
                        f"exact {name}_multiplier {multiplier}, {name}_shift {shift} may be 0..2**24, 0..16"
                    )
        return found

    def execute(self, memory: Memory) -> list[Write]:
        """Bring every code to what is compared, then compare."""
        a, b = self.views(memory, np.uint8)
        first = self._compared(self.a_zero, self.a_multiplier, self.a_shift)[a]
        second = self._compared(self.b_zero, self.b_multiplier, self.b_shift)[b]
        relation = list(RELATIONS.values())[self.relation]
        return self.written(memory, relation(first, second).astype(np.uint8))

    def _compared(self, zero: int, multiplier: int, shift: int) -> NDArray[Any]:
        """What is compared, for each of the 256 codes in the order of their bytes."""
        if SCALES[self.scale] == "rounded":
            return rescaled_codes(zero, self.left_shift, multiplier, shift, self.signed)
        codes = np.arange(256, dtype=np.uint8).view(code_type(self.signed)).astype(np.int64)
        exact: NDArray[np.int64] = (codes - zero) * multiplier << shift
        return codes if SCALES[self.scale] == "codes" else exact


CHOICES = ("codes", "rescaled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Grid):
    """Of two operands of rows x columns give the first where a condition is not 0, otherwise the second.

    "rescaled": the code that is given is first brought to another scale and zero point: multiply (code - zero), round,
    add the new zero, clamp.
    """

    mnemonic: ClassVar[str] = "vec.select"
    opcode: ClassVar[int] = 0x37
    specs: ClassVar[tuple[FieldSpec, ...]]
    names: ClassVar[tuple[str, ...]] = ("condition", "a", "b")

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
    condition_column_stride: int = bits(
        1, "1: one value per column, 0: one value per row", choices=("0", "1")
    )
    a_column_stride: int = bits(1, "of the first operand", choices=("0", "1"))
    b_column_stride: int = bits(1, "of the second operand", choices=("0", "1"))
    a_zero: int = bits(9, "zero point of the first operand", signed=True)
    b_zero: int = bits(9, "of the second operand", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    a_multiplier: int = bits(31, "rescale of the first operand")
    b_multiplier: int = bits(31, "of the second operand")
    a_shift: int = bits(6, "shift of the first rescale", signed=True)
    b_shift: int = bits(6, "of the second", signed=True)
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of operands and output", choices=SIGNS)
    pixel: int = bits(20, PIXEL, place=LAST)

    @property
    def actions(self) -> Sequence[str]:
        """A choice, and a rescale of what is chosen."""
        return MAX + ("requantise",) * self.function

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
