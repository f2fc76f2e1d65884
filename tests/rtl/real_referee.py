"""The real lanes of the vector unit in RTL: one instruction on one hardware."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions.instruction import Instruction

from .unit_bench import Run, UnitBench
from .vector_referee import STAGES


def real_straps(vector: Vector, lanes: int) -> tuple[int, ...]:
    """The pins that stand for the real lanes, in the order of `real_straps_t`; `lanes` are built."""
    if max(vector.float16_lanes, vector.float32_lanes) > lanes or vector.startup_cycles > STAGES:
        raise ValueError(f"{vector} does not fit {lanes} lanes behind {STAGES} registers")
    return (
        vector.float16_lanes,
        vector.float32_lanes,
        vector.startup_cycles,
        vector.float_cycles,
        vector.float_divide_cycles,
        vector.float_function_cycles,
    )


class RealReferee:
    """Verilated real lanes, so many of them."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._bench = UnitBench("real_bench", {"LANES": lanes, "STAGES": STAGES})

    def run(self, instruction: Instruction, hardware: Hardware, scratchpad: NDArray[np.uint8]) -> Run:
        """Execute one instruction on a copy of the scratchpad."""
        return self._bench.run(instruction, real_straps(hardware.vector, self.lanes), scratchpad)
