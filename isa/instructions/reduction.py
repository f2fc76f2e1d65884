"""The vector-unit instructions that reduce: pools over windows, sums, extremes and their positions along axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.cause import Cause
from npusim.isa.engines.engine import Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.vector import (
    VECTOR_CAUSES,
    Codes,
    clamp_fault,
    code_type,
    int16_bound,
    int16_field,
    int16_misfits,
    passes,
    range_faults,
    range_of,
    turns,
)
from npusim.isa.instructions.windows import Pooling, window_faults, window_taps
from npusim.isa.instructions.word import FIRST, FieldSpec, bits

LARGEST_SUM = 1 << 22
"""Terms of a sum of codes less their zero point, 9 bits, that surely stays inside 32 bits."""


REDUCTIONS = ("max", "min", "arg_max", "arg_min", "sum")
"""The functions of `Reduce`, in the order of its field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Pooling):
    """Average or maximum over windows; only window elements inside the feature map count.

    The average is the sum of codes over the number of elements, rounded half away from zero.
    """

    mnemonic: ClassVar[str] = "vec.pool"
    opcode: ClassVar[int] = 0x31
    specs: ClassVar[tuple[FieldSpec, ...]]

    maximum: int = bits(1, "what is computed", choices=("average", "maximum"), place=FIRST)
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of feature map and output", choices=SIGNS)
    int16: int = int16_field("feature map and output are")
    int16_low: int = int16_bound("smallest")
    int16_high: int = int16_bound("largest")

    @property
    def wide(self) -> int:
        """1 where elements are int16."""
        return self.int16

    def misfits(self, context: Context) -> list[str]:
        """Passes for int16."""
        return int16_misfits(self.int16, context)

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1, every window touches the feature map and can be summed, the clamp is
        not empty.
        """
        found = window_faults(self)
        if self.taps >= LARGEST_SUM:
            found.append(
                f"a window of {self.taps} may overflow the accumulator; it may be less than {LARGEST_SUM}"
            )
        return found + range_faults(self)

    def execute(self, memory: Memory) -> list[Write]:
        """Reduce each window."""
        low, high, dtype = range_of(self)
        ifm, ofm = self.maps(memory, dtype, dtype)
        values = self._maximum(ifm) if self.maximum else self._average(ifm)
        return [(ofm, np.clip(values, low, high))]

    def _maximum(self, ifm: Codes) -> Codes:
        result = np.full(self.tile, np.iinfo(ifm.dtype).min, ifm.dtype)
        for outputs, elements in window_taps(self):
            np.maximum(result[outputs], ifm[elements], out=result[outputs])
        return result

    def _average(self, ifm: Codes) -> NDArray[np.int32]:
        sums = np.zeros(self.tile, np.int32)
        counts = np.zeros((self.ofm_height, self.ofm_width, 1), np.int32)
        whole = self.ofm_height == self.ofm_width == 1 and (self.pad_top, self.pad_left) == (0, 0)
        if whole:
            window = ifm[: self.kernel_height, : self.kernel_width]
            sums[0, 0] = window.sum((0, 1), dtype=np.int32)
            counts[...] = window.shape[0] * window.shape[1]
        else:
            for outputs, elements in window_taps(self):
                sums[outputs] += ifm[elements]
                counts[outputs] += 1
        half = counts // 2
        quotient = (np.abs(sums) + half) // counts
        return np.where(sums > 0, quotient, -quotient)

    def cost(self, context: Context) -> Cost:
        """Start-up; per output pixel and `lanes` channels one pool step per window element, a division for averages.

        Windows are counted whole: the unit skips no element that lies in the padding. An array that pools in blocks
        says how long it takes.
        """
        actions = {
            "vector_pool_step": self.outputs * self.taps,
            "scratchpad_read_byte": self.outputs * self.taps << self.wide,
            "scratchpad_write_byte": self.outputs << self.wide,
        }
        if not self.maximum:
            actions["vector_divide"] = self.outputs
        in_blocks = self._in_blocks(context)
        if in_blocks is not None:
            return Cost(in_blocks, actions)
        startup = context.hardware.vector.startup_cycles
        return Cost(startup + self.groups(context) * self._per_output(context), actions)

    def _in_blocks(self, context: Context) -> int | None:
        """Cycles where the MAC array's blocks are used."""
        array = context.hardware.mac_array
        problem = Problem(
            self.ofm_height, self.ofm_width, self.depth, self.depth, self.kernel_height, self.kernel_width,
            self.stride_width, 1, True, self.stride_height, value_bytes=1 + self.wide,
        )  # fmt: skip
        cycles = engine_of(array).pool(array, problem)
        return None if cycles is None else cycles * turns(self.wide, context)

    def _per_output(self, context: Context) -> int:
        v = context.hardware.vector
        cycles = self.taps * v.pool_cycles + (0 if self.maximum else v.divide_cycles)
        return cycles * turns(self.wide, context)

    def demand(self, context: Context) -> int:
        """A step for every window element of every output, and for averages a division of each; in blocks, all that
        they take.
        """
        in_blocks = self._in_blocks(context)
        if in_blocks is not None:
            return in_blocks * context.hardware.vector.lanes
        return self.outputs * self._per_output(context)


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
    int16: int = int16_field("input and output are")
    int16_low: int = int16_bound("smallest")
    int16_high: int = int16_bound("largest")

    @property
    def tile(self) -> tuple[int, ...]:
        """The sums, and the elements that are summed separately."""
        return self.outer, self.inner

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        sums = self.outer * self.inner << self.int16
        source = dense(Space.SCRATCHPAD, self.input, sums * self.count)
        return (source,), (dense(Space.SCRATCHPAD, self.output, sums),)

    def misfits(self, context: Context) -> list[str]:
        """Passes for int16."""
        return int16_misfits(self.int16, context)

    def faults(self) -> list[str]:
        """Sizes are at least 1, the sum stays below 2^31, the clamp is not empty."""
        found = [
            f"{n} is 0; it may be 1 or more" for n in ("outer", "count", "inner") if not getattr(self, n)
        ]
        most = LARGEST_SUM >> 6 if self.int16 else LARGEST_SUM
        if self.count >= most:
            found.append(f"count {self.count} may overflow the accumulator; it may be less than {most}")
        return found + range_faults(self)

    def execute(self, memory: Memory) -> list[Write]:
        """Sum and rescale."""
        low, high, dtype = range_of(self)
        elements = self.outer * self.count * self.inner
        raw = memory.bytes_at(Space.SCRATCHPAD, self.input, elements << self.int16)
        sums = raw.view(dtype).reshape(self.outer, self.count, self.inner).sum(1, dtype=np.int32)
        values = requantise(
            sums - np.int32(self.count * self.input_zero),
            self.multiplier, self.shift, self.output_zero, low, high, dtype, "double",
        )  # fmt: skip
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.outer * self.inner << self.int16)
        return [(target.view(dtype).reshape(self.outer, self.inner), values)]

    def cost(self, context: Context) -> Cost:
        """Start-up, one add per element, one rescale per sum."""
        v = context.hardware.vector
        elements, sums = self.outer * self.count * self.inner, self.outer * self.inner
        per_lane = self.outer * passes(self.inner, v)
        actions = {
            "vector_add_i32": elements,
            "requantise": sums,
            "scratchpad_read_byte": elements << self.int16,
            "scratchpad_write_byte": sums << self.int16,
        }
        return Cost(v.startup_cycles + per_lane * self._cycles(context), actions)

    def _cycles(self, context: Context) -> int:
        v = context.hardware.vector
        return (self.count * v.reduce_cycles + v.requantise_cycles) * turns(self.int16, context)

    def demand(self, context: Context) -> int:
        """An add of every element, a rescale of every sum."""
        return self.outer * self.inner * self._cycles(context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered(Instruction):
    """What reductions of [outer, parts, middle, count, inner] to [outer, middle, inner] share."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    outer: int = bits(24, "independent results, outermost")
    parts: int = bits(24, "groups of the elements of one result")
    middle: int = bits(24, "independent results between groups")
    count: int = bits(24, "elements of a group")
    inner: int = bits(24, "contiguous elements of different results")

    @property
    def tile(self) -> tuple[int, ...]:
        """The results."""
        return self.outer * self.middle, self.inner

    @property
    def results(self) -> int:
        """How many there are."""
        return self.outer * self.middle * self.inner

    @property
    def terms(self) -> int:
        """Elements of a result."""
        return self.parts * self.count

    def faults(self) -> list[str]:
        """Sizes are at least 1."""
        names = ("outer", "parts", "middle", "count", "inner")
        return [f"{name} is 0; it may be 1 or more" for name in names if not getattr(self, name)]

    def elements(self, memory: Memory, dtype: type[np.generic]) -> Codes:
        """The elements of each result brought together: [terms, results]."""
        raw = memory.bytes_at(Space.SCRATCHPAD, self.input, self.results * self.terms)
        shape = (self.outer, self.parts, self.middle, self.count, self.inner)
        return raw.view(dtype).reshape(shape).transpose(1, 3, 0, 2, 4).reshape(self.terms, self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Gathered):
    """The extreme of elements, its position, or their sum, rescaled: [outer, parts, middle, count, inner] loses parts
    and count.

    Results are [outer, middle, inner]. An extreme is clamped as it is; its position is that of the first of equals, in
    the order of parts and count, as a whole number of 4 or 8 bytes.
    """

    mnemonic: ClassVar[str] = "vec.reduce"
    opcode: ClassVar[int] = 0x38
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(3, "what is computed", choices=REDUCTIONS, place=FIRST)
    wide: int = bits(1, "bytes of a position", choices=("4", "8"))
    input_zero: int = bits(9, "zero point of the input (sum)", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    multiplier: int = bits(31, "rescale of a sum")
    shift: int = bits(7, "shift of the rescale", signed=True)
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of input codes, and of output codes", choices=SIGNS)

    @property
    def _positions(self) -> bool:
        return REDUCTIONS[self.function].startswith("arg_")

    @property
    def _adds(self) -> bool:
        return REDUCTIONS[self.function] == "sum"

    @property
    def _result_bytes(self) -> int:
        return (4, 8)[self.wide] if self._positions else 1

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        source = dense(Space.SCRATCHPAD, self.input, self.results * self.terms)
        target = dense(Space.SCRATCHPAD, self.output, self.results * self._result_bytes)
        return (source,), (target,)

    def faults(self) -> list[str]:
        """Sizes are at least 1, sums and positions stay below 2^31, the clamp is not empty."""
        found = Gathered.faults(self)
        if self._adds and self.terms >= LARGEST_SUM:
            found.append(f"{self.terms} terms may overflow the accumulator; may be less than {LARGEST_SUM}")
        if self._positions and self.terms >= 1 << 31:
            found.append(f"{self.terms} elements have positions beyond 31 bits")
        return found + clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Bring the elements of a result together, then reduce."""
        values = self._reduced(self.elements(memory, code_type(self.signed)))
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self.results * self._result_bytes)
        return [(target, values.view(np.uint8))]

    def _reduced(self, elements: Codes) -> Codes:
        """[terms, results] -> [results], of the type that is written."""
        if self._positions:
            find = np.argmax if REDUCTIONS[self.function] == "arg_max" else np.argmin
            positions: Codes = find(elements, axis=0).astype(("<i4", "<i8")[self.wide])
            return positions
        if self._adds:
            return requantise(
                elements.sum(0, dtype=np.int32) - np.int32(self.terms * self.input_zero),
                self.multiplier, self.shift, self.output_zero, self.low, self.high, elements.dtype, "double",
            )  # fmt: skip
        extremes: Codes = elements.max(0) if REDUCTIONS[self.function] == "max" else elements.min(0)
        return np.clip(extremes, self.low, self.high)

    def _cycles_of_result(self, context: Context) -> int:
        """Every element has its turn; a sum is rescaled at the end."""
        v = context.hardware.vector
        if self._adds:
            return self.terms * v.reduce_cycles + v.requantise_cycles
        return self.terms * v.max_cycles

    def cost(self, context: Context) -> Cost:
        """Start-up; `lanes` results at a time, the elements of each one after the other.

        A position leaves byte by byte, the first in the last cycle of its last element.
        """
        v = context.hardware.vector
        elements, results = self.results * self.terms, self.results
        cycles_of_result = self._cycles_of_result(context) + self._result_bytes - 1
        cycles = v.startup_cycles + passes(results, v) * cycles_of_result
        actions = {
            "vector_add_i32" if self._adds else "vector_max": elements,
            "scratchpad_read_byte": elements,
            "scratchpad_write_byte": results * self._result_bytes,
        }
        if self._adds:
            actions["requantise"] = results
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The turns of all elements, the rescales of all sums."""
        return self.results * self._cycles_of_result(context)
