"""The block engine in RTL: one instruction on one of the engines that a built shape can be."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from npusim.isa.engines.block.choice import chosen
from npusim.isa.engines.block.shape import block_shape
from npusim.isa.engines.block.timing import computed
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.mac import Convolve, Depthwise

from .unit_bench import Run, UnitBench

ACCUMULATORS = 1024
"""Of a block at most."""
LANES = 4
"""Elements that the output stage writes in a cycle at most."""
PORT = 16
"""Bytes per cycle of the widest port."""


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What is built: see `[mac_array.block]`."""

    micro_height: int
    micro_width: int
    micro_channels: int
    step_cycles: int = 4
    depth_first_channels: int = 8
    part_kernel_elements: int = 2
    depthwise_elements: int = 4

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of the SystemVerilog modules."""
        return {
            "MICRO_HEIGHT": self.micro_height,
            "MICRO_WIDTH": self.micro_width,
            "MICRO_CHANNELS": self.micro_channels,
            "STEP": self.step_cycles,
            "PRODUCTS": self.depth_first_channels,
            "PART_ELEMENTS": self.part_kernel_elements,
            "CHANNEL_ELEMENTS": self.depthwise_elements,
            "ACCUMULATORS": ACCUMULATORS,
            "LANES": LANES,
            "PORT": PORT,
        }


class BlockReferee:
    """A verilated engine."""

    def __init__(self, shape: BlockShape) -> None:
        self.shape = shape
        self._bench = UnitBench("block_bench", shape.parameters)

    def run(
        self, instruction: Convolve | Depthwise, hardware: Hardware, scratchpad: NDArray[np.uint8]
    ) -> Run:
        """Execute one instruction on a copy of the scratchpad."""
        return self._bench.run(instruction, self._straps(instruction, hardware.mac_array), scratchpad)

    def _straps(self, instruction: Convolve | Depthwise, array: MacArray) -> tuple[int, ...]:
        """The block of the instruction, which a compiler puts into registers, and the engine."""
        engine, shape = array.blocks, block_shape(array)
        built = {name: getattr(engine, name) for name in self.shape.__slots__}
        if BlockShape(**built) != self.shape:
            raise ValueError(f"{engine} does not fit {self.shape}")
        used, problem, times = computed(shape, instruction._problem)
        block = chosen(used, problem)
        if block is None or times > 1:
            raise ValueError(f"{instruction} is not computed at once")
        fills = (
            instruction.dilation_height // problem.dilation_height,
            instruction.dilation_width // problem.dilation_width,
        )
        pace = Fraction(engine.output_cycles).limit_denominator(1024)
        ports = array.ifm_bytes_per_cycle, array.weight_bytes_per_cycle
        if pace * LANES < 1 or max(ports) > PORT or prod(block[:3]) > ACCUMULATORS:
            raise ValueError(f"{array} does not fit {self.shape}")
        most = engine.part_kernel_channels if block.part_kernel else engine.depth_first_channels
        return (
            *block[:5],
            min(block.input_depth, most),
            int(block.part_kernel),
            engine.lone_step_cycles,
            pace.numerator,
            pace.denominator,
            engine.access_cycles,
            engine.command_share,
            *ports,
            engine.kernel_side,
            engine.brick_channels,
            engine.few_channels_factor,
            *fills,
            int(engine.turns_rows),
        )
