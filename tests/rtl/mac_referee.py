"""The MAC unit in RTL: one instruction on one of the arrays that a built shape can be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware, MacArray
from npusim.isa.instructions.instruction import Instruction

from .unit_bench import Run, UnitBench


@dataclass(frozen=True, slots=True)
class Shape:
    """What is built into an array; the straps of a run may be smaller."""

    rows: int
    columns: int
    accumulators: int = 64
    ifm_port: int = 16
    weight_port: int = 16
    lanes: int = 16

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of the SystemVerilog modules."""
        return {
            "ROWS": self.rows,
            "COLUMNS": self.columns,
            "DEPTH": self.accumulators,
            "IFM_PORT": self.ifm_port,
            "WEIGHT_PORT": self.weight_port,
            "LANES": self.lanes,
        }


class MacReferee:
    """A verilated MAC unit."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._bench = UnitBench("mac_bench", shape.parameters)

    def run(self, instruction: Instruction, hardware: Hardware, scratchpad: NDArray[np.uint8]) -> Run:
        """Execute one instruction on a copy of the scratchpad."""
        return self._bench.run(instruction, self._straps(hardware.mac_array), scratchpad)

    def _straps(self, array: MacArray) -> tuple[int, ...]:
        half = array.accumulator_kib * 1024 // 4 // array.columns // 2
        shape = self.shape
        built = (shape.rows, shape.columns)
        if (array.rows, array.columns) != built or half > shape.accumulators:
            raise ValueError(f"{array} does not fit {shape}")
        ports = (array.ifm_bytes_per_cycle, array.weight_bytes_per_cycle, array.output_lanes)
        if any(x > y for x, y in zip(ports, (shape.ifm_port, shape.weight_port, shape.lanes), strict=True)):
            raise ValueError(f"{array} does not fit {shape}")
        return (int(array.shadow_weights), half, *ports)
