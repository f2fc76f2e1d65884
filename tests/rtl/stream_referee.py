"""The streaming engine in RTL: one instruction on one of the engines that a built shape can be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction

from .unit_bench import Run, UnitBench

LINES, COLUMNS = 7, 36
"""Rows and columns of a window, and positions of a row, at most."""


@dataclass(frozen=True, slots=True)
class StreamShape:
    """What is built, at most: units that work for a layer, multipliers of each, output channels of a set."""

    units: int
    multipliers: int
    kernels: int

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of the SystemVerilog modules."""
        return {"UNITS": self.units, "MULTIPLIERS": self.multipliers, "KERNELS": self.kernels}


class StreamReferee:
    """A verilated engine."""

    def __init__(self, shape: StreamShape) -> None:
        self.shape = shape
        self._bench = UnitBench("stream_bench", shape.parameters)

    def run(self, instruction: Instruction, hardware: Hardware, scratchpad: NDArray[np.uint8]) -> Run:
        """Execute one instruction on a copy of the scratchpad."""
        streams, shape = hardware.mac_array.streams, self.shape
        straps = (streams.units_per_layer, streams.multipliers, streams.kernels)
        if any(asked > built for asked, built in zip(straps, shape.parameters.values(), strict=True)):
            raise ValueError(f"{streams} does not fit {shape}")
        return self._bench.run(instruction, straps, scratchpad)
