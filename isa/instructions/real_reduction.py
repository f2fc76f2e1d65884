"""The vector-unit instructions that reduce real numbers, normalise them, and take them to other types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from npusim.isa.arithmetic import real
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost
from npusim.isa.instructions.mac import ADDRESS_BITS, map_region
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.real import STORED_TYPES, RealInstruction, effort_cycles, float32_of, stored
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.windows import window_faults, window_taps
from npusim.isa.instructions.word import FieldSpec, bits

REDUCTIONS = ("sum", "mean", "max", "min", "prod")
POOLS = ("average", "maximum", "l2")


@dataclass(frozen=True, slots=True, kw_only=True)
class RealReduce(RealInstruction):
    """Reduce [outer, count, inner] over the middle dimension; a lane sums in more bits than it writes."""

    mnemonic: ClassVar[str] = "vec.real_reduce"
    opcode: ClassVar[int] = 0x52
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(3, "what is computed", choices=REDUCTIONS)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    outer: int = bits(24, "independent blocks")
    count: int = bits(24, "elements that become one")
    inner: int = bits(24, "elements side by side")

    @property
    def tile(self) -> tuple[int, ...]:
        """Blocks, and the elements side by side."""
        return self.outer, self.inner

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        size = self.outer * self.inner * self.element_bytes
        source = dense(Space.SCRATCHPAD, self.input, size * self.count)
        return (source,), (dense(Space.SCRATCHPAD, self.output, size),)

    def faults(self) -> list[str]:
        """At least one element."""
        return [f"{n} is 0; it may be 1 or more" for n in ("outer", "count", "inner") if not getattr(self, n)]

    def execute(self, memory: Memory) -> list[Write]:
        """Reduce, then round once."""
        blocks = self._reals(memory, self.input, (self.outer, self.count, self.inner))
        with np.errstate(all="ignore"):
            values = real.reduced(REDUCTIONS[self.function], blocks)
        target = self._view(memory, self.output, (self.outer, self.inner))
        return [(target, stored(values, self._dtype))]

    @property
    def _effort(self) -> real.Effort:
        return "multiply" if REDUCTIONS[self.function] == "prod" else "simple"

    @property
    def _divides(self) -> bool:
        return REDUCTIONS[self.function] == "mean"

    def cost(self, context: Context) -> Cost:
        """Start-up; per block and `lanes` elements side by side a step for each of `count`, a division for means."""
        hardware = context.hardware
        groups = self.outer * -(-self.inner // self._lanes(context))
        per_group = self.count * effort_cycles(hardware, self._effort)
        per_group += self._divides * effort_cycles(hardware, "divide")
        outputs = self.outer * self.inner
        actions = {
            self._action(self._effort): outputs * self.count,
            "scratchpad_read_byte": outputs * self.count * self.element_bytes,
            "scratchpad_write_byte": outputs * self.element_bytes,
        }
        if self._divides:
            actions[self._action("divide")] = outputs
        return Cost(hardware.vector.startup_cycles + groups * per_group, actions)

    def demand(self, context: Context) -> int:
        """A step for every element, and a division for every mean."""
        hardware = context.hardware
        per_output = self.count * effort_cycles(hardware, self._effort)
        per_output += self._divides * effort_cycles(hardware, "divide")
        return self._needed(context, self.outer * self.inner * per_output)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealPool(RealInstruction):
    """Average, maximum or root of the mean square over windows; only elements inside the feature map count."""

    mnemonic: ClassVar[str] = "vec.real_pool"
    opcode: ClassVar[int] = 0x53
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(2, "what is computed", choices=POOLS)
    activation: int = bits(2, "what follows", choices=real.ACTIVATIONS)
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

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, columns and channels of the output."""
        return self.ofm_height, self.ofm_width, self.depth

    def regions(self, context: Context) -> Regions:
        """The feature map is read, the output is written; pixels are dense."""
        pixel = self.depth * self.element_bytes
        ifm = map_region(self.ifm, (self.ifm_height, self.ifm_width, pixel), (self.ifm_row_stride, pixel))
        ofm = map_region(self.ofm, (self.ofm_height, self.ofm_width, pixel), (self.ofm_row_stride, pixel))
        return (ifm,), (ofm,)

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1, and every window touches the feature map."""
        return window_faults(self)

    @np.errstate(all="ignore")
    def execute(self, memory: Memory) -> list[Write]:
        """Combine the elements of each window, then the activation."""
        size = self.element_bytes
        pixel = self.depth * size
        shape = (self.ifm_height, self.ifm_width, self.depth)
        ifm = self._reals(memory, self.ifm, shape, (self.ifm_row_stride, pixel, size)).astype(np.float64)
        name = POOLS[self.function]
        values = np.full((self.ofm_height, self.ofm_width, self.depth), -np.inf if name == "maximum" else 0.0)
        counts = np.zeros((self.ofm_height, self.ofm_width, 1))
        for outputs, elements in window_taps(self):
            seen, part = ifm[elements], values[outputs]
            counts[outputs] += 1
            if name == "maximum":
                np.maximum(part, seen, out=part)
            else:
                part += seen * seen if name == "l2" else seen
        if name != "maximum":
            values /= counts
        if name == "l2":
            values = np.sqrt(values)
        results = real.activated(values.astype(np.float32), self.activation)
        target = self._view(memory, self.ofm, values.shape, (self.ofm_row_stride, pixel, size))
        return [(target, stored(results, self._dtype))]

    @property
    def _last(self) -> tuple[real.Effort, ...]:
        """What follows the last element of a window."""
        return {"average": ("divide",), "maximum": (), "l2": ("divide", "divide")}[POOLS[self.function]]  # type: ignore[return-value]

    def _per_output(self, context: Context) -> int:
        step: real.Effort = "multiply" if POOLS[self.function] == "l2" else "simple"
        taps = self.kernel_height * self.kernel_width
        hardware = context.hardware
        return taps * effort_cycles(hardware, step) + sum(
            effort_cycles(hardware, last) for last in self._last
        )

    def cost(self, context: Context) -> Cost:
        """Start-up; per output pixel and `lanes` channels a step per window element, a division, a root.

        Windows are counted whole: the unit skips no element that lies in the padding.
        """
        groups = self.ofm_height * self.ofm_width * -(-self.depth // self._lanes(context))
        outputs = self.ofm_height * self.ofm_width * self.depth
        taps = self.kernel_height * self.kernel_width
        step: real.Effort = "multiply" if POOLS[self.function] == "l2" else "simple"
        actions = {
            self._action(step): outputs * taps,
            "scratchpad_read_byte": outputs * taps * self.element_bytes,
            "scratchpad_write_byte": outputs * self.element_bytes,
        }
        if self._last:
            actions[self._action("divide")] = outputs * len(self._last)
        return Cost(context.hardware.vector.startup_cycles + groups * self._per_output(context), actions)

    def demand(self, context: Context) -> int:
        """A step for every window element of every output, and what follows the last."""
        outputs = self.ofm_height * self.ofm_width * self.depth
        return self._needed(context, outputs * self._per_output(context))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSoftmax(RealInstruction):
    """Softmax of beta * x over rows of `depth` elements, or its logarithm. `beta` as the bits of a float32."""

    mnemonic: ClassVar[str] = "vec.real_softmax"
    opcode: ClassVar[int] = 0x54
    specs: ClassVar[tuple[FieldSpec, ...]]

    logarithm: int = bits(1, "what is computed", choices=("softmax", "log_softmax"))
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "independent rows")
    depth: int = bits(24, "elements of a row")
    beta: int = bits(32, "factor of the elements, the bits of a float32")

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, and the elements of each."""
        return self.rows, self.depth

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        size = self.rows * self.depth * self.element_bytes
        return (dense(Space.SCRATCHPAD, self.input, size),), (dense(Space.SCRATCHPAD, self.output, size),)

    def faults(self) -> list[str]:
        """At least one element."""
        return [f"{n} is 0; it may be 1 or more" for n in ("rows", "depth") if not getattr(self, n)]

    def execute(self, memory: Memory) -> list[Write]:
        """Maximum, exponentials and sum, then the quotients or their logarithms, row by row."""
        shape = (self.rows, self.depth)
        beta = float32_of(self.beta)
        with np.errstate(all="ignore"):
            values = real.softmax(
                self._reals(memory, self.input, shape), beta, logarithm=bool(self.logarithm)
            )
        return [(self._view(memory, self.output, shape), stored(values, self._dtype))]

    @property
    def _efforts(self) -> dict[real.Effort, int]:
        """What an element takes in three passes: compare; subtract, multiply by beta, exponential, add; subtract,
        multiply by beta, and either the exponential again and multiply by the reciprocal, or subtract the logarithm.
        """
        if self.logarithm:
            return {"simple": 5, "multiply": 2, "function": 1}
        return {"simple": 4, "multiply": 3, "function": 2}

    @property
    def _last(self) -> real.Effort:
        """What a row takes: a logarithm or a reciprocal."""
        return "function" if self.logarithm else "divide"

    def _per_element(self, context: Context) -> int:
        hardware = context.hardware
        return sum(times * effort_cycles(hardware, effort) for effort, times in self._efforts.items())

    def cost(self, context: Context) -> Cost:
        """Start-up; per row three passes over its elements, and a reciprocal or logarithm."""
        hardware = context.hardware
        groups = -(-self.depth // self._lanes(context))
        per_row = groups * self._per_element(context) + effort_cycles(hardware, self._last)
        size = self.rows * self.depth
        counts = {effort: times * size for effort, times in self._efforts.items()}
        counts[self._last] = counts.get(self._last, 0) + self.rows
        actions = {self._action(effort): count for effort, count in counts.items()}
        actions["scratchpad_read_byte"] = 3 * size * self.element_bytes
        actions["scratchpad_write_byte"] = size * self.element_bytes
        return Cost(hardware.vector.startup_cycles + self.rows * per_row, actions)

    def demand(self, context: Context) -> int:
        """The passes over every element, and what every row ends with."""
        per_row = self.depth * self._per_element(context) + effort_cycles(context.hardware, self._last)
        return self._needed(context, self.rows * per_row)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealConvert(RealInstruction):
    """Codes to reals, scale * (code - zero), reals to codes, x / scale + zero, or reals to reals.

    `element` is the wider of the two types of reals that take part; its lanes do the work. Codes are rounded half away
    from zero and clamped to their type. `scale` as the bits of a float32.
    """

    mnemonic: ClassVar[str] = "vec.real_convert"
    opcode: ClassVar[int] = 0x55
    specs: ClassVar[tuple[FieldSpec, ...]]

    source: int = bits(2, "type of the input", choices=STORED_TYPES)
    target: int = bits(2, "type of the output", choices=STORED_TYPES)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "of the output")
    size: int = bits(ADDRESS_BITS, "elements")
    scale: int = bits(32, "scale of the codes, the bits of a float32")
    zero: int = bits(9, "zero point of the codes", signed=True)

    @property
    def tile(self) -> tuple[int, ...]:
        """The elements."""
        return (self.size,)

    @property
    def _types(self) -> tuple[Any, Any]:
        return np.dtype(STORED_TYPES[self.source]), np.dtype(STORED_TYPES[self.target])

    def regions(self, context: Context) -> Regions:
        """Dense input and output."""
        source, target = (self.size * dtype.itemsize for dtype in self._types)
        return (
            (dense(Space.SCRATCHPAD, self.input, source),),
            (dense(Space.SCRATCHPAD, self.output, target),),
        )

    def faults(self) -> list[str]:
        """At least one element, real numbers on one side, and lanes of the wider type."""
        found = [] if self.size else ["size is 0; it may be 1 or more"]
        reals = [dtype.itemsize for dtype in self._types if dtype.kind == "f"]
        if not reals:
            found.append("codes to codes; vec.rescale does that")
        elif max(reals) != self.element_bytes:
            found.append("element is not the wider type of reals")
        return found

    def execute(self, memory: Memory) -> list[Write]:
        """Convert every element."""
        source, target = self._types
        values = self._view(memory, self.input, (self.size,), dtype=source).astype(np.float32)
        scale = float32_of(self.scale)
        with np.errstate(all="ignore"):
            if source.kind != "f":
                values = scale * (values - np.float32(self.zero))
            if target.kind != "f":
                values = real.codes(values, scale, self.zero, target)
        return [(self._view(memory, self.output, (self.size,), dtype=target), stored(values, target))]

    @property
    def _effort(self) -> real.Effort:
        source, target = self._types
        if target.kind != "f":
            return "divide"
        return "simple" if source.kind == "f" else "multiply"

    def cost(self, context: Context) -> Cost:
        """Start-up, then a product, a quotient or nothing but the move for every `lanes` elements."""
        hardware = context.hardware
        source, target = self._types
        groups = -(-self.size // self._lanes(context))
        cycles = hardware.vector.startup_cycles + groups * effort_cycles(hardware, self._effort)
        actions = {
            self._action(self._effort): self.size,
            "scratchpad_read_byte": self.size * source.itemsize,
            "scratchpad_write_byte": self.size * target.itemsize,
        }
        return Cost(cycles, actions)

    def demand(self, context: Context) -> int:
        """The conversion of every element."""
        return self._needed(context, self.size * effort_cycles(context.hardware, self._effort))
