"""MAC-array instructions on floating-point values, which use a float mode of the array.

In this mode the array has `mac_array.float16_columns` or `mac_array.float32_columns` columns. Its ports pass as many
bytes per cycle as in integer mode, hence fewer values. Accumulators are wide enough that a sum is rounded only once,
after bias and activation. The parameter block holds one float32 bias per channel. Weights are stored as for
`mac.convolve` and `mac.depthwise`. Pixels outside the feature map read as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.convolution import convolve_float, depthwise_convolve_float
from npusim.isa.base.cause import Cause
from npusim.isa.engines.engine import HALVINGS_BITS, Engine, Layout, Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.engines.systolic.systolic import DATAFLOWS
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context, Cost, Instruction, zero_faults
from npusim.isa.instructions.lanes import FLOAT_TYPES, stored
from npusim.isa.instructions.mac import MAC_CAUSES
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense, map_region
from npusim.isa.instructions.word import ADDRESS_BITS, bits

BIAS_BYTES = 4
"""Bytes of a channel's bias, which is float32 for both element types."""


def float_columns(array: MacArray, element: str) -> int:
    """Return the number of columns in the mode for an element type; 0 if the array has no such mode."""
    columns: int = getattr(array, f"{element}_columns")
    return columns


@lru_cache(maxsize=64)
def float_mode(array: MacArray, element: str) -> MacArray:
    """Return the array's parameters in the mode for an element type: fewer columns, and fewer values per cycle."""
    size = 4 if element == "float32" else 2
    return array.model_copy(
        update={
            "columns": max(float_columns(array, element), 1),
            "ifm_bytes_per_cycle": max(array.ifm_bytes_per_cycle // size, 1),
            "weight_bytes_per_cycle": max(array.weight_bytes_per_cycle // size, 1),
            "output_lanes": max(array.output_lanes // size, 1),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RealWindow(Instruction):
    """The base of the convolutions on floating-point values, with the fields that they share."""

    home: ClassVar[Unit] = Unit.MAC
    causes: ClassVar[tuple[Cause, ...]] = MAC_CAUSES
    _by_channel: ClassVar[bool] = False

    element: int = bits(1, "type of all operands", choices=FLOAT_TYPES)
    activation: int = bits(2, "activation after the bias", choices=real.ACTIVATIONS)
    ifm: int = bits(ADDRESS_BITS, "scratchpad address of the first feature-map row")
    ifm_row_stride: int = bits(24, "bytes from one feature-map row to the next")
    ifm_pixel_stride: int = bits(20, "bytes from one feature-map pixel to the next")
    ifm_height: int = bits(16, "feature-map rows present; rows outside are padding")
    ifm_width: int = bits(16, "feature-map columns; columns outside are padding")
    ifm_depth: int = bits(20, "feature-map channels")
    weights: int = bits(ADDRESS_BITS, "scratchpad address of the weights")
    parameters: int = bits(ADDRESS_BITS, "scratchpad address of the biases")
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
    output_stationary: int = bits(1, "dataflow", choices=DATAFLOWS)
    row_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the array's rows; 0: all of them")
    column_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the columns of the mode; 0: all of them")
    accumulator_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the accumulators; 0: all of them")

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, columns and channels of the output."""
        return self.ofm_height, self.ofm_width, self.ofm_depth

    @property
    def element_bytes(self) -> int:
        """Bytes of an element, 2 or 4."""
        return 4 if self.element else 2

    @property
    def _dtype(self) -> Any:
        return np.float32 if self.element else np.float16

    @property
    def _problem(self) -> Problem:
        return Problem(
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
    def _layout(self) -> Layout:
        halvings = self.row_halvings, self.column_halvings, self.accumulator_halvings
        return Layout(self.output_stationary, *halvings)

    def _array(self, context: Context) -> tuple[Engine, MacArray]:
        array = context.hardware.mac_array
        return engine_of(array), float_mode(array, FLOAT_TYPES[self.element])

    def misfits(self, context: Context) -> list[str]:
        """The array must have the float mode, be large enough for the halvings, and support the dataflow."""
        name = FLOAT_TYPES[self.element]
        if not float_columns(context.hardware.mac_array, name):
            return [f"computes {name}, the machine has mac_array.{name}_columns = 0"]
        engine, array = self._array(context)
        return engine.misfits(array, self._layout, self._by_channel)

    def regions(self, context: Context) -> Regions:
        """Return the regions of feature map, weights and biases, which are read, and of the output."""
        size = self.element_bytes
        ifm = map_region(
            self.ifm,
            (self.ifm_height, self.ifm_width, self.ifm_depth * size),
            (self.ifm_row_stride, self.ifm_pixel_stride),
        )
        ofm = map_region(
            self.ofm,
            (self.ofm_height, self.ofm_width, self.ofm_depth * size),
            (self.ofm_row_stride, self.ofm_pixel_stride),
        )
        weights = dense(Space.SCRATCHPAD, self.weights, self._problem.weights * size)
        biases = dense(Space.SCRATCHPAD, self.parameters, self.ofm_depth * BIAS_BYTES)
        return (ifm, weights, biases), (ofm,)

    def faults(self) -> list[str]:
        """Sizes and strides are at least 1."""
        sizes = (
            "ifm_height", "ifm_width", "ifm_depth", "ofm_height", "ofm_width", "ofm_depth", "kernel_height",
            "kernel_width", "stride_height", "stride_width", "dilation_height", "dilation_width",
        )  # fmt: skip
        return zero_faults(self, sizes)

    def _sums(
        self, ifm: NDArray[np.float32], weights: NDArray[np.float32], window: dict[str, Any]
    ) -> NDArray[np.float64]:
        """Return the sums of products of all outputs, [ofm_height, ofm_width, ofm_depth].

        window: strides, dilations, pads and output shape, as the reference convolutions take them.
        """
        raise NotImplementedError

    def execute(self, memory: Memory) -> list[Write]:
        """Compute the sums of products, add the bias, apply the activation, and round once."""
        size = self.element_bytes
        with np.errstate(all="ignore"):
            ifm = memory.view(
                Space.SCRATCHPAD,
                self.ifm,
                (self.ifm_height, self.ifm_width, self.ifm_depth),
                (self.ifm_row_stride, self.ifm_pixel_stride, size),
                self._dtype,
            ).astype(np.float32)
            raw = memory.bytes_at(Space.SCRATCHPAD, self.weights, self._problem.weights * size)
            weights = np.frombuffer(raw.tobytes(), self._dtype).astype(np.float32)
            biases = memory.bytes_at(Space.SCRATCHPAD, self.parameters, self.ofm_depth * BIAS_BYTES)
            window = {
                "strides": (self.stride_height, self.stride_width),
                "dilations": (self.dilation_height, self.dilation_width),
                "pads": (self.pad_top, self.pad_left),
                "output_shape": (self.ofm_height, self.ofm_width),
            }
            sums = self._sums(ifm, weights, window) + np.frombuffer(biases.tobytes(), np.float32)
            values = real.activated(sums.astype(np.float32), self.activation)
        target = memory.view(
            Space.SCRATCHPAD,
            self.ofm,
            (self.ofm_height, self.ofm_width, self.ofm_depth),
            (self.ofm_row_stride, self.ofm_pixel_stride, size),
            self._dtype,
        )
        return [(target, stored(values, self._dtype))]

    def cost(self, context: Context) -> Cost:
        """The closed form of the array in its float mode, for the part of it that the instruction uses."""
        (engine, array), problem, size = self._array(context), self._problem, self.element_bytes
        use = engine.use(array, problem, self._layout)
        outputs = self.ofm_height * self.ofm_width * self.ofm_depth
        actions = {
            f"mac_{FLOAT_TYPES[self.element]}": problem.macs,
            "pe_idle": max(use.array_cycles * engine.macs_per_cycle(array) - problem.macs, 0),
            "accumulator_update": use.updates,
            f"vector_{FLOAT_TYPES[self.element]}_add": outputs,
            "scratchpad_read_byte": (use.map_values + use.weight_values) * size + self.ofm_depth * BIAS_BYTES,
            "scratchpad_write_byte": outputs * size,
        }
        return Cost(use.cycles, actions, array_cycles=use.array_cycles)

    def demand(self, context: Context) -> int:
        """Return the multiply-accumulates in units of integer MACs: a float MAC occupies the place of several."""
        engine, array = self._array(context)
        whole = engine.macs_per_cycle(context.hardware.mac_array)
        return -(-self._problem.macs * whole // engine.macs_per_cycle(array))

    def split(self, context: Context) -> Mapping[str, int]:
        """Return the stall and inefficiency cycles of the array in its float mode, by cause."""
        engine, array = self._array(context)
        lost = engine.split(array, self._problem, self._layout)
        return {cause.name: cycles for cause, cycles in zip(engine.causes, lost, strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RealConvolve(_RealWindow):
    """Compute a floating-point convolution or matrix product. A fully connected layer is a 1 x 1 convolution.

    Weights are stored [ofm_depth, kernel_height, kernel_width, ifm_depth].
    """

    mnemonic: ClassVar[str] = "mac.real_convolve"
    opcode: ClassVar[int] = 0x58

    @property
    def dataflow(self) -> str:
        """Name of the dataflow, one of `DATAFLOWS`."""
        return DATAFLOWS[self.output_stationary]

    def _sums(
        self, ifm: NDArray[np.float32], weights: NDArray[np.float32], window: dict[str, Any]
    ) -> NDArray[np.float64]:
        shape = (self.ofm_depth, self.kernel_height, self.kernel_width, self.ifm_depth)
        return convolve_float(ifm, weights.reshape(shape), **window)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealDepthwise(_RealWindow):
    """Compute a floating-point depthwise convolution. Each input channel gives ofm_depth / ifm_depth output channels.

    Weights are stored [kernel_height, kernel_width, ofm_depth].
    """

    mnemonic: ClassVar[str] = "mac.real_depthwise"
    opcode: ClassVar[int] = 0x59
    _by_channel: ClassVar[bool] = True

    @property
    def dataflow(self) -> str:
        """Name of the dataflow."""
        return "depthwise"

    def faults(self) -> list[str]:
        """The rules of all convolutions hold. `ofm_depth` is a multiple of `ifm_depth`; `output_stationary` is 0."""
        messages = _RealWindow.faults(self)
        if self.ifm_depth and self.ofm_depth % self.ifm_depth:
            messages.append(f"ofm_depth {self.ofm_depth} is no multiple of ifm_depth {self.ifm_depth}")
        if self.output_stationary:
            messages.append("output_stationary is 1; it may be 0")
        return messages

    def _sums(
        self, ifm: NDArray[np.float32], weights: NDArray[np.float32], window: dict[str, Any]
    ) -> NDArray[np.float64]:
        shape = (self.kernel_height, self.kernel_width, self.ofm_depth)
        return depthwise_convolve_float(ifm, weights.reshape(shape), **window)
