"""vec.pool computes average, maximum or L2 pooling over a feature map, in every number format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.float_codes import clamped, dequantise, quantise
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Float32Array
from npusim.isa.engines.engine import Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.instructions.instruction import Context, Cost, Instruction, zero_faults
from npusim.isa.instructions.lanes import (
    Format,
    Formatted,
    Values,
    Way,
    Work,
    bound,
    float32_of,
    stored,
)
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, map_region
from npusim.isa.instructions.word import ADDRESS_BITS, FIRST, SIGNS, bits

SIZES = (
    "ifm_height", "ifm_width", "depth", "ofm_height", "ofm_width",
    "kernel_height", "kernel_width", "stride_height", "stride_width",
)  # fmt: skip


class _Axis(NamedTuple):
    """The windows along one axis: kernel size, padding in front, stride, number of windows, and size of the input."""

    kernel: int
    pad: int
    stride: int
    outputs: int
    inputs: int


def _axis(windows: Instruction, name: str) -> _Axis:
    pad = getattr(windows, "pad_top" if name == "height" else "pad_left")
    kernel, stride, outputs, inputs = (
        getattr(windows, f"{field}_{name}") for field in ("kernel", "stride", "ofm", "ifm")
    )
    return _Axis(kernel, pad, stride, outputs, inputs)


def window_faults(windows: Instruction) -> list[str]:
    """Return messages if a size or stride is 0, or a window has no element inside the feature map."""
    messages = zero_faults(windows, SIZES)
    for name in ("height", "width"):
        axis = _axis(windows, name)
        if axis.pad >= axis.kernel or (axis.outputs - 1) * axis.stride - axis.pad >= axis.inputs:
            messages.append(f"a window is outside the feature map in {name}")
    return messages


Tap = tuple[tuple[slice, slice], tuple[slice, slice]]
"""For one kernel position: the (rows, columns) of outputs that use it inside the feature map, and of their inputs."""


def window_taps(windows: Instruction) -> Iterator[Tap]:
    """Yield a `Tap` for each kernel position, row by row; positions that are always in the padding are skipped."""
    across = axis_taps(windows, "width")
    for rows in axis_taps(windows, "height"):
        for columns in across:
            yield (rows[0], columns[0]), (rows[1], columns[1])


def axis_taps(windows: Instruction, name: str) -> list[tuple[slice, slice]]:
    """Return, for each kernel row ("height") or column ("width"), the outputs that use it and the inputs they read."""
    axis = _axis(windows, name)
    inside = [_inside(element, axis) for element in _reaching(axis)]
    return [taps for taps in inside if taps is not None]


def _reaching(axis: _Axis) -> range:
    """Return the kernel positions that are inside the feature map for at least one output."""
    return range(
        max(0, axis.pad - (axis.outputs - 1) * axis.stride), min(axis.kernel, axis.inputs + axis.pad)
    )


def _inside(element: int, axis: _Axis) -> tuple[slice, slice] | None:
    """Return the outputs whose kernel position `element` is inside the feature map, and their inputs; None if none."""
    offset, stride = element - axis.pad, axis.stride
    first = max(0, -(offset // stride)) if offset < 0 else 0
    last = min(axis.outputs, (axis.inputs - 1 - offset) // stride + 1)
    if last <= first:
        return None
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)


def most_terms(of: Format) -> int:
    """Return the number of terms from which on a fixed-point sum may exceed 32 bits.

    The magnitude of a value less its zero point is below 2^9 in 8-bit formats, and at most 2^15 in int16.
    """
    return 1 << (16 if of.name == "int16" else 22)


FUNCTIONS = ("average", "maximum", "l2")
"""Functions of `vec.pool`, in the order of its field; "l2" is the root mean square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Formatted):
    """Compute the average, maximum or root mean square over windows. Only elements inside the feature map count.

    Integer averages are rounded half away from zero. In as_float32, elements are added in float32 either row by row, or
    column by column with the column sums added from the left. There, "fused" adds the zero point in float32 before it
    rounds. Floats are summed in float64 and followed by an activation. Scale fields hold the bits of a float32.
    """

    mnemonic: ClassVar[str] = "vec.pool"
    opcode: ClassVar[int] = 0x31
    names: ClassVar[tuple[str, ...]] = FUNCTIONS

    function: int = bits(2, "what is computed", choices=FUNCTIONS, place=FIRST)
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
    pad_left: int = bits(16, "padding columns left of the first feature-map column")
    activation: int = bits(2, "floats: activation after the function", choices=real.ACTIVATIONS)
    by_columns: int = bits(1, "as_float32: order of the sum", choices=("rows", "columns"))
    fused: int = bits(
        1, "as_float32: the zero point is added after or before rounding", choices=("literal", "fused")
    )
    input_zero: int = bits(9, "as_float32: zero point of the feature map", signed=True)
    output_zero: int = bits(9, "as_float32: zero point of the output", signed=True)
    input_scale: int = bits(32, "as_float32: scale of the feature map")
    output_scale: int = bits(32, "as_float32: scale of the output")
    low: int = bound("smallest")
    high: int = bound("largest")
    input_signed: int = bits(1, "as_float32: type of the feature map", choices=SIGNS)
    signed: int = bits(1, "type of the output, and of the feature map of 8_bit", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows, columns and channels of the output."""
        return self.ofm_height, self.ofm_width, self.depth

    @property
    def _taps(self) -> int:
        """Number of elements of a window."""
        return self.kernel_height * self.kernel_width

    @property
    def _outputs(self) -> int:
        """Number of elements of the output."""
        return self.ofm_height * self.ofm_width * self.depth

    def regions(self, context: Context) -> Regions:
        """Return the regions of the feature map and of the output. Pixels are contiguous in both."""
        pixel = self.depth * self.number_format.size_bytes
        ifm = map_region(self.ifm, (self.ifm_height, self.ifm_width, pixel), (self.ifm_row_stride, pixel))
        ofm_sizes = (self.ofm_height, self.ofm_width, pixel)
        return (ifm,), (map_region(self.ofm, ofm_sizes, (self.ofm_row_stride, pixel)),)

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1, every window has an element inside the feature map and cannot overflow the
        accumulator, the clamp is not empty, and the format has the function.
        """
        messages = window_faults(self)
        of = self.number_format
        if of.arithmetic == "fixed_point" and self._taps >= most_terms(of):
            messages.append(
                f"a window of {self._taps} may overflow the accumulator; it may be less than {most_terms(of)}"
            )
        return messages + self.range_faults(self.low, self.high) + self.function_faults()

    @np.errstate(all="ignore")
    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function to each window."""
        size = self.number_format.size_bytes
        inside = self.depth * size, size
        shape = (self.ifm_height, self.ifm_width, self.depth)
        ifm = self.elements_at(memory, self.ifm, shape, (self.ifm_row_stride, *inside), self.input_dtype)
        ofm = self.elements_at(memory, self.ofm, self.tile, (self.ofm_row_stride, *inside))
        return [(ofm, self.way.compute(self, ifm))]

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Every window is read in full, even where windows overlap."""
        written = self._outputs * self.number_format.size_bytes
        return written * self._taps, written

    def work(self, context: Context) -> tuple[Work, ...]:
        """For each output pixel and group of `lanes` channels, one step per window element, then the actions that end a
        result. Elements in the padding take a step, too.
        """
        groups = self.ofm_height * self.ofm_width * self.groups(context, self.depth)
        return (self.part(context, self.way.steps(self._taps), self._outputs, groups),)

    def cost(self, context: Context) -> Cost:
        """The time of the work. If the MAC engine type pools by itself (block engine), the engine's time instead."""
        cost, in_blocks = Formatted.cost(self, context), self._in_blocks(context)
        return cost if in_blocks is None else cost._replace(cycles=in_blocks)

    def demand(self, context: Context) -> int:
        """Return the lane cycles of the work, or all cycles of the MAC engine if that does the pooling."""
        in_blocks = self._in_blocks(context)
        if in_blocks is None:
            return Formatted.demand(self, context)
        return in_blocks * context.hardware.vector.lanes

    def _in_blocks(self, context: Context) -> int | None:
        """Return the cycles of the MAC engine if its type pools by itself; else None."""
        if self.number_format.arithmetic != "fixed_point":
            return None
        array = context.hardware.mac_array
        problem = Problem(
            self.ofm_height, self.ofm_width, self.depth, self.depth, self.kernel_height, self.kernel_width,
            self.stride_width, 1, True, self.stride_height, value_bytes=self.number_format.size_bytes,
        )  # fmt: skip
        cycles = engine_of(array).pool(array, problem)
        wide = self.number_format.name == "int16"
        return cycles * context.hardware.vector.int16_passes if cycles is not None and wide else cycles


def _maximum(pool: Pool, ifm: Values) -> Values:
    result = np.full(pool.tile, np.iinfo(ifm.dtype).min, ifm.dtype)
    for outputs, elements in window_taps(pool):
        np.maximum(result[outputs], ifm[elements], out=result[outputs])
    return np.clip(result, pool.low, pool.high)


def _average(pool: Pool, ifm: Values) -> Values:
    sums = np.zeros(pool.tile, np.int32)
    counts = np.zeros((pool.ofm_height, pool.ofm_width, 1), np.int32)
    whole = pool.ofm_height == pool.ofm_width == 1 and (pool.pad_top, pool.pad_left) == (0, 0)
    if whole:
        window = ifm[: pool.kernel_height, : pool.kernel_width]
        sums[0, 0] = window.sum((0, 1), dtype=np.int32)
        counts[...] = window.shape[0] * window.shape[1]
    else:
        for outputs, elements in window_taps(pool):
            sums[outputs] += ifm[elements]
            counts[outputs] += 1
    half = counts // 2
    quotient = (np.abs(sums) + half) // counts
    return np.clip(np.where(sums > 0, quotient, -quotient), pool.low, pool.high)


def _average_in_float32(pool: Pool, ifm: Values) -> Values:
    sums, counts = _sums_in_order(pool, dequantise(ifm, float32_of(pool.input_scale), pool.input_zero))
    averages, scale = sums / counts, float32_of(pool.output_scale)
    if not pool.fused:
        return quantise(averages, scale, pool.output_zero, pool.low, pool.high, pool.dtype)
    steps = np.rint(averages / scale + np.float32(pool.output_zero))
    return clamped(steps, pool.low, pool.high, pool.dtype)


def _sums_in_order(pool: Pool, values: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return the float32 sums of all windows and the number of elements in each.

    The order of additions is that of the field `by_columns`, because float32 sums depend on it.
    """
    sums = np.zeros(pool.tile, np.float32)
    counts = np.zeros((*pool.tile[:2], 1), np.float32)
    if not pool.by_columns:
        for outputs, elements in window_taps(pool):
            sums[outputs] += values[elements]
            counts[outputs] += 1
        return sums, counts
    for across, along in axis_taps(pool, "width"):
        column = np.zeros_like(sums[:, across])
        for down, below in axis_taps(pool, "height"):
            column[down] += values[below, along]
            counts[down, across] += 1
        sums[:, across] += column
    return sums, counts


def _in_floats(pool: Pool, ifm: Values) -> Values:
    """Apply a function to floats: accumulate in float64, round to float32, then apply the activation."""
    name, wide = FUNCTIONS[pool.function], ifm.astype(np.float32).astype(np.float64)
    values: NDArray[np.float64] = np.full(pool.tile, -np.inf if name == "maximum" else 0.0)
    counts = np.zeros((*pool.tile[:2], 1))
    for outputs, elements in window_taps(pool):
        seen, part = wide[elements], values[outputs]
        counts[outputs] += 1
        if name == "maximum":
            np.maximum(part, seen, out=part)
        else:
            part += seen * seen if name == "l2" else seen
    if name != "maximum":
        values /= counts
    if name == "l2":
        values = np.sqrt(values)
    return stored(real.activated(values.astype(np.float32), pool.activation), pool.dtype)


Pool.ways = {
    ("average", "fixed_point"): Way(_average, "vector_pool_step", ("vector_divide",)),
    ("maximum", "fixed_point"): Way(_maximum, "vector_pool_step"),
    ("average", "as_float32"): Way(_average_in_float32, "vector_dequantise", ("vector_quantise",)),
    ("average", "float"): Way(_in_floats, "float_add", ("float_divide",)),
    ("maximum", "float"): Way(_in_floats, "float_add"),
    ("l2", "float"): Way(_in_floats, "float_multiply", ("float_divide", "float_divide")),
}
