"""MAC-array instructions on quantized values: convolutions with bias, requantization and clamp.

Padding is never stored: rows and columns outside the feature map read as its zero point. The parameter block of a tile
holds, for n channels, n int32 biases, then the scales: n of them if `per_channel`, else one. A scale is an int32
multiplier and an int8 shift, all multipliers before all shifts. With `rescale` float32, a scale is a float32 number.
The sum is then rounded to float32, multiplied by the scale, rounded to float32, and rounded to the nearest integer,
halves to even.

With `int16` the feature map and the results are int16. The array passes `mac_array.int16_passes` times over the
problem, once for each byte of the feature-map values. A sum is 256 times that of the upper bytes plus that of the
lower bytes. Sums have 48 bits and biases are int64. The parameter block ends with the smallest and the largest result,
two int16 values that replace `low` and `high`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.convolution import (
    convolve,
    convolve_float,
    depthwise_convolve,
    depthwise_convolve_float,
)
from npusim.isa.base.cause import Cause
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.engines.engine import HALVINGS_BITS, Layout, Problem
from npusim.isa.engines.kinds import ENGINES, engine_of
from npusim.isa.engines.mac_array import MOST_BITS
from npusim.isa.engines.systolic.systolic import DATAFLOWS
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context, Cost, Instruction, Kin, zero_faults
from npusim.isa.instructions.lanes import code_type
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.output_stage import RESCALES, Finish, joined_block, parameter_bytes
from npusim.isa.instructions.region import Region, Regions, Space, dense, map_region
from npusim.isa.instructions.word import ADDRESS_BITS, CODES, LAST, SIGNS, bits

ROUNDINGS = ("double", "single")
RESULTS = ("codes", "16_bits", "32_bits")
ADDRESSABLE = 1 << ADDRESS_BITS
MAC_CAUSES = tuple(dict.fromkeys(cause for engine in ENGINES for cause in engine.causes))


def _halvings(resource: str) -> Any:
    """Declare the field that says how many of the array's rows, columns or accumulators an instruction uses."""
    return bits(HALVINGS_BITS, f"n: use 1 / 2^n of the array's {resource}; 0: all of them")


