"""The vector unit in RTL: one instruction on one hardware."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions.instruction import Instruction

from .unit_bench import Run, UnitBench

STAGES = 16
"""Most registers between scratchpad and lanes."""


def vector_straps(vector: Vector, lanes: int) -> tuple[int, ...]:
    """The pins that stand for a vector unit, in the order of `vector_straps_t`; `lanes` are built."""
    if vector.lanes > lanes or vector.startup_cycles > STAGES:
        raise ValueError(f"{vector} does not fit {lanes} lanes behind {STAGES} registers")
    return (
        vector.lanes,
        vector.startup_cycles,
        vector.add_cycles,
        vector.mul_cycles,
        vector.max_cycles,
        vector.requantise_cycles,
        vector.pool_cycles,
        vector.reduce_cycles,
        vector.divide_cycles,
        vector.lut_cycles,
        vector.literal_cycles,
        vector.literal_divide_cycles,
        vector.fused_cycles,
        vector.dequantise_cycles,
        vector.quantise_cycles,
        vector.int16_passes,
    )


class VectorReferee:
    """A verilated vector unit of so many lanes."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._bench = UnitBench("vector_bench", {"LANES": lanes, "STAGES": STAGES})

    def run(self, instruction: Instruction, hardware: Hardware, scratchpad: NDArray[np.uint8]) -> Run:
        """Execute one instruction on a copy of the scratchpad."""
        return self._bench.run(instruction, vector_straps(hardware.vector, self.lanes), scratchpad)
