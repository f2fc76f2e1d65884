"""The bit-serial engine in RTL: one instruction on one of the engines that a built shape can be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.engines.mac_array import MOST_BITS
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction

from .unit_bench import Run, UnitBench


@dataclass(frozen=True, slots=True)
class SerialShape:
    """What is built: see `[mac_array.bit_serial]`."""

    side: int
    kernel_side: int
    channels: int
    input_channels: int

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of the SystemVerilog modules."""
        return {
            "SIDE": self.side,
            "KERNEL": self.kernel_side,
            "CHANNELS": self.channels,
            "INPUTS": self.input_channels,
        }


class SerialReferee:
    """A verilated engine."""

    def __init__(self, shape: SerialShape) -> None:
        self.shape = shape
        self._bench = UnitBench("serial_bench", shape.parameters)

    def run(self, instruction: Instruction, hardware: Hardware, scratchpad: NDArray[np.uint8]) -> Run:
        """Execute one instruction on a copy of the scratchpad."""
        serial = hardware.mac_array.bit_serials
        shape = self.shape
        built = (shape.side, shape.kernel_side, shape.channels, shape.input_channels)
        if (serial.side, serial.kernel_side, serial.channels, serial.input_channels) != built:
            raise ValueError(f"{serial} does not fit {shape}")
        if serial.depthwise_channels > min(shape.channels, shape.input_channels):
            raise ValueError(f"depthwise_channels {serial.depthwise_channels} do not fit {shape}")
        if serial.output_cycles < shape.channels:
            raise ValueError(f"output_cycles {serial.output_cycles}: more than one channel in a cycle")
        straps = (
            serial.strided_side,
            serial.depthwise_channels,
            serial.start_cycles,
            serial.point_start_cycles,
            serial.step_cycles,
            serial.output_cycles,
            hardware.mac_array.weight_bits if getattr(instruction, "few_bits", 0) else MOST_BITS,
        )
        return self._bench.run(instruction, straps, scratchpad)
