"""The vector-unit instructions: elementwise functions, pools, reductions, look-up, softmax."""

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
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS, map_region
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.word import FieldSpec, bits

Codes = NDArray[Any]

VECTOR_CAUSES = (
    Cause(
        "vector_overhead",
        "vector start-up",
        "#5bb89f",
        "inside the vector unit: start-up of instructions, lanes without an element, loading tables",
        ("vector.startup_cycles",),
    ),
)

LARGEST_SUM = 1 << 22
"""Terms of a sum of codes less their zero point, 9 bits, that surely stays inside 32 bits."""


def _dtype(signed: int) -> Any:
    return np.int8 if signed else np.uint8


def _clamp_fault(signed: int, low: int, high: int) -> list[str]:
    code_low, code_high = (-128, 127) if signed else (0, 255)
    if code_low <= low <= high <= code_high:
        return []
    return [f"clamp {low}..{high} does not lie in {code_low}..{code_high}"]


def _passes(elements: int, v: Vector) -> int:
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
        return found + _clamp_fault(self.signed, self.low, self.high)

    def _view(self, memory: Memory, address: int, row_stride: int, column_stride: int) -> Codes:
        shape = (self.rows, self.columns)
        return memory.view(Space.SCRATCHPAD, address, shape, (row_stride, column_stride), _dtype(self.signed))

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
        cycles = v.startup_cycles + _passes(elements, v) * function.cycles(v)
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
    codes = np.arange(256, dtype=np.uint8).view(_dtype(signed)).astype(np.int32)
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
        values, i.output_multiplier, i.output_shift, i.output_zero, i.low, i.high, _dtype(i.signed), "double"
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
class Pool(Instruction):
    """Average or maximum over windows; only window elements inside the feature map count.

    The average is the sum of codes over the number of elements, rounded half away from zero.
    """

    mnemonic: ClassVar[str] = "vec.pool"
    opcode: ClassVar[int] = 0x31
    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES
    specs: ClassVar[tuple[FieldSpec, ...]]

    maximum: int = bits(1, "what is computed", choices=("average", "maximum"))
    ifm: int = bits(ADDRESS_BITS, "scratchpad address of the first feature-map row")
    ifm_row_stride: int = bits(24, "bytes from one feature-map row to the next")
    ifm_height: int = bits(16, "feature-map rows present")
    ifm_width: int = bits(16, "feature-map columns")
    depth: int = bits(20, "channels")
    ofm: int = bits(ADDRESS_BITS, "scratchpad address of the first output row")
    ofm_row_stride: int = bits(24, "bytes from one output row to the next")
    ofm_height: int = bits(16, "output rows")
    ofm_width: int = bits(16, "output columns")
    kernel_height: int = bits(16, "window rows")
    kernel_width: int = bits(16, "window columns")
    stride_height: int = bits(16, "rows between windows")
    stride_width: int = bits(16, "columns between windows")
    pad_top: int = bits(16, "padding rows above the first feature-map row")
    pad_left: int = bits(16, "padding columns left of the first")
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of feature map and output", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, columns and channels of the output."""
        return self.ofm_height, self.ofm_width, self.depth

    def regions(self, context: Context) -> Regions:
        """The feature map is read, the output is written; pixels are dense."""
        ifm_sizes = (self.ifm_height, self.ifm_width, self.depth)
        ofm_sizes = (self.ofm_height, self.ofm_width, self.depth)
        ifm = map_region(self.ifm, ifm_sizes, (self.ifm_row_stride, self.depth))
        return (ifm,), (map_region(self.ofm, ofm_sizes, (self.ofm_row_stride, self.depth)),)

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1, every window touches the feature map and can be summed, the clamp is
        not empty.
        """
        sizes = (
            "ifm_height", "ifm_width", "depth", "ofm_height", "ofm_width",
            "kernel_height", "kernel_width", "stride_height", "stride_width",
        )  # fmt: skip
        found = [f"{name} is 0; it may be 1 or more" for name in sizes if getattr(self, name) == 0]
        for axis in ("height", "width"):
            pad = self.pad_top if axis == "height" else self.pad_left
            last = (getattr(self, f"ofm_{axis}") - 1) * getattr(self, f"stride_{axis}") - pad
            if pad >= getattr(self, f"kernel_{axis}") or last >= getattr(self, f"ifm_{axis}"):
                found.append(f"a window lies outside the feature map in {axis}")
        window = self.kernel_height * self.kernel_width
        if window >= LARGEST_SUM:
            found.append(
                f"a window of {window} may overflow the accumulator; it may be less than {LARGEST_SUM}"
            )
        return found + _clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Reduce each window."""
        dtype = _dtype(self.signed)
        shape = (self.ifm_height, self.ifm_width, self.depth)
        ifm = memory.view(Space.SCRATCHPAD, self.ifm, shape, (self.ifm_row_stride, self.depth, 1), dtype)
        values = self._maximum(ifm) if self.maximum else self._average(ifm)
        shape = (self.ofm_height, self.ofm_width, self.depth)
        ofm = memory.view(Space.SCRATCHPAD, self.ofm, shape, (self.ofm_row_stride, self.depth, 1), dtype)
        return [(ofm, np.clip(values, self.low, self.high))]

    def _taps(self, ifm: Codes) -> list[tuple[slice, slice, Codes]]:
        """For each window element: the outputs whose element lies inside, and the values there."""
        found = []
        taps_of_a_row = _reaching(
            self.kernel_width, self.pad_left, self.stride_width, self.ofm_width, self.ifm_width
        )
        for ky in _reaching(
            self.kernel_height, self.pad_top, self.stride_height, self.ofm_height, self.ifm_height
        ):
            rows = _inside(ky - self.pad_top, self.stride_height, self.ofm_height, self.ifm_height)
            for kx in taps_of_a_row:
                columns = _inside(kx - self.pad_left, self.stride_width, self.ofm_width, self.ifm_width)
                if rows is None or columns is None:
                    continue
                found.append((rows[0], columns[0], ifm[rows[1], columns[1]]))
        return found

    def _maximum(self, ifm: Codes) -> Codes:
        lowest = -128 if self.signed else 0
        result = np.full((self.ofm_height, self.ofm_width, self.depth), lowest, ifm.dtype)
        for rows, columns, values in self._taps(ifm):
            np.maximum(result[rows, columns], values, out=result[rows, columns])
        return result

    def _average(self, ifm: Codes) -> NDArray[np.int32]:
        sums = np.zeros((self.ofm_height, self.ofm_width, self.depth), np.int32)
        counts = np.zeros((self.ofm_height, self.ofm_width, 1), np.int32)
        whole = self.ofm_height == self.ofm_width == 1 and (self.pad_top, self.pad_left) == (0, 0)
        if whole:
            window = ifm[: self.kernel_height, : self.kernel_width]
            sums[0, 0] = window.sum((0, 1), dtype=np.int32)
            counts[...] = window.shape[0] * window.shape[1]
        else:
            for rows, columns, values in self._taps(ifm):
                sums[rows, columns] += values
                counts[rows, columns] += 1
        half = counts // 2
        quotient = (np.abs(sums) + half) // counts
        return np.where(sums > 0, quotient, -quotient)

    def cost(self, context: Context) -> Cost:
        """Start-up; per output pixel and `lanes` channels one pool step per window element, a division for averages.

        Windows are counted whole: the unit skips no element that lies in the padding.
        """
        v = context.hardware.vector
        outputs = self.ofm_height * self.ofm_width * self.depth
        taps = self.kernel_height * self.kernel_width
        per_group = taps * v.pool_cycles + (0 if self.maximum else v.divide_cycles)
        groups = self.ofm_height * self.ofm_width * _passes(self.depth, v)
        actions = {
            "vector_pool_step": outputs * taps,
            "scratchpad_read_byte": outputs * taps,
            "scratchpad_write_byte": outputs,
        }
        if not self.maximum:
            actions["vector_divide"] = outputs
        return Cost(v.startup_cycles + groups * per_group, actions)

    def demand(self, context: Context) -> int:
        """A step for every window element of every output, and for averages a division of each."""
        v = context.hardware.vector
        taps = self.kernel_height * self.kernel_width
        outputs = self.ofm_height * self.ofm_width * self.depth
        return outputs * (taps * v.pool_cycles + (0 if self.maximum else v.divide_cycles))


