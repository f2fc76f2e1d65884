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
from npusim.isa.instructions.mac import ADDRESS_BITS, SIGNS, map_region
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.vector import VECTOR_CAUSES, Codes, clamp_fault, code_type, passes
from npusim.isa.instructions.windows import window_faults, window_taps
from npusim.isa.instructions.word import FieldSpec, bits

LARGEST_SUM = 1 << 22
"""Terms of a sum of codes less their zero point, 9 bits, that surely stays inside 32 bits."""


REDUCTIONS = ("max", "min", "arg_max", "arg_min", "sum")
"""The functions of `Reduce`, in the order of its field."""


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
        found = window_faults(self)
        window = self.kernel_height * self.kernel_width
        if window >= LARGEST_SUM:
            found.append(
                f"a window of {window} may overflow the accumulator; it may be less than {LARGEST_SUM}"
            )
        return found + clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Reduce each window."""
        dtype = code_type(self.signed)
        shape = (self.ifm_height, self.ifm_width, self.depth)
        ifm = memory.view(Space.SCRATCHPAD, self.ifm, shape, (self.ifm_row_stride, self.depth, 1), dtype)
        values = self._maximum(ifm) if self.maximum else self._average(ifm)
        shape = (self.ofm_height, self.ofm_width, self.depth)
        ofm = memory.view(Space.SCRATCHPAD, self.ofm, shape, (self.ofm_row_stride, self.depth, 1), dtype)
        return [(ofm, np.clip(values, self.low, self.high))]

    def _maximum(self, ifm: Codes) -> Codes:
        lowest = -128 if self.signed else 0
        result = np.full((self.ofm_height, self.ofm_width, self.depth), lowest, ifm.dtype)
        for outputs, elements in window_taps(self):
            np.maximum(result[outputs], ifm[elements], out=result[outputs])
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
        v = context.hardware.vector
        outputs = self.ofm_height * self.ofm_width * self.depth
        taps = self.kernel_height * self.kernel_width
        per_group = taps * v.pool_cycles + (0 if self.maximum else v.divide_cycles)
        groups = self.ofm_height * self.ofm_width * passes(self.depth, v)
        actions = {
            "vector_pool_step": outputs * taps,
            "scratchpad_read_byte": outputs * taps,
            "scratchpad_write_byte": outputs,
        }
        if not self.maximum:
            actions["vector_divide"] = outputs
        in_blocks = self._in_blocks(context)
        return Cost(v.startup_cycles + groups * per_group if in_blocks is None else in_blocks, actions)

    def _in_blocks(self, context: Context) -> int | None:
        """Cycles where the MAC array's blocks are used."""
        array = context.hardware.mac_array
        problem = Problem(
            self.ofm_height, self.ofm_width, self.depth, self.depth, self.kernel_height, self.kernel_width,
            self.stride_width, 1, True, self.stride_height,
        )  # fmt: skip
        return engine_of(array).pool(array, problem)

    def demand(self, context: Context) -> int:
        """A step for every window element of every output, and for averages a division of each."""
        v = context.hardware.vector
        in_blocks = self._in_blocks(context)
        if in_blocks is not None:
            return in_blocks * v.lanes
        taps = self.kernel_height * self.kernel_width
        outputs = self.ofm_height * self.ofm_width * self.depth
        return outputs * (taps * v.pool_cycles + (0 if self.maximum else v.divide_cycles))


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
        return found + clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Sum and rescale."""
        dtype = code_type(self.signed)
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
        per_lane = self.outer * passes(self.inner, v)
        cycles = v.startup_cycles + per_lane * (self.count * v.reduce_cycles + v.requantise_cycles)
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
class Reduce(Instruction):
    """The extreme of elements, its position, or their sum, rescaled: [outer, parts, middle, count, inner] loses parts
    and count.

    Results are [outer, middle, inner]. An extreme is clamped as it is; its position is that of the first of equals, in
    the order of parts and count, as a whole number of 4 or 8 bytes.
    """

    mnemonic: ClassVar[str] = "vec.reduce"
    opcode: ClassVar[int] = 0x38
    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(3, "what is computed", choices=REDUCTIONS)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    outer: int = bits(24, "independent results, outermost")
    parts: int = bits(24, "groups of the elements of one result")
    middle: int = bits(24, "independent results between groups")
    count: int = bits(24, "elements of a group")
    inner: int = bits(24, "contiguous elements of different results")
    wide: int = bits(1, "bytes of a position", choices=("4", "8"))
    input_zero: int = bits(9, "zero point of the input (sum)", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    multiplier: int = bits(31, "rescale of a sum")
    shift: int = bits(7, "shift of the rescale", signed=True)
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    signed: int = bits(1, "type of input codes, and of output codes", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """The results."""
        return self.outer * self.middle, self.inner

    @property
    def _positions(self) -> bool:
        return REDUCTIONS[self.function].startswith("arg_")

    @property
    def _adds(self) -> bool:
        return REDUCTIONS[self.function] == "sum"

    @property
    def _result_bytes(self) -> int:
        return (4, 8)[self.wide] if self._positions else 1

    @property
    def _results(self) -> int:
        return self.outer * self.middle * self.inner

    @property
    def _terms(self) -> int:
        return self.parts * self.count

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        source = dense(Space.SCRATCHPAD, self.input, self._results * self._terms)
        target = dense(Space.SCRATCHPAD, self.output, self._results * self._result_bytes)
        return (source,), (target,)

    def faults(self) -> list[str]:
        """Sizes are at least 1, sums and positions stay below 2^31, the clamp is not empty."""
        names = ("outer", "parts", "middle", "count", "inner")
        found = [f"{name} is 0; it may be 1 or more" for name in names if not getattr(self, name)]
        if self._adds and self._terms >= LARGEST_SUM:
            found.append(f"{self._terms} terms may overflow the accumulator; may be less than {LARGEST_SUM}")
        if self._positions and self._terms >= 1 << 31:
            found.append(f"{self._terms} elements have positions beyond 31 bits")
        return found + clamp_fault(self.signed, self.low, self.high)

    def execute(self, memory: Memory) -> list[Write]:
        """Bring the elements of a result together, then reduce."""
        raw = memory.bytes_at(Space.SCRATCHPAD, self.input, self._results * self._terms)
        shape = (self.outer, self.parts, self.middle, self.count, self.inner)
        elements = raw.view(code_type(self.signed)).reshape(shape).transpose(1, 3, 0, 2, 4)
        values = self._reduced(elements.reshape(self._terms, self._results))
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self._results * self._result_bytes)
        return [(target, values.view(np.uint8))]

    def _reduced(self, elements: Codes) -> Codes:
        """[terms, results] -> [results], of the type that is written."""
        if self._positions:
            find = np.argmax if REDUCTIONS[self.function] == "arg_max" else np.argmin
            positions: Codes = find(elements, axis=0).astype(("<i4", "<i8")[self.wide])
            return positions
        if self._adds:
            return requantise(
                elements.sum(0, dtype=np.int32) - np.int32(self._terms * self.input_zero),
                self.multiplier, self.shift, self.output_zero, self.low, self.high, elements.dtype, "double",
            )  # fmt: skip
        extremes: Codes = elements.max(0) if REDUCTIONS[self.function] == "max" else elements.min(0)
        return np.clip(extremes, self.low, self.high)

    def _cycles_of_result(self, context: Context) -> int:
        """Every element has its turn; a sum is rescaled at the end."""
        v = context.hardware.vector
        if self._adds:
            return self._terms * v.reduce_cycles + v.requantise_cycles
        return self._terms * v.max_cycles

    def cost(self, context: Context) -> Cost:
        """Start-up; `lanes` results at a time, the elements of each one after the other.

        A position leaves byte by byte, the first in the last cycle of its last element.
        """
        v = context.hardware.vector
        elements, results = self._results * self._terms, self._results
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
        return self._results * self._cycles_of_result(context)
