"""The vector-unit instructions on real numbers: `vector.float16_lanes` and `vector.float32_lanes` compute them.

Elements are float16 or float32 and lie as densely as codes do; strides count bytes. Each lane computes in float32. A
function takes, for every `lanes` elements,

    simple, multiply   vector.float_cycles
    divide             vector.float_divide_cycles
    function           vector.float_function_cycles
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic import real
from npusim.isa.base.cause import Cause
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.vector import VECTOR_CAUSES
from npusim.isa.instructions.word import FieldSpec, bits

REAL_TYPES = ("float16", "float32")
"""Values of the field `element`."""

STORED_TYPES = ("int8", "uint8", "float16", "float32")
"""Values of the fields that say the types on both sides of a conversion."""

EFFORT_ACTIONS = {"simple": "add", "multiply": "multiply", "divide": "divide", "function": "function"}


def real_lanes(hardware: Hardware, element: str) -> int:
    """Lanes of the vector unit that compute an element type; 0 where there are none."""
    lanes: int = getattr(hardware.vector, f"{element}_lanes")
    return lanes


def effort_cycles(hardware: Hardware, effort: real.Effort) -> int:
    """Cycles of one element in a lane."""
    v = hardware.vector
    return {
        "simple": v.float_cycles,
        "multiply": v.float_cycles,
        "divide": v.float_divide_cycles,
        "function": v.float_function_cycles,
    }[effort]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealInstruction(Instruction):
    """What all of them share."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    element: int = bits(1, "type of the elements", choices=REAL_TYPES)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return 4 if self.element else 2

    @property
    def _dtype(self) -> Any:
        return np.float32 if self.element else np.float16

    def _lanes(self, context: Context) -> int:
        return max(real_lanes(context.hardware, REAL_TYPES[self.element]), 1)

    def misfits(self, context: Context) -> list[str]:
        """The machine must have lanes for the element type."""
        name = REAL_TYPES[self.element]
        if real_lanes(context.hardware, name):
            return []
        return [f"computes {name}, the machine has vector.{name}_lanes = 0"]

    def _action(self, effort: real.Effort) -> str:
        return f"vector_{REAL_TYPES[self.element]}_{EFFORT_ACTIONS[effort]}"

    def _needed(self, context: Context, lane_cycles: int) -> int:
        """Cycles of the real lanes as the vector unit's demand counts them: in cycles of its integer lanes."""
        return lane_cycles * context.hardware.vector.lanes // self._lanes(context)

    def _reals(
        self, memory: Memory, address: int, shape: Sequence[int], strides: Sequence[int] | None = None
    ) -> real.Reals:
        """Elements in float32; `strides` in bytes, dense if None."""
        view = self._view(memory, address, shape, strides)
        with np.errstate(invalid="ignore"):  # what is no number signals when it is copied
            return view.astype(np.float32)

    def _view(
        self,
        memory: Memory,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: Any = None,
    ) -> NDArray[Any]:
        dtype = dtype or self._dtype
        if strides is None:
            size = np.dtype(dtype).itemsize
            strides = [size * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        return memory.view(Space.SCRATCHPAD, address, shape, strides, dtype)


def float32_of(word: int) -> np.float32:
    """The float32 with these bits."""
    return np.float32(np.array([word], np.uint32).view(np.float32)[0])


def bits_of(number: float) -> int:
    """The bits of a number as float32, for a field of 32 bits."""
    return int(np.array([number], np.float32).view(np.uint32)[0])


@np.errstate(all="ignore")
def stored(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Results in the type of the memory; reals beyond it become infinite."""
    return values.astype(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealBinary(RealInstruction):
    """Elementwise function of two operands of rows x columns, which may repeat their rows or their columns.

    Comparisons write truths, one byte each.
    """

    mnemonic: ClassVar[str] = "vec.real_binary"
    opcode: ClassVar[int] = 0x50
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(5, "what is computed", choices=tuple(row.name for row in real.BINARY))
    a: int = bits(ADDRESS_BITS, "scratchpad address of the first operand")
    b: int = bits(ADDRESS_BITS, "of the second operand")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "rows")
    columns: int = bits(24, "columns, contiguous in the output")
    a_row_stride: int = bits(24, "bytes from row to row of the first operand; 0 repeats one row")
    b_row_stride: int = bits(24, "of the second operand")
    a_column_stride: int = bits(1, "1: one value per column, 0: one value per row", choices=("0", "1"))
    b_column_stride: int = bits(1, "of the second operand", choices=("0", "1"))
    activation: int = bits(2, "what follows", choices=real.ACTIVATIONS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def _row(self) -> real.RealFunction:
        return real.BINARY[self.function]

    @property
    def _output_bytes(self) -> int:
        return 1 if self._row.truth else self.element_bytes

    def _operand(self, address: int, row_stride: int, column_stride: int) -> Region:
        size = (self.columns if column_stride else 1) * self.element_bytes
        if row_stride == size:
            return dense(Space.SCRATCHPAD, address, self.rows * size)
        return Region(Space.SCRATCHPAD, address, (self.rows, size), (row_stride,))

    def regions(self, context: Context) -> Regions:
        """Both operands are read, the output is written."""
        a = self._operand(self.a, self.a_row_stride, self.a_column_stride)
        b = self._operand(self.b, self.b_row_stride, self.b_column_stride)
        size = self.rows * self.columns * self._output_bytes
        return (a, b), (dense(Space.SCRATCHPAD, self.output, size),)

    def faults(self) -> list[str]:
        """At least one element, and no activation of truths."""
        found = [
            f"{name} is 0; it may be 1 or more" for name in ("rows", "columns") if not getattr(self, name)
        ]
        if self._row.truth and self.activation:
            found.append("activation of truths; it may be none")
        return found

    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function, then the activation."""
        shape, size = (self.rows, self.columns), self.element_bytes
        a = self._reals(memory, self.a, shape, (self.a_row_stride, self.a_column_stride * size))
        b = self._reals(memory, self.b, shape, (self.b_row_stride, self.b_column_stride * size))
        dtype: Any = np.uint8 if self._row.truth else self._dtype
        with np.errstate(all="ignore"):
            values = real.activated(self._row.compute(a, b), self.activation)
        return [(self._view(memory, self.output, shape, dtype=dtype), stored(values, dtype))]

    def cost(self, context: Context) -> Cost:
        """Start-up, then the function's cycles for every `lanes` elements."""
        hardware, elements = context.hardware, self.rows * self.columns
        groups = -(-elements // self._lanes(context))
        cycles = hardware.vector.startup_cycles + groups * effort_cycles(hardware, self._row.effort)
        actions = {
            self._action(self._row.effort): elements,
            "scratchpad_read_byte": 2 * elements * self.element_bytes,
            "scratchpad_write_byte": elements * self._output_bytes,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The function of every element."""
        elements = self.rows * self.columns
        return self._needed(context, elements * effort_cycles(context.hardware, self._row.effort))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealUnary(RealInstruction):
    """A function of every element of a dense operand. `alpha` is the parameter of those that have one, as float32."""

    mnemonic: ClassVar[str] = "vec.real_unary"
    opcode: ClassVar[int] = 0x51
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(6, "what is computed", choices=tuple(row.name for row in real.UNARY))
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    size: int = bits(ADDRESS_BITS, "elements")
    alpha: int = bits(32, "parameter of the function, the bits of a float32")

    @property
    def tile(self) -> tuple[int, ...]:
        """The elements."""
        return (self.size,)

    @property
    def _row(self) -> real.RealFunction:
        return real.UNARY[self.function]

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        size = self.size * self.element_bytes
        return (dense(Space.SCRATCHPAD, self.input, size),), (dense(Space.SCRATCHPAD, self.output, size),)

    def faults(self) -> list[str]:
        """At least one element."""
        return [] if self.size else ["size is 0; it may be 1 or more"]

    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function."""
        x = self._reals(memory, self.input, (self.size,))
        alpha = float32_of(self.alpha)
        with np.errstate(all="ignore"):
            values = self._row.compute(x, alpha)
        return [(self._view(memory, self.output, (self.size,)), stored(values, self._dtype))]

    def cost(self, context: Context) -> Cost:
        """Start-up, then the function's cycles for every `lanes` elements."""
        hardware = context.hardware
        groups = -(-self.size // self._lanes(context))
        cycles = hardware.vector.startup_cycles + groups * effort_cycles(hardware, self._row.effort)
        moved = self.size * self.element_bytes
        actions = {
            self._action(self._row.effort): self.size,
            "scratchpad_read_byte": moved,
            "scratchpad_write_byte": moved,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The function of every element."""
        return self._needed(context, self.size * effort_cycles(context.hardware, self._row.effort))