_SIZES = (
    "ifm_height", "ifm_width", "ifm_depth", "ofm_height", "ofm_width", "ofm_depth", "kernel_height",
    "kernel_width", "stride_height", "stride_width", "dilation_height", "dilation_width",
)  # fmt: skip
"""Names of the convolution's sizes, strides and dilations, none of which may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionInstruction(Instruction):
    """The base of all convolutions, on quantized and on floating-point values, with the fields that they share."""

    home: ClassVar[Unit] = Unit.MAC
    causes: ClassVar[tuple[Cause, ...]] = MAC_CAUSES
    _by_channel: ClassVar[bool] = False

    ifm: int = bits(ADDRESS_BITS, "scratchpad address of the first feature-map row")
    ifm_row_stride: int = bits(24, "bytes from one feature-map row to the next")
    ifm_pixel_stride: int = bits(20, "bytes from one feature-map pixel to the next")
    ifm_height: int = bits(16, "feature-map rows present; rows outside are padding")
    ifm_width: int = bits(16, "feature-map columns; columns outside are padding")
    ifm_depth: int = bits(20, "feature-map channels")
    weights: int = bits(ADDRESS_BITS, "scratchpad address of the weights")
    parameters: int = bits(ADDRESS_BITS, "scratchpad address of the parameter block")
    ofm: int = bits(ADDRESS_BITS, "scratchpad address of the first output row")
    ofm_row_stride: int = bits(24, "bytes from one output row to the next")
    ofm_pixel_stride: int = bits(20, "bytes from one output pixel to the next")
    ofm_height: int = bits(16, "output rows")
    ofm_width: int = bits(16, "output columns")
    ofm_depth: int = bits(20, "output channels")
    kernel_height: int = bits(8, "kernel rows")
    kernel_width: int = bits(8, "kernel columns")
    stride_height: int = bits(5, "rows between windows")
    stride_width: int = bits(5, "columns between windows")
    dilation_height: int = bits(6, "rows between kernel taps")
    dilation_width: int = bits(6, "columns between kernel taps")
    pad_top: int = bits(8, "padding rows above the first feature-map row")
    pad_left: int = bits(8, "padding columns left of the first feature-map column")

    if TYPE_CHECKING:  # fields of every subclass but `mac.depthwise`, at their places in its word
        output_stationary: int = 0
        row_halvings: int = 0
        column_halvings: int = 0
        accumulator_halvings: int = 0

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, columns and channels of the output."""
        return self.ofm_height, self.ofm_width, self.ofm_depth

    @property
    def _map_type(self) -> Any:
        """The numpy type of the feature map."""
        raise NotImplementedError

    @property
    def _map_bytes(self) -> int:
        """Bytes of a feature-map value."""
        raise NotImplementedError

    @property
    def _result_bytes(self) -> int:
        """Bytes of an output value."""
        return self._map_bytes

    @property
    def _inner(self) -> int:
        """Number of values of a dot product."""
        taps = self.kernel_height * self.kernel_width
        return taps if self._by_channel else taps * self.ifm_depth

    def _weight_count(self) -> int:
        return self.ofm_depth * self._inner

    @property
    def _weight_shape(self) -> tuple[int, ...]:
        """The shape of the weights, as the reference convolutions take them."""
        kernel = self.kernel_height, self.kernel_width
        return (*kernel, self.ofm_depth) if self._by_channel else (self.ofm_depth, *kernel, self.ifm_depth)

    @property
    def _layout(self) -> Layout:
        """The dataflow and the part of the array that the instruction uses."""
        halvings = self.row_halvings, self.column_halvings, self.accumulator_halvings
        return Layout(self.output_stationary, *halvings)

    @property
    def _sizes(self) -> tuple[int, int, int, int, int, int, int, int, bool, int, int]:
        """The first fields of a `Problem`, from `ofm_height` to `dilation_height`."""
        return (
            self.ofm_height,
            self.ofm_width,
            self.ofm_depth,
            self.ifm_depth,
            self.kernel_height,
            self.kernel_width,
            self.stride_width,
            self.dilation_width,
            self._by_channel,
            self.stride_height,
            self.dilation_height,
        )

    @property
    def _problem(self) -> Problem:
        """The sizes of the convolution, as the engine models take them."""
        return Problem(*self._sizes)

    def _parameter_bytes(self) -> int:
        """Return the bytes of the parameter block: biases and, for quantized values, multipliers and shifts."""
        raise NotImplementedError

    def regions(self, context: Context) -> Regions:
        """Return the regions of feature map, weights and parameters, which are read, and of the output."""
        ofm = map_region(
            self.ofm,
            (self.ofm_height, self.ofm_width, self.ofm_depth * self._result_bytes),
            (self.ofm_row_stride, self.ofm_pixel_stride),
        )
        parameters = dense(Space.SCRATCHPAD, self.parameters, self._parameter_bytes())
        return (self._map_region(), self._weight_region(), parameters), (ofm,)

    def _map_region(self) -> Region:
        return map_region(
            self.ifm,
            (self.ifm_height, self.ifm_width, self.ifm_depth * self._map_bytes),
            (self.ifm_row_stride, self.ifm_pixel_stride),
        )

    def _weight_region(self) -> Region:
        return dense(Space.SCRATCHPAD, self.weights, self._weight_count())

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1."""
        return zero_faults(self, _SIZES)

    def _feature_map(self, memory: Memory) -> NDArray[Any]:
        shape = (self.ifm_height, self.ifm_width, self.ifm_depth)
        strides = (self.ifm_row_stride, self.ifm_pixel_stride, self._map_bytes)
        return memory.view(Space.SCRATCHPAD, self.ifm, shape, strides, self._map_type)

    def _window(self) -> dict[str, tuple[int, int]]:
        """Return the window arguments of the reference convolutions, as (height, width) pairs."""
        return {
            "strides": (self.stride_height, self.stride_width),
            "dilations": (self.dilation_height, self.dilation_width),
            "pads": (self.pad_top, self.pad_left),
            "output_shape": (self.ofm_height, self.ofm_width),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MacInstruction(ConvolutionInstruction):
    """The base of the convolutions on quantized values, with the fields that they share."""

    ifm_zero: int = bits(9, "zero point of the feature map", signed=True)
    weight_zero: int = bits(9, "zero point of the weights", signed=True)
    ofm_zero: int = bits(9, "zero point of the output", signed=True)
    low: int = bits(9, "smallest output value", signed=True)
    high: int = bits(9, "largest output value", signed=True)
    signed: int = bits(1, "type of the feature map and, unless `other_sign`, of the output", choices=SIGNS)
    weights_signed: int = bits(1, "type of the weights", choices=SIGNS)
    rounding: int = bits(1, "rounding of the requantization: twice or once", choices=ROUNDINGS)
    per_channel: int = bits(1, "one multiplier and shift per channel", choices=("no", "yes"))
    rescale: int = bits(
        1,
        "arithmetic of the requantization: multiplier and shift, or a float32 product",
        choices=RESCALES,
        place=LAST,
    )
    other_sign: int = bits(
        1,
        "yes: the output is int8 if the feature map is uint8, and vice versa",
        choices=("no", "yes"),
        place=LAST,
    )
    few_bits: int = bits(
        1,
        "yes: time and energy are those of weights with `mac_array.weight_bits` bits; no: with 8 bits",
        choices=("no", "yes"),
        place=LAST,
    )
    looked_up: int = bits(
        1,
        "yes: the output stage performs the table look-up of the next `vec.lookup`",
        choices=("no", "yes"),
        place=LAST,
    )
    int16: int = bits(
        1,
        "yes: feature map and results are int16, computed in several passes",
        choices=("no", "yes"),
        place=LAST,
    )

    @property
    def _ofm_signed(self) -> int:
        """The type of the output as an index of `SIGNS`."""
        return self.signed ^ self.other_sign

    @property
    def _problem(self) -> Problem:
        """The sizes of the convolution, as the engine models take them."""
        return Problem(*self._sizes, bool(self.few_bits), bool(self.looked_up), self._map_bytes)

    def misfits(self, context: Context) -> list[str]:
        """The array must be large enough for the halvings and, for `mac.convolve`, support the dataflow. Float32
        requantization, fused look-up, and int16 need `float32_rescale`, `vector.fused_lookup`, and
        `mac_array.int16_passes`.
        """
        array = context.hardware.mac_array
        messages = engine_of(array).misfits(array, self._layout, self._by_channel)
        if self.rescale and not context.hardware.float32_rescale:
            messages.append("rescale is float32; the machine has float32_rescale = false")
        if self.looked_up > context.hardware.vector.fused_lookup:
            messages.append("looked_up is yes; the machine has vector.fused_lookup = false")
        if self.int16 and not array.int16_passes:
            messages.append("the feature map is int16; the machine has mac_array.int16_passes = 0")
        return messages

    def _parameter_bytes(self) -> int:
        return parameter_bytes(self.ofm_depth, bool(self.per_channel), bool(self.rescale), bool(self.int16))

    def _passes(self, context: Context) -> int:
        """Return the number of passes of the array over the problem."""
        return context.hardware.mac_array.int16_passes if self.int16 else 1

    @property
    def _map_bytes(self) -> int:
        """Bytes of a feature-map value."""
        return 2 if self.int16 else 1

    @property
    def _map_type(self) -> Any:
        return np.dtype("<i2") if self.int16 else code_type(self.signed)

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1, zero points are values of their types, windows are addressable, and the
        clamp is not empty. Float32 requantization has no choice of rounding. Beside an int16 feature map, its zero
        point, that of the output, `low` and `high` are 0: a byte less a zero point would exceed the multipliers.
        """
        messages = ConvolutionInstruction.faults(self)
        if self.rescale and self.rounding:
            messages.append(
                f"rescale float32 with rounding {ROUNDINGS[self.rounding]}; it may be {ROUNDINGS[0]}"
            )
        code_low, code_high = CODES[self._ofm_signed]
        if self.int16 and any((self.ifm_zero, self.ofm_zero, self.low, self.high)):
            messages.append(
                f"int16 with zero points {self.ifm_zero} and {self.ofm_zero} and clamp {self.low}..{self.high}; "
                f"all may be 0"
            )
        if not code_low <= self.low <= self.high <= code_high:
            messages.append(f"clamp {self.low}..{self.high} is not within {code_low}..{code_high}")
        for name, signed in (("ifm_zero", self.signed), ("weight_zero", self.weights_signed)):
            (code_low, code_high), zero = CODES[signed], getattr(self, name)
            if not code_low <= zero <= code_high:
                messages.append(f"{name} {zero} is not within {code_low}..{code_high}")
        return messages + self._window_faults()

    def _window_faults(self) -> list[str]:
        """Return messages if the padded feature map, or one row of windows, exceeds the address generator's counters.

        The counters have `ADDRESS_BITS` bits.
        """
        rows = (
            (self.ofm_height - 1) * self.stride_height + (self.kernel_height - 1) * self.dilation_height + 1
        )
        columns = (self.ofm_width - 1) * self.stride_width + (self.kernel_width - 1) * self.dilation_width + 1
        depth = max(self.ifm_depth, self.ofm_depth) if self._by_channel else self.ifm_depth
        padded = max(rows, self.ifm_height) * max(columns, self.ifm_width) * depth
        row = self.ofm_width * self.kernel_height * self.kernel_width * depth
        messages = []
        if padded > ADDRESSABLE:
            messages.append(f"the padded feature map has {padded} elements; it may have {ADDRESSABLE}")
        if row > ADDRESSABLE:
            messages.append(f"the windows of an output row have {row} elements; they may have {ADDRESSABLE}")
        return messages

    def _weights(self, memory: Memory) -> NDArray[Any]:
        raw = memory.bytes_at(Space.SCRATCHPAD, self.weights, self._weight_count())
        values: NDArray[Any] = raw.view(code_type(self.weights_signed))
        return values.reshape(self._weight_shape)

    def cost(self, context: Context) -> Cost:
        """The closed form of the hardware's MAC engine type, for the part of the array that the instruction uses."""
        array, problem = context.hardware.mac_array, self._problem
        engine = engine_of(array)
        use = engine.use(array, problem, self._layout)
        passes = self._passes(context)
        if passes > 1:
            use = use.repeated(passes)
        outputs = self.ofm_height * self.ofm_width * self.ofm_depth
        macs = outputs * problem.inner * passes
        full = use.array_cycles * engine.macs_per_cycle(array) * array.weight_bits
        weight_bytes = array.stored_bytes(use.weight_values) if self.few_bits else use.weight_values
        # Requantizing a 48-bit sum takes two 32-bit products, so an int16 output counts twice.
        actions = {
            **_products(macs, use.product_bits),
            "pe_idle": max((full - macs * use.product_bits) // MOST_BITS, 0),
            "accumulator_update": use.updates,
            "requantise_float32" if self.rescale else "requantise": outputs * self._map_bytes,
            "scratchpad_read_byte": use.map_values + weight_bytes + self._parameter_bytes(),
            "scratchpad_write_byte": outputs * self._result_bytes,
        }
        return Cost(use.cycles, actions, array_cycles=use.array_cycles)

    def demand(self, context: Context) -> int:
        """Return the number of multiply-accumulates; for int16 values those of all passes."""
        return self._problem.macs * self._passes(context)

    def split(self, context: Context) -> Mapping[str, int]:
        """Return the stall and inefficiency cycles of the array, by cause."""
        array = context.hardware.mac_array
        engine = engine_of(array)
        lost = list(engine.split(array, self._problem, self._layout))
        if (passes := self._passes(context)) > 1:
            lost = [cycles * passes for cycles in lost]
            macs, per_cycle = self._problem.macs, engine.macs_per_cycle(array)
            # Each pass rounds its cycles up, while `demand` rounds those of all passes together: the first cause
            # gets the difference.
            lost[0] += passes * -(-macs // per_cycle) - -(-macs * passes // per_cycle)
        return {cause.name: cycles for cause, cycles in zip(engine.causes, lost, strict=True)}

    def rereads(self, context: Context) -> bool:
        """Return whether weights are read more than once, because several blocks of pixels each need all of them."""
        array, problem = context.hardware.mac_array, self._problem
        return engine_of(array).use(array, problem, self._layout).weight_values > problem.weights

    def _sums(self, memory: Memory, weights: NDArray[Any]) -> NDArray[Any]:
        """Return the sums of (ifm - zero point) * (weight - zero point) over the windows."""
        feature_map, window = self._feature_map(memory), self._window()
        if not self.int16:
            in_integers = depthwise_convolve if self._by_channel else convolve
            return in_integers(feature_map, weights, self.ifm_zero, self.weight_zero, **window)
        # Sums of products of int16 values have 48 bits, so float64 holds them exactly.
        in_floats = depthwise_convolve_float if self._by_channel else convolve_float
        map_values = feature_map.astype(np.float64) - self.ifm_zero
        weight_values = weights.astype(np.float64) - self.weight_zero
        return in_floats(map_values, weight_values, **window).astype(np.int64)

    def _parameter_block(self, memory: Memory) -> bytes:
        return memory.bytes_at(Space.SCRATCHPAD, self.parameters, self._parameter_bytes()).tobytes()

    @property
    def _stage(self) -> Finish:
        """The output stage: bias, requantization, zero point and clamp."""
        return Finish(bool(self.rescale), bool(self.rounding), self.ofm_zero, *self._results)

    def _finish(self, memory: Memory, accumulators: NDArray[Any]) -> list[Write]:
        """Apply the output stage to the sums and return the write."""
        block = self._parameter_block(memory)
        return self._written(memory, self._stage.of(accumulators, block, bool(self.per_channel)))

    def _written(self, memory: Memory, values: NDArray[Any]) -> list[Write]:
        """Return the write of the results [rows, columns, channels]."""
        shape = (self.ofm_height, self.ofm_width, self.ofm_depth * self._result_bytes)
        strides = (self.ofm_row_stride, self.ofm_pixel_stride, 1)
        # Wider results are written as bytes, because `strides` count bytes and need not be multiples of their size.
        stored = np.uint8 if self._result_bytes > 1 else values.dtype
        return [(memory.view(Space.SCRATCHPAD, self.ofm, shape, strides, stored), values.view(stored))]

    @property
    def _results(self) -> tuple[int, int, Any]:
        """The smallest and the largest output value, and the output's type.

        The fields `low` and `high` apply only to 8-bit results.
        """
        size = self._result_bytes
        if size == 1:
            return self.low, self.high, code_type(self._ofm_signed)
        limit = 1 << (8 * size - 1)
        return -limit, limit - 1, np.dtype(f"<i{size}")


def _products(macs: int, product_bits: int) -> dict[str, int]:
    """Return the action counts of multiply-accumulates: per MAC with full weights, else per bit of a weight."""
    if product_bits == MOST_BITS:
        return {"mac_int8": macs, "pe_register": macs}
    return {"mac_bit": macs * product_bits}


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolve(MacInstruction):
    """Compute a convolution or a matrix product. A fully connected layer is a 1 x 1 convolution.

    Weights are stored [ofm_depth, kernel_height, kernel_width, ifm_depth]. With a `weight_stride` they are stored
    [kernel_height, kernel_width, ifm_depth, ofm_depth], as rows of `ofm_depth`. So the second matrix of a product may
    be part of an activation, transposed or not. With `ifm_transposed` the first matrix may be transposed, too. Only the
    address generators differ; the traffic at the ports is the same. `wide` results are little-endian integers without
    zero point, such as the sums of an LSTM gate.
    """

    mnemonic: ClassVar[str] = "mac.convolve"
    opcode: ClassVar[int] = 0x20

    output_stationary: int = bits(1, "dataflow", choices=DATAFLOWS)
    row_halvings: int = _halvings("rows")
    column_halvings: int = _halvings("columns")
    accumulator_halvings: int = _halvings("accumulators")
    weight_stride: int = bits(
        20,
        "bytes from one row of `ofm_depth` weights to the next; 0: weights are stored with `ofm_depth` outermost",
    )
    ifm_transposed: int = bits(
        1, "yes: rows are contiguous, and channels are a pixel stride apart", choices=("no", "yes")
    )
    wide: int = bits(
        2, "type of results: 8-bit values, or signed integers clamped to 16 or 32 bits", choices=RESULTS
    )

    @property
    def dataflow(self) -> str:
        """Name of the dataflow, one of `DATAFLOWS`."""
        return DATAFLOWS[self.output_stationary]

    def faults(self) -> list[str]:
        """The rules of all convolutions hold. Rows of weights do not overlap. A transposed feature map has one column
        and contiguous rows. Wide results have no zero point, no clamp and no `other_sign`, and are requantized in
        fixed point. An int16 feature map excludes `wide` and `ifm_transposed`.
        """
        messages = MacInstruction.faults(self)
        if self.wide and (self.ofm_zero, self.low, self.high) != (0, 0, 0):
            messages.append(
                f"wide results with zero point {self.ofm_zero} and clamp {self.low}..{self.high}; all may be 0"
            )
        if self.int16 and (self.wide or self.ifm_transposed):
            messages.append("an int16 feature map with wide or ifm_transposed; they may be 0")
        if self.wide and (self.rescale or self.other_sign):
            messages.append(
                f"wide results with rescale {RESCALES[self.rescale]} and other_sign {self.other_sign}; "
                f"they may be {RESCALES[0]} and 0"
            )
        if 0 < self.weight_stride < self.ofm_depth:
            messages.append(
                f"weight_stride is {self.weight_stride}; it may be 0, or {self.ofm_depth} or more"
            )
        if self.ifm_transposed and (self.ifm_width, self.ifm_row_stride) != (1, 1):
            messages.append(
                f"a transposed feature map of {self.ifm_width} columns with rows {self.ifm_row_stride} bytes apart; "
                f"it may have 1 column, and rows 1 byte apart"
            )
        return messages

    @property
    def _result_bytes(self) -> int:
        return self._map_bytes << self.wide

    def _weight_region(self) -> Region:
        if self.weight_stride in (0, self.ofm_depth):
            return dense(Space.SCRATCHPAD, self.weights, self._weight_count())
        counts = (self._inner, self.ofm_depth)
        return Region(Space.SCRATCHPAD, self.weights, counts, (self.weight_stride,))

    def _map_region(self) -> Region:
        if not self.ifm_transposed:
            return MacInstruction._map_region(self)
        counts = (self.ifm_depth, self.ifm_height)
        return Region(Space.SCRATCHPAD, self.ifm, counts, (self.ifm_pixel_stride,))

    def _feature_map(self, memory: Memory) -> NDArray[Any]:
        if not self.ifm_transposed:
            return MacInstruction._feature_map(self, memory)
        shape = (self.ifm_height, 1, self.ifm_depth)
        strides = (1, 1, self.ifm_pixel_stride)
        return memory.view(Space.SCRATCHPAD, self.ifm, shape, strides, code_type(self.signed))

    def _weights(self, memory: Memory) -> NDArray[Any]:
        if not self.weight_stride:
            return MacInstruction._weights(self, memory)
        dtype = code_type(self.weights_signed)
        sizes, strides = (self._inner, self.ofm_depth), (self.weight_stride, 1)
        stored = memory.view(Space.SCRATCHPAD, self.weights, sizes, strides, dtype)
        return np.ascontiguousarray(stored.T).reshape(self._weight_shape)

    @property
    def kin(self) -> Kin:
        """All fields that results depend on, apart from those that choose the output channels and their addresses."""
        if self.int16 or self.weight_stride:
            return None
        common: Kin = _common()(self)
        return common

    @classmethod
    def execute_together(cls, kin: Sequence[Convolve], memory: Memory) -> list[list[Write]]:
        """Compute tiles of one feature map, with different output channels, in one matrix product."""
        first, channels = kin[0], [tile.ofm_depth for tile in kin]
        sums = first._sums(memory, np.concatenate([tile._weights(memory) for tile in kin]))
        blocks = [tile._parameter_block(memory) for tile in kin]
        values = first._stage.of(sums, *joined_block(blocks, channels, bool(first.per_channel)))
        ends = list(accumulate(channels))
        return [
            tile._written(memory, np.ascontiguousarray(values[..., end - tile.ofm_depth : end]))
            for tile, end in zip(kin, ends, strict=True)
        ]

    def execute(self, memory: Memory) -> list[Write]:
        """Sum (ifm - zero) * (weight - zero) over the window, then apply the output stage."""
        return self._finish(memory, self._sums(memory, self._weights(memory)))


_OF_CHANNELS = {
    "weights", "parameters", "ofm", "ofm_row_stride", "ofm_pixel_stride", "ofm_depth", "output_stationary",
    "row_halvings", "column_halvings", "accumulator_halvings", "few_bits", "looked_up",
}  # fmt: skip
"""Fields in which tiles of one kin may differ. They choose the output channels, or change time and energy alone."""


@cache
def _common() -> attrgetter[Any]:
    """Return the function that reads all other fields of a `mac.convolve`."""
    return attrgetter(*[spec.name for spec in Convolve.specs if spec.name not in _OF_CHANNELS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Depthwise(MacInstruction):
    """Compute a depthwise convolution. Output channel c reads feature-map channel c // multiplier.

    Weights are stored [kernel_height, kernel_width, ofm_depth], ofm_depth = ifm_depth * multiplier.
    """

    mnemonic: ClassVar[str] = "mac.depthwise"
    opcode: ClassVar[int] = 0x21
    _by_channel: ClassVar[bool] = True

    row_halvings: int = _halvings("rows")
    column_halvings: int = _halvings("columns")
    accumulator_halvings: int = _halvings("accumulators")

    @property
    def _layout(self) -> Layout:
        return Layout(0, self.row_halvings, self.column_halvings, self.accumulator_halvings)

    @property
    def dataflow(self) -> str:
        """Name of the dataflow: weight-stationary, with kernel taps as rows and channels as columns."""
        return "depthwise"

    def faults(self) -> list[str]:
        """The rules of all convolutions hold, and `ofm_depth` is a multiple of `ifm_depth`."""
        messages = MacInstruction.faults(self)
        if self.ifm_depth and self.ofm_depth % self.ifm_depth:
            messages.append(f"ofm_depth {self.ofm_depth} is not a multiple of ifm_depth {self.ifm_depth}")
        return messages

    def execute(self, memory: Memory) -> list[Write]:
        """Sum the products of each channel separately, then apply the output stage."""
        return self._finish(memory, self._sums(memory, self._weights(memory)))
