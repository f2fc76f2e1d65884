"""vec.reduce computes sums, means, products, extrema or arg-max along axes, in every number format."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.float_codes import clamped, dequantise, quantise
from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.instructions.instruction import Context, zero_faults
from npusim.isa.instructions.lanes import (
    Formatted,
    Values,
    Way,
    Work,
    bound,
    float32_of,
    stored,
)
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.windows import most_terms
from npusim.isa.instructions.word import ADDRESS_BITS, FIRST, SIGNS, bits

FUNCTIONS = ("max", "min", "arg_max", "arg_min", "sum", "mean", "prod", "fused_mean")
"""Functions of `vec.reduce`, in the order of its field."""

LARGEST_EXACT = 1 << 21
"""Number of terms from which on a float64 sum may be inexact: its 53 bits hold a float32 (24 bits), the range of 8-bit
values (8 bits) and the number of terms (21 bits)."""

_SIZES = ("outer", "parts", "middle", "count", "inner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Formatted):
    """Reduce [outer, parts, middle, count, inner] over parts and count; results are [outer, middle, inner].

    Integers: a maximum or minimum is clamped but not requantized. A position is that of the first of equal elements, in
    the order of parts and count, as an integer of 4 or 8 bytes. A sum is that of the elements less their zero point,
    requantized. With 1 / terms in the multiplier it is a mean.

    as_float32: "sum" and "mean" add exactly, in float64, and round to float32 once. "fused_mean" adds 8-bit values less
    their zero point; the result of a sum s is rint(f32(f32(s) * output_scale)) + zero. Scale fields hold the bits of
    a float32.

    Floats: elements are reduced in float64, one after the other, and rounded once; `parts` is 1.
    """

    mnemonic: ClassVar[str] = "vec.reduce"
    opcode: ClassVar[int] = 0x38
    names: ClassVar[tuple[str, ...]] = FUNCTIONS

    function: int = bits(3, "what is computed", choices=FUNCTIONS, place=FIRST)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    outer: int = bits(24, "size of the outermost dimension, which is not reduced")
    parts: int = bits(24, "size of the second dimension, which is reduced")
    middle: int = bits(24, "size of the third dimension, which is not reduced")
    count: int = bits(24, "size of the fourth dimension, which is reduced")
    inner: int = bits(24, "size of the innermost, contiguous dimension, which is not reduced")
    wide: int = bits(1, "bytes of a position", choices=("4", "8"))
    input_zero: int = bits(9, "zero point of the input", signed=True)
    output_zero: int = bits(9, "zero point of the output", signed=True)
    multiplier: int = bits(31, "multiplier of an integer sum's requantization")
    shift: int = bits(7, "shift of an integer sum's requantization", signed=True)
    input_scale: int = bits(32, "as_float32: scale of the input")
    output_scale: int = bits(32, "as_float32: scale of the output; fused_mean: factor of the sum")
    low: int = bound("smallest")
    high: int = bound("largest")
    input_signed: int = bits(1, "as_float32: type of the input", choices=SIGNS)
    signed: int = bits(1, "type of 8-bit results, and of the input of 8_bit", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Shape of the results: rows and contiguous columns."""
        return self.outer * self.middle, self.inner

    @property
    def results(self) -> int:
        """Number of results."""
        return self.outer * self.middle * self.inner

    @property
    def terms(self) -> int:
        """Number of elements that are reduced to one result."""
        return self.parts * self.count

    @property
    def name(self) -> str:
        """The name of the function."""
        return FUNCTIONS[self.function]

    @property
    def _result_bytes(self) -> int:
        positions = self.name.startswith("arg_")
        return (4, 8)[self.wide] if positions else self.number_format.size_bytes

    def regions(self, context: Context) -> Regions:
        """Return the regions of the dense input and of the dense output."""
        target = dense(Space.SCRATCHPAD, self.output, self.results * self._result_bytes)
        return (self.region(self.input, self.results * self.terms),), (target,)

    def faults(self) -> list[str]:
        """Sizes are at least 1, sums are exact, positions are below 2^31, the clamp is not empty, and the format has
        the function. For floats, `parts` is 1.
        """
        messages = zero_faults(self, _SIZES)
        arithmetic, most = self.number_format.arithmetic, most_terms(self.number_format)
        if arithmetic == "fixed_point" and self.name == "sum" and self.terms >= most:
            messages.append(f"{self.terms} terms may overflow the accumulator; may be less than {most}")
        if arithmetic == "as_float32" and self.terms >= LARGEST_EXACT:
            messages.append(f"{self.terms} terms may not add up exactly; may be less than {LARGEST_EXACT}")
        if self.name.startswith("arg_") and self.terms >= 1 << 31:
            messages.append(f"{self.terms} elements have positions beyond 31 bits")
        if arithmetic == "float" and self.terms > self.count:
            messages.append(f"parts is {self.parts} with floats; it may be 1")
        return messages + self.range_faults(self.low, self.high) + self.function_faults()

    @np.errstate(all="ignore")
    def execute(self, memory: Memory) -> list[Write]:
        """Collect the elements of each result, then reduce them."""
        shape = (self.outer, self.parts, self.middle, self.count, self.inner)
        nest = self.elements_at(memory, self.input, shape, dtype=self.input_dtype)
        elements = nest.transpose(1, 3, 0, 2, 4).reshape(self.terms, self.results)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.results * self._result_bytes)
        return [(target, self.way.compute(self, elements).view(np.uint8))]

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Every element is read once."""
        read = self.results * self.terms * self.number_format.size_bytes
        return read, self.results * self._result_bytes

    def work(self, context: Context) -> tuple[Work, ...]:
        """Lanes compute `lanes` results in parallel. Each takes its elements one after the other, then the actions that
        end a result. Integer lanes take any results, float lanes only contiguous ones. A lane writes as many bytes a
        cycle as an element has: a position is written in such pieces, the first in the last cycle of its last element.
        """
        beside = self.number_format.arithmetic == "float"
        groups = self.outer * self.middle * self.groups(context, self.inner) if beside else None
        part = self.part(context, self.way.steps(self.terms), self.results, groups)
        return (part._replace(leaving=self._result_bytes // self.number_format.size_bytes - 1),)


def _extreme(row: Reduce, elements: Values) -> Values:
    extremes: Values = elements.max(0) if row.name == "max" else elements.min(0)
    return np.clip(extremes, row.low, row.high)


def _position(row: Reduce, elements: Values) -> Values:
    find = np.argmax if row.name == "arg_max" else np.argmin
    positions: Values = find(elements, axis=0).astype(("<i4", "<i8")[row.wide])
    return positions


def _sum(row: Reduce, elements: Values) -> Values:
    sums = elements.sum(0, dtype=np.int32) - np.int32(row.terms * row.input_zero)
    clamp = row.output_zero, row.low, row.high, row.dtype
    return requantise(sums, row.multiplier, row.shift, *clamp, "double")


def _sum_in_float32(row: Reduce, elements: Values) -> Values:
    wide = dequantise(elements, float32_of(row.input_scale), row.input_zero).sum(0, dtype=np.float64)
    if row.name == "mean":
        wide = wide / row.terms
    scale = float32_of(row.output_scale)
    return quantise(wide.astype(np.float32), scale, row.output_zero, row.low, row.high, row.dtype)


def _fused_mean(row: Reduce, elements: Values) -> Values:
    sums = elements.sum(0, dtype=np.int32) - np.int32(row.terms * row.input_zero)
    steps = np.rint(sums.astype(np.float32) * float32_of(row.output_scale)) + np.float32(row.output_zero)
    return clamped(steps, row.low, row.high, row.dtype)


def _in_floats(row: Reduce, elements: Values) -> Values:
    return stored(real.reduced(row.name, elements.astype(np.float32)), row.dtype)


Reduce.ways = {
    ("max", "fixed_point"): Way(_extreme, "vector_max"),
    ("min", "fixed_point"): Way(_extreme, "vector_max"),
    ("arg_max", "fixed_point"): Way(_position, "vector_max"),
    ("arg_min", "fixed_point"): Way(_position, "vector_max"),
    ("sum", "fixed_point"): Way(_sum, "vector_add_i32", ("requantise",)),
    ("sum", "as_float32"): Way(_sum_in_float32, "vector_dequantise", ("vector_quantise",)),
    ("mean", "as_float32"): Way(_sum_in_float32, "vector_dequantise", ("vector_quantise",)),
    ("fused_mean", "as_float32"): Way(_fused_mean, "vector_add_i32", ("vector_fused",)),
    ("sum", "float"): Way(_in_floats, "float_add"),
    ("mean", "float"): Way(_in_floats, "float_add", ("float_divide",)),
    ("max", "float"): Way(_in_floats, "float_add"),
    ("min", "float"): Way(_in_floats, "float_add"),
    ("prod", "float"): Way(_in_floats, "float_multiply"),
}
