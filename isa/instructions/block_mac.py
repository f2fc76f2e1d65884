"""The MAC-array instruction for matrix products with weights that are quantized in blocks.

The weights stay in the scratchpad as they are stored (`npusim.isa.base.block_format`). What the array does with
them depends on the values that they meet.

8-bit values: the array computes on quantized weights. A pass over the array never covers two blocks. The sum of a block
is exact; below the columns it is multiplied by the block's scale and added to a float32 sum. An accumulator therefore
has 8 bytes, an int32 and a float32 sum. Weights are stationary. The output stage multiplies by the scale of the feature
map, adds the bias, divides by the scale of the output and rounds.

Floats: weights are dequantized behind the weight port, and the float mode of the array computes on them, as for
`mac.real_convolve`.

The parameter block of a tile holds, for n channels, n float32 biases; for 8-bit values the float32 scales of feature
map and output; then the scales of all blocks, channel by channel, and the zero points, if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.float_codes import quantise
from npusim.isa.arithmetic.weight_blocks import centred, dequantised, sums_of_blocks
from npusim.isa.base.block_format import BITS, BlockFormat
from npusim.isa.base.cause import Cause
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.engines.engine import HALVINGS_BITS, Engine, Layout, Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.engines.systolic.systolic import DATAFLOWS
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context, Cost, Instruction, zero_faults
from npusim.isa.instructions.lanes import FLOAT_TYPES, clamp_fault, code_type, stored
from npusim.isa.instructions.mac import MAC_CAUSES
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.real_mac import BIAS_BYTES, float_columns, float_mode
from npusim.isa.instructions.region import Regions, Space, dense, map_region
from npusim.isa.instructions.word import ADDRESS_BITS, CODES, FIRST, SIGNS, bits

ELEMENTS = (*SIGNS, *FLOAT_TYPES)
"""Types of the feature map, in the order of the field `element`."""
MAP_SCALES_BYTES = 8
"""Bytes of the scales of feature map and output in the parameter block of 8-bit values."""
LARGEST_BLOCK = 1 << 15
"""Most weights of a block: the sum of as many products of 9 bits fits 32 bits."""


def parameter_bytes(form: BlockFormat, inner: int, channels: int, codes: bool) -> int:
    """Return the bytes of the parameter block of a tile; `codes` for 8-bit values."""
    per_channel = BIAS_BYTES + form.channel_bytes(inner) - form.weight_bytes(inner)
    return channels * per_channel + (MAP_SCALES_BYTES if codes else 0)


@lru_cache(maxsize=256)
def block_mode(array: MacArray, element: str, form: BlockFormat) -> MacArray:
    """Return the array's parameters as they are for weights in blocks.

    The weight port passes as many weights per cycle as it has bits for them, their scales and zero points. With 8-bit
    values an accumulator takes 8 bytes. Floats use the float mode.
    """
    floats = element in FLOAT_TYPES
    mode = float_mode(array, element) if floats else array
    port = max(array.weight_bytes_per_cycle * 8 * form.block // form.block_bits, 1)
    changes = {"weight_bytes_per_cycle": port}
    if not floats:
        changes["accumulator_kib"] = max(array.accumulator_kib // 2, 1)
    return mode.model_copy(update=changes)


def least_halvings(array: MacArray, form: BlockFormat) -> int:
    """Return how often the rows must be halved until a pass of 8-bit values covers no more than a block."""
    halvings = 0
    while array.rows >> halvings > form.block:
        halvings += 1
    return halvings


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProduct(Instruction):
    """Multiply rows of values with weights that are quantized in blocks along the dot product.

    Weights are stored [columns, blocks, block], in unsigned integers of `weight_bits` bits.
    """

    mnemonic: ClassVar[str] = "mac.blocks"
    opcode: ClassVar[int] = 0x22
    home: ClassVar[Unit] = Unit.MAC
    causes: ClassVar[tuple[Cause, ...]] = MAC_CAUSES

    element: int = bits(2, "type of feature map and output", choices=ELEMENTS, place=FIRST)
    ifm: int = bits(ADDRESS_BITS, "scratchpad address of the first row of values")
    ifm_row_stride: int = bits(24, "bytes from one row of values to the next")
    rows: int = bits(16, "rows of values, and of results")
    inner: int = bits(20, "values of a row")
    weights: int = bits(ADDRESS_BITS, "scratchpad address of the weights")
    parameters: int = bits(ADDRESS_BITS, "scratchpad address of the parameter block")
    ofm: int = bits(ADDRESS_BITS, "scratchpad address of the first row of results")
    ofm_row_stride: int = bits(24, "bytes from one row of results to the next")
    columns: int = bits(20, "results of a row: output channels")
    weight_bits: int = bits(2, "bits of a weight", choices=tuple(map(str, BITS)))
    block: int = bits(20, "weights of a block")
    scale: int = bits(1, "type of the scales of blocks", choices=FLOAT_TYPES)
    zero_points: int = bits(1, "yes: each block has a zero point", choices=("no", "yes"))
    activation: int = bits(2, "floats: activation after the bias", choices=real.ACTIVATIONS)
    ifm_zero: int = bits(9, "8-bit values: zero point of the feature map", signed=True)
    ofm_zero: int = bits(9, "8-bit values: zero point of the output", signed=True)
    low: int = bits(9, "8-bit values: smallest result", signed=True)
    high: int = bits(9, "8-bit values: largest result", signed=True)
    output_stationary: int = bits(1, "dataflow", choices=DATAFLOWS)
    row_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the array's rows; 0: all of them")
    column_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the columns; 0: all of them")
    accumulator_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the accumulators; 0: all of them")

    @property
    def form(self) -> BlockFormat:
        """The storage format of the weights."""
        return BlockFormat(BITS[self.weight_bits], self.block, 4 if self.scale else 2, bool(self.zero_points))

    @property
    def codes(self) -> bool:
        """Whether feature map and output have 8-bit values."""
        return self.element < len(SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows and columns of the output."""
        return self.rows, self.columns

    @property
    def dataflow(self) -> str:
        """Name of the dataflow, one of `DATAFLOWS`."""
        return DATAFLOWS[self.output_stationary]

    @property
    def _size(self) -> int:
        """Bytes of a value."""
        return 1 if self.codes else 4 if ELEMENTS[self.element] == "float32" else 2

    @property
    def _dtype(self) -> Any:
        return code_type(self.element) if self.codes else np.dtype(ELEMENTS[self.element])

    @property
    def _layout(self) -> Layout:
        halvings = self.row_halvings, self.column_halvings, self.accumulator_halvings
        return Layout(self.output_stationary, *halvings)

    @property
    def _macs(self) -> int:
        """Number of multiply-accumulates."""
        return self.rows * self.inner * self.columns

    def _array(self, context: Context) -> tuple[Engine, MacArray]:
        array = context.hardware.mac_array
        return engine_of(array), block_mode(array, ELEMENTS[self.element], self.form)

    def _parameter_bytes(self) -> int:
        return parameter_bytes(self.form, self.inner, self.columns, self.codes)

    def regions(self, context: Context) -> Regions:
        """Return the regions of feature map, weights and parameters, which are read, and of the output."""
        ifm, ofm = (
            map_region(address, (count, 1, length * self._size), (stride, length * self._size))
            for address, count, length, stride in (
                (self.ifm, self.rows, self.inner, self.ifm_row_stride),
                (self.ofm, self.rows, self.columns, self.ofm_row_stride),
            )
        )
        weights = dense(Space.SCRATCHPAD, self.weights, self.columns * self.form.weight_bytes(self.inner))
        parameters = dense(Space.SCRATCHPAD, self.parameters, self._parameter_bytes())
        return (ifm, weights, parameters), (ofm,)

    def faults(self) -> list[str]:
        """Sizes are at least 1. Beside 8-bit values, a block has at most 2^15 weights, weights are stationary, there is
        no activation, zero points are values of the type, and the clamp is not empty. Beside floats, zero points and
        clamp are 0.
        """
        messages = zero_faults(self, ("rows", "inner", "columns", "block"))
        numbers = self.ifm_zero, self.ofm_zero, self.low, self.high
        if not self.codes:
            if any(numbers):
                messages.append(
                    f"floats with zero points {self.ifm_zero} and {self.ofm_zero} and clamp "
                    f"{self.low}..{self.high}; all may be 0"
                )
            return messages
        if self.block > LARGEST_BLOCK:
            messages.append(f"block is {self.block}; with 8-bit values it may be {LARGEST_BLOCK} at most")
        for name in ("output_stationary", "activation"):
            if value := getattr(self, name):
                messages.append(f"{name} is {value}; with 8-bit values it may be 0")
        low, high = CODES[self.element]
        for name in ("ifm_zero", "ofm_zero"):
            if not low <= (zero := getattr(self, name)) <= high:
                messages.append(f"{name} {zero} is not within {low}..{high}")
        return messages + clamp_fault(self.element, self.low, self.high)

    def misfits(self, context: Context) -> list[str]:
        """The array must compute on weights in blocks as the values need it (`mac_array.weight_blocks`), be large
        enough for the halvings, and support the dataflow. A pass of 8-bit values covers no more than a block, and a
        float needs the float mode.
        """
        array = context.hardware.mac_array
        name = ELEMENTS[self.element]
        if not (array.quantized_blocks if self.codes else array.dequantized_blocks):
            return [
                f"computes on {'' if self.codes else 'de'}quantized weights in blocks; the machine has "
                f"mac_array.weight_blocks = {array.weight_blocks}"
            ]
        if not self.codes and not float_columns(array, name):
            return [f"computes {name}, the machine has mac_array.{name}_columns = 0"]
        engine, mode = self._array(context)
        messages = engine.misfits(mode, self._layout, False)
        least = least_halvings(array, self.form)
        if self.codes and self.row_halvings < least:
            messages.append(
                f"row_halvings is {self.row_halvings}; a pass must not cover more than a block of {self.block}, "
                f"so it may be {least} or more"
            )
        return messages

    def execute(self, memory: Memory) -> list[Write]:
        """8-bit values: add the scaled sums of blocks, rescale, add the bias, quantize. Floats: dequantize the weights,
        multiply, add the bias, apply the activation, and round once.
        """
        form, size, dtype = self.form, self._size, self._dtype
        values = memory.view(
            Space.SCRATCHPAD, self.ifm, (self.rows, self.inner), (self.ifm_row_stride, size), dtype
        )
        raw = memory.bytes_at(Space.SCRATCHPAD, self.parameters, self._parameter_bytes()).tobytes()
        biases = np.frombuffer(raw, "<f4", self.columns)
        at = self.columns * BIAS_BYTES
        map_scales = np.frombuffer(raw, "<f4", 2, at) if self.codes else None
        at += MAP_SCALES_BYTES if self.codes else 0
        counts = self.columns, form.blocks(self.inner)
        scales = np.frombuffer(raw, "<f4" if self.scale else "<f2", counts[0] * counts[1], at).reshape(counts)
        at += scales.nbytes
        zeros = (
            np.frombuffer(raw, np.uint8, offset=at).reshape(self.columns, -1) if form.zero_points else None
        )
        packed = memory.bytes_at(
            Space.SCRATCHPAD, self.weights, self.columns * form.weight_bytes(self.inner)
        ).reshape(self.columns, -1)
        steps = centred(packed, zeros, form, self.inner)
        results: NDArray[Any]
        with np.errstate(all="ignore"):
            if map_scales is not None:
                centre = values.astype(np.int32) - self.ifm_zero
                sums = sums_of_blocks(centre, steps, scales) * map_scales[0] + biases
                results = quantise(sums, map_scales[1], self.ofm_zero, self.low, self.high, dtype)
            else:
                weights = dequantised(steps, scales, self.inner, dtype).astype(np.float64)
                products = values.astype(np.float64) @ weights.T + biases
                results = stored(real.activated(products.astype(np.float32), self.activation), dtype)
        shape, strides = (self.rows, self.columns), (self.ofm_row_stride, size)
        return [(memory.view(Space.SCRATCHPAD, self.ofm, shape, strides, dtype), results)]

    def _problem(self, array: MacArray) -> Problem:
        """The product as the array computes it: of 8-bit values, whole passes for each block."""
        inner = self.inner
        if self.codes:
            rows = max(array.rows >> self.row_halvings, 1)
            inner = self.form.blocks(self.inner) * -(-self.block // rows) * rows
        return Problem(1, self.rows, self.columns, inner, 1, 1)

    def cost(self, context: Context) -> Cost:
        """The closed form of the array in its mode, for the part of it that the instruction uses. Weights, scales and
        zero points pass the weight port with the bits that they have. For 8-bit values every block takes whole passes.
        """
        (engine, mode), name, form = self._array(context), ELEMENTS[self.element], self.form
        use = engine.use(mode, self._problem(mode), self._layout)
        macs, outputs = self._macs, self.rows * self.columns
        passes = -(-use.weight_values * form.block_bits // (8 * form.block))
        actions = {
            "pe_idle": max(use.array_cycles * engine.macs_per_cycle(mode) - macs, 0),
            "accumulator_update": use.updates,
            "scratchpad_read_byte": use.map_values * self._size + passes + self.columns * BIAS_BYTES,
            "scratchpad_write_byte": outputs * self._size,
        }
        if self.codes:
            scaled = outputs * form.blocks(self.inner)
            actions |= {
                "mac_int8": macs,
                "pe_register": macs,
                "accumulator_update": use.updates + scaled,
                "vector_float32_multiply": scaled,
                "vector_float32_add": scaled,
                "requantise_float32": outputs,
            }
        else:
            actions |= {
                f"mac_{name}": macs,
                f"vector_{name}_multiply": use.weight_values,
                f"vector_{name}_add": outputs,
            }
        return Cost(use.cycles, actions, array_cycles=use.array_cycles)

    def demand(self, context: Context) -> int:
        """Return the multiply-accumulates; those of floats in units of integer MACs."""
        if self.codes:
            return self._macs
        engine, mode = self._array(context)
        whole = engine.macs_per_cycle(context.hardware.mac_array)
        return -(-self._macs * whole // engine.macs_per_cycle(mode))

    def split(self, context: Context) -> Mapping[str, int]:
        """Return the stall and inefficiency cycles of the array in its mode, by cause."""
        engine, mode = self._array(context)
        problem, per_cycle = self._problem(mode), engine.macs_per_cycle(mode)
        lost = list(engine.split(mode, problem, self._layout))
        # Rows that no weight of a block fills count as edges.
        lost[0] += -(-problem.macs // per_cycle) - -(-self._macs // per_cycle)
        return {cause.name: cycles for cause, cycles in zip(engine.causes, lost, strict=True)}

    def rereads(self, context: Context) -> bool:
        """Return whether weights are read more than once, because several blocks of rows each need all of them."""
        engine, mode = self._array(context)
        problem = self._problem(mode)
        return engine.use(mode, problem, self._layout).weight_values > problem.weights