def _reaching(kernel: int, pad: int, stride: int, outputs: int, inputs: int) -> range:
    """The taps of a window along one axis that can reach the feature map from any output."""
    return range(max(0, pad - (outputs - 1) * stride), min(kernel, inputs + pad))


def _inside(offset: int, stride: int, outputs: int, inputs: int) -> tuple[slice, slice] | None:
    """Outputs o with 0 <= o * stride + offset < inputs, and those inputs; None if there are none."""
    first = max(0, -(offset // stride)) if offset < 0 else 0
    last = min(outputs, (inputs - 1 - offset) // stride + 1)
    if last <= first:
        return None
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Instruction):
    """Sum over the middle of [outer, count, inner], less count * zero, rescaled (the multiplier holds 1/count)."""

    mnemonic: ClassVar[str] = "vec.mean"
    opcode: ClassVar[int] = 0x32
    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES
    specs: ClassVar[tuple[FieldSpec, ...]]

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    outer: int = bits(24, "independent sums")
    count: int = bits(24, "elements of one sum")
    inner: int = bits(24, "contiguous elements that are summed separately")
    input_zero: int = bits(9, "zero point of the input", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    multiplier: int = bits(31, "rescale")
    shift: int = bits(7, "shift of the rescale", signed=True)
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of input and output", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """The sums, and the elements that are summed separately."""
        return self.outer, self.inner

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        source = dense(Space.SCRATCHPAD, self.input, self.outer * self.count * self.inner)
        return (source,), (dense(Space.SCRATCHPAD, self.output, self.outer * self.inner),)

    def faults(self) -> list[str]:
        """Sizes are at least 1, the sum stays below 2^31, the clamp is not empty."""
        found = [
            f"{n} is 0; it may be 1 or more" for n in ("outer", "count", "inner") if not getattr(self, n)
        ]
        if self.count >= LARGEST_SUM:
            found.append(
                f"count {self.count} may overflow the accumulator; it may be less than {LARGEST_SUM}"
            )
        return found + _clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Sum and rescale."""
        dtype = _dtype(self.signed)
        raw = memory.bytes_at(Space.SCRATCHPAD, self.input, self.outer * self.count * self.inner)
        sums = raw.view(dtype).reshape(self.outer, self.count, self.inner).sum(1, dtype=np.int32)
        values = requantise(
            sums - np.int32(self.count * self.input_zero),
            self.multiplier, self.shift, self.output_zero, self.low, self.high, dtype, "double",
        )  # fmt: skip
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.outer * self.inner)
        return [(target.view(dtype).reshape(self.outer, self.inner), values)]

    def cost(self, context: Context) -> Cost:
        """Start-up, one add per element, one rescale per sum."""
        v = context.hardware.vector
        elements, sums = self.outer * self.count * self.inner, self.outer * self.inner
        passes = self.outer * _passes(self.inner, v)
        cycles = v.startup_cycles + passes * (self.count * v.reduce_cycles + v.requantise_cycles)
        actions = {
            "vector_add_i32": elements,
            "requantise": sums,
            "scratchpad_read_byte": elements,
            "scratchpad_write_byte": sums,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """An add of every element, a rescale of every sum."""
        v = context.hardware.vector
        return self.outer * self.inner * (self.count * v.reduce_cycles + v.requantise_cycles)


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
        return _Unary.faults(self) + _clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Rescale the 256 possible codes, then look each element up."""
        table = requantise(
            np.arange(256, dtype=np.uint8).view(_dtype(self.input_signed)).astype(np.int32) - self.input_zero,
            self.multiplier, self.shift, self.output_zero, self.low, self.high, _dtype(self.signed), "double",
        )  # fmt: skip
        source = memory.bytes_at(Space.SCRATCHPAD, self.input, self.size)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.size)
        return [(target, table.view(np.uint8)[source])]

    def cost(self, context: Context) -> Cost:
        """Start-up, then the rescale of every `lanes` elements."""
        v = context.hardware.vector
        cycles = v.startup_cycles + _passes(self.size, v) * v.requantise_cycles
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
        cycles = v.startup_cycles + _passes(256, v) + _passes(self.size, v) * v.lut_cycles
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
        dtype = _dtype(self.signed)
        size = self.rows * self.depth
        codes = memory.bytes_at(Space.SCRATCHPAD, self.input, size).view(dtype).reshape(self.rows, self.depth)
        values = softmax_fixed_point(codes, self.multiplier, self.left_shift, self.difference_min)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, size)
        return [(target.view(dtype).reshape(self.rows, self.depth), values)]

    def cost(self, context: Context) -> Cost:
        """Start-up; per row three passes (maximum; exponential and add; exponential and rescale), one reciprocal."""
        v = context.hardware.vector
        per_pass = v.max_cycles + (v.exp_cycles + v.reduce_cycles) + (v.exp_cycles + v.requantise_cycles)
        cycles = v.startup_cycles + self.rows * (_passes(self.depth, v) * per_pass + v.exp_cycles)
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
