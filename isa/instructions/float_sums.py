"""The vector-unit instructions that add 8-bit codes up in float32 or wider, as ONNX does (`float32_rescale`).

Codes become f32(f32(code - zero) * scale), and the float32 result y becomes rint(f32(y / scale)) + zero, clamped,
halves to even. Scales and factors are the bits of a float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.isa.arithmetic.float_codes import Codes, Float32Array, clamped, dequantise, quantise, sum_in_order
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.float_codes import lacks_float32
from npusim.isa.instructions.instruction import Cost
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.real import float32_of
from npusim.isa.instructions.reduction import Gathered
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.rows import Rows
from npusim.isa.instructions.vector import clamp_fault, code_type, passes
from npusim.isa.instructions.windows import Pooling, axis_taps, window_faults, window_taps
from npusim.isa.instructions.word import FIRST, FieldSpec, bits

SUMS = ("mean", "sum", "fused_mean")
"""The functions of `FloatReduce`, in the order of its field."""

LARGEST_EXACT = 1 << 21
"""Terms whose sum float64 holds: 24 bits of the smallest, 8 more of the largest, and as many as there are terms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatPool(Pooling):
    """Average over windows in float32; only window elements inside the feature map count.

    Elements are added row by row, or each column from the top and then the columns from the left; the sum is divided by
    the number of elements. "fused" adds the zero point in float32 before it rounds. The first fields are those of
    `vec.pool`.
    """

    mnemonic: ClassVar[str] = "vec.float_pool"
    opcode: ClassVar[int] = 0x3D
    specs: ClassVar[tuple[FieldSpec, ...]]

    by_columns: int = bits(1, "order of the sum", choices=("rows", "columns"), place=FIRST)
    fused: int = bits(1, "what is rounded", choices=("literal", "fused"))
    input_zero: int = bits(9, "zero point of the feature map", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    input_scale: int = bits(32, "scale of the feature map, the bits of a float32")
    output_scale: int = bits(32, "of the output")
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    input_signed: int = bits(1, "type of the feature map", choices=SIGNS)
    signed: int = bits(1, "type of the output", choices=SIGNS)

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1, every window touches the feature map, the clamp is not empty."""
        return window_faults(self) + clamp_fault(self.signed, self.low, self.high)

    def misfits(self, context: Context) -> list[str]:
        """The machine must compute on codes in float32."""
        return lacks_float32(context)

    def execute(self, memory: Memory) -> list[Write]:
        """Add up each window, divide, make codes."""
        ifm, ofm = self.maps(memory, code_type(self.input_signed), code_type(self.signed))
        return [(ofm, self._codes(dequantise(ifm, float32_of(self.input_scale), self.input_zero)))]

    @np.errstate(all="ignore")
    def _codes(self, reals: Float32Array) -> Codes:
        sums, counts = self._sums(reals)
        scale, dtype = float32_of(self.output_scale), code_type(self.signed)
        averages = sums / counts
        if not self.fused:
            return quantise(averages, scale, self.output_zero, self.low, self.high, dtype)
        return clamped(np.rint(averages / scale + np.float32(self.output_zero)), self.low, self.high, dtype)

    def _sums(self, reals: Float32Array) -> tuple[Float32Array, Float32Array]:
        """The sums of all windows, and how many elements each has."""
        sums = np.zeros(self.tile, np.float32)
        counts = np.zeros((*self.tile[:2], 1), np.float32)
        if not self.by_columns:
            for outputs, elements in window_taps(self):
                sums[outputs] += reals[elements]
                counts[outputs] += 1
            return sums, counts
        for across, along in axis_taps(self, "width"):
            column = np.zeros_like(sums[:, across])
            for down, below in axis_taps(self, "height"):
                column[down] += reals[below, along]
                counts[down, across] += 1
            sums[:, across] += column
        return sums, counts

    def cost(self, context: Context) -> Cost:
        """Start-up; per output pixel and `lanes` channels each window element to float32 and added, then the end.

        Windows are counted whole: the unit skips no element that lies in the padding.
        """
        actions = {
            "vector_dequantise": self.outputs * self.taps,
            "vector_quantise": self.outputs,
            "scratchpad_read_byte": self.outputs * self.taps,
            "scratchpad_write_byte": self.outputs,
        }
        startup = context.hardware.vector.startup_cycles
        return Cost(startup + self.groups(context) * self._per_output(context), actions)

    def _per_output(self, context: Context) -> int:
        v = context.hardware.vector
        return self.taps * v.dequantise_cycles + v.quantise_cycles

    def demand(self, context: Context) -> int:
        """A step for every window element of every output, and the end of each."""
        return self.outputs * self._per_output(context)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatReduce(Gathered):
    """The mean or the sum of elements: [outer, parts, middle, count, inner] loses parts and count.

    Results are [outer, middle, inner]. "mean" and "sum" add float32 numbers up without loss, in 64 bits, and round to
    float32 once. "fused_mean" adds codes less their zero point up; the sum s becomes
    rint(f32(f32(s) * output_scale)) + zero. The first fields are those of `vec.reduce`.
    """

    mnemonic: ClassVar[str] = "vec.float_reduce"
    opcode: ClassVar[int] = 0x3F
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(3, "what is computed", choices=SUMS, place=FIRST)
    input_zero: int = bits(9, "zero point of the input", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    input_scale: int = bits(32, "scale of the input, the bits of a float32")
    output_scale: int = bits(32, "of the output; fused_mean: the factor of the sum")
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    input_signed: int = bits(1, "type of the input", choices=SIGNS)
    signed: int = bits(1, "type of the output", choices=SIGNS)

    @property
    def _fused(self) -> bool:
        return SUMS[self.function] == "fused_mean"

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        source = dense(Space.SCRATCHPAD, self.input, self.results * self.terms)
        return (source,), (dense(Space.SCRATCHPAD, self.output, self.results),)

    def faults(self) -> list[str]:
        """Sizes are at least 1, sums stay exact, the clamp is not empty."""
        found = Gathered.faults(self)
        if self.terms >= LARGEST_EXACT:
            found.append(f"{self.terms} terms may not add up exactly; may be less than {LARGEST_EXACT}")
        return found + clamp_fault(self.signed, self.low, self.high)

    def misfits(self, context: Context) -> list[str]:
        """The machine must compute on codes in float32."""
        return lacks_float32(context)

    def execute(self, memory: Memory) -> list[Write]:
        """Bring the elements of a result together, then add up and make codes."""
        codes = self._codes(self.elements(memory, code_type(self.input_signed)))
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.results)
        return [(target, codes.view(np.uint8))]

    @np.errstate(all="ignore")
    def _codes(self, elements: Codes) -> Codes:
        """[terms, results] -> [results]."""
        scale, dtype = float32_of(self.output_scale), code_type(self.signed)
        if self._fused:
            sums = elements.sum(0, dtype=np.int32) - np.int32(self.terms * self.input_zero)
            steps = np.rint(sums.astype(np.float32) * scale) + np.float32(self.output_zero)
            return clamped(steps, self.low, self.high, dtype)
        reals = dequantise(elements, float32_of(self.input_scale), self.input_zero)
        wide = reals.sum(0, dtype=np.float64)
        if SUMS[self.function] == "mean":
            wide = wide / self.terms
        return quantise(wide.astype(np.float32), scale, self.output_zero, self.low, self.high, dtype)

    @property
    def _actions(self) -> tuple[str, str]:
        """Of an element, and of a result."""
        return ("vector_add_i32", "vector_fused") if self._fused else ("vector_dequantise", "vector_quantise")

    def _per_result(self, context: Context) -> int:
        v = context.hardware.vector
        element, end = (
            (v.reduce_cycles, v.fused_cycles) if self._fused else (v.dequantise_cycles, v.quantise_cycles)
        )
        return self.terms * element + end

    def cost(self, context: Context) -> Cost:
        """Start-up; `lanes` results at a time, the elements of each one after the other, then their end."""
        v = context.hardware.vector
        elements, results = self.results * self.terms, self.results
        element, end = self._actions
        actions = {
            element: elements,
            end: results,
            "scratchpad_read_byte": elements,
            "scratchpad_write_byte": results,
        }
        return Cost(v.startup_cycles + passes(results, v) * self._per_result(context), actions)

    def demand(self, context: Context) -> int:
        """The turns of all elements, and what all results end with."""
        return self.results * self._per_result(context)


SOFTMAXES = ("literal", "fused")
"""The functions of `FloatSoftmax`, in the order of its field."""
TABLE_BYTES = 1024
"""Of 256 float32 exponentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatSoftmax(Rows):
    """Softmax over rows of `depth` codes in floating point; rows lie as those of `vec.softmax`.

    "literal": exponentials of the differences to the row's largest number, and their sum, have 64 bits; a quotient is
    rounded to float32, and made a code. "fused": e is the entry 255 - (largest code - code) of a table of float32, s
    the float32 sum of the row's, one after the other; the code is rint(e * output_scale / s) + zero.
    """

    mnemonic: ClassVar[str] = "vec.float_softmax"
    opcode: ClassVar[int] = 0x41
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(1, "what is computed", choices=SOFTMAXES, place=FIRST)
    table: int = bits(ADDRESS_BITS, "scratchpad address of the table (fused)")
    input_zero: int = bits(9, "zero point of the input", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    input_scale: int = bits(32, "scale of the input, the bits of a float32")
    output_scale: int = bits(32, "of the output; fused, the largest result in steps of the output")
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    input_signed: int = bits(1, "type of the input", choices=SIGNS)
    signed: int = bits(1, "type of the output", choices=SIGNS)

    @property
    def _fused(self) -> bool:
        return SOFTMAXES[self.function] == "fused"

    def regions(self, context: Context) -> Regions:
        """Dense input and output, and the table."""
        (source,), writes = Rows.regions(self, context)
        if not self._fused:
            return (source,), writes
        return (source, dense(Space.SCRATCHPAD, self.table, TABLE_BYTES)), writes

    def faults(self) -> list[str]:
        """At least one element, and a clamp inside the type."""
        return Rows.faults(self) + clamp_fault(self.signed, self.low, self.high)

    def misfits(self, context: Context) -> list[str]:
        """The machine must compute on codes in float32."""
        return lacks_float32(context)

    def execute(self, memory: Memory) -> list[Write]:
        """Maximum, exponentials and sum, then the quotients, row by row."""
        shape, size = (self.rows, self.depth, self.gap + 1), self._elements
        raw = memory.bytes_at(Space.SCRATCHPAD, self.input, size)
        codes = raw.view(code_type(self.input_signed)).reshape(shape).swapaxes(1, 2)
        with np.errstate(all="ignore"):
            results = self._fused_codes(memory, codes) if self._fused else self._literal_codes(codes)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, size)
        return [(target.view(results.dtype).reshape(shape), results.swapaxes(1, 2))]

    def _literal_codes(self, codes: Codes) -> Codes:
        reals = dequantise(codes, float32_of(self.input_scale), self.input_zero).astype(np.float64)
        exponentials = np.exp(reals - reals.max(axis=-1, keepdims=True))
        shares = exponentials / sum_in_order(exponentials)
        scale, dtype = float32_of(self.output_scale), code_type(self.signed)
        return quantise(shares.astype(np.float32), scale, self.output_zero, self.low, self.high, dtype)

    def _fused_codes(self, memory: Memory, codes: Codes) -> Codes:
        table = memory.bytes_at(Space.SCRATCHPAD, self.table, TABLE_BYTES).view("<f4")
        wide = codes.astype(np.int32)
        exponentials = table[255 - (wide.max(axis=-1, keepdims=True) - wide)]
        products = exponentials.astype(np.float64) * float32_of(self.output_scale)  # exact
        whole = np.rint(products / sum_in_order(exponentials).astype(np.float64)) + self.output_zero
        return clamped(whole.astype(np.float32), self.low, self.high, code_type(self.signed))

    @property
    def _actions(self) -> dict[str, int]:
        """What an element takes in three passes: compare; to float32, an exponential of twice the bits; both again, and
        a quotient that becomes a code. Fused: compare; an entry of 4 bytes, add; the entry, multiply, and the quotient.
        """
        if self._fused:
            return {"vector_max": 1, "vector_lut": 8, "vector_fused": 1, "vector_quantise": 1}
        return {"vector_max": 1, "vector_dequantise": 2, "vector_exp": 4, "vector_quantise": 1}

    def _per_element(self, context: Context) -> int:
        v = context.hardware.vector
        cycles = {
            "vector_max": v.max_cycles,
            "vector_lut": v.lut_cycles,
            "vector_fused": v.fused_cycles,
            "vector_quantise": v.quantise_cycles,
            "vector_dequantise": v.dequantise_cycles,
            "vector_exp": v.exp_cycles,
        }
        return sum(times * cycles[action] for action, times in self._actions.items())

    def cost(self, context: Context) -> Cost:
        """Start-up, fused loading the table at `lanes` bytes per cycle; per row three passes over its elements.

        The lanes take elements of one row, or of rows that lie beside each other.
        """
        v = context.hardware.vector
        loaded = TABLE_BYTES if self._fused else 0
        groups = passes(self.gap + 1, v) * self.depth if self.gap else passes(self.depth, v)
        cycles = v.startup_cycles + passes(loaded, v) + self.rows * groups * self._per_element(context)
        size = self._elements
        actions = {action: times * size for action, times in self._actions.items()}
        actions |= {"scratchpad_read_byte": 3 * size + loaded, "scratchpad_write_byte": size}
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The three passes over every element."""
        return self._elements * self._per_element(context)
