"""MAC-array instructions on floating-point values, which use a float mode of the array.

In this mode the array has `mac_array.float16_columns` or `mac_array.float32_columns` columns. Its ports pass as many
bytes per cycle as in integer mode, hence fewer values. Accumulators are wide enough that a sum is rounded only once,
after bias and activation. The parameter block holds one float32 bias per channel. Weights are stored as for
`mac.convolve` and `mac.depthwise`. Pixels outside the feature map read as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.convolution import convolve_float, depthwise_convolve_float
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.engines.engine import HALVINGS_BITS, Engine
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.engines.systolic.systolic import DATAFLOWS
from npusim.isa.instructions.instruction import Context, Cost
from npusim.isa.instructions.lanes import FLOAT_TYPES, stored
from npusim.isa.instructions.mac import ConvolutionInstruction
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.instructions.word import FIRST, bits

BIAS_BYTES = 4
"""Bytes of one output channel's bias. Biases are float32 for float16 and float32 operands."""


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
class _RealWindow(ConvolutionInstruction):
    """The base of the convolutions on floating-point values, with the fields that they share."""

    element: int = bits(1, "type of all operands", choices=FLOAT_TYPES, place=FIRST)
    activation: int = bits(2, "activation after the bias", choices=real.ACTIVATIONS, place=FIRST)
    output_stationary: int = bits(1, "dataflow", choices=DATAFLOWS)
    row_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the array's rows; 0: all of them")
    column_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the columns of the mode; 0: all of them")
    accumulator_halvings: int = bits(HALVINGS_BITS, "n: use 1 / 2^n of the accumulators; 0: all of them")

    @property
    def _map_type(self) -> Any:
        return np.float32 if self.element else np.float16

    @property
    def _map_bytes(self) -> int:
        return 4 if self.element else 2

    def _parameter_bytes(self) -> int:
        return self.ofm_depth * BIAS_BYTES

    def _weight_region(self) -> Region:
        return dense(Space.SCRATCHPAD, self.weights, self._weight_count() * self._map_bytes)

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

    def execute(self, memory: Memory) -> list[Write]:
        """Compute the sums of products, add the bias, apply the activation, and round once."""
        size, dtype = self._map_bytes, self._map_type
        with np.errstate(all="ignore"):
            ifm = self._feature_map(memory).astype(np.float32)
            raw = memory.bytes_at(Space.SCRATCHPAD, self.weights, self._weight_count() * size)
            weights = np.frombuffer(raw.tobytes(), dtype).astype(np.float32).reshape(self._weight_shape)
            convolution = depthwise_convolve_float if self._by_channel else convolve_float
            biases = memory.bytes_at(Space.SCRATCHPAD, self.parameters, self._parameter_bytes())
            sums = convolution(ifm, weights, **self._window()) + np.frombuffer(biases.tobytes(), np.float32)
            values = real.activated(sums.astype(np.float32), self.activation)
        strides = (self.ofm_row_stride, self.ofm_pixel_stride, size)
        target = memory.view(Space.SCRATCHPAD, self.ofm, self.tile, strides, dtype)
        return [(target, stored(values, dtype))]

    def cost(self, context: Context) -> Cost:
        """The closed form of the array in its float mode, for the part of it that the instruction uses."""
        (engine, array), problem, size = self._array(context), self._problem, self._map_bytes
        use = engine.use(array, problem, self._layout)
        outputs = self.ofm_height * self.ofm_width * self.ofm_depth
        actions = {
            f"mac_{FLOAT_TYPES[self.element]}": problem.macs,
            "pe_idle": max(use.array_cycles * engine.macs_per_cycle(array) - problem.macs, 0),
            "accumulator_update": use.updates,
            f"vector_{FLOAT_TYPES[self.element]}_add": outputs,
            "scratchpad_read_byte": (use.map_values + use.weight_values) * size + self._parameter_bytes(),
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
