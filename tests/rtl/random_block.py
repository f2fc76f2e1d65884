"""Random legal MAC instructions for a block engine, small enough that many of them have several blocks."""

from __future__ import annotations

import numpy as np

from npusim.isa.engines.block.choice import chosen
from npusim.isa.engines.block.shape import block_shape
from npusim.isa.engines.block.timing import computed
from npusim.isa.engines.engine import Problem
from npusim.isa.engines.mac_array import Blocks, MacArray
from npusim.isa.hardware.hardware import Hardware

from .block_referee import PORT, BlockShape
from .random_mac import Case, draw_size, draw_window, instruction_of, operands


def draw_engine(rng: np.random.Generator, shape: BlockShape, int16_passes: int = 0) -> Hardware | None:
    """An engine of this shape with random blocks, ports, paces, latencies; None if no micro-block fits."""

    def one_of(*values: float) -> float:
        return float(rng.choice(values))

    micro = shape.micro_channels
    split = micro * int(rng.choice([1, 1, 2]))
    block = Blocks(
        **{name: getattr(shape, name) for name in shape.__slots__},
        part_kernel_channels=int(rng.choice([4, 8, 16])),
        kernel_side=int(rng.choice([2, 3, 8])),
        most_dilation=int(rng.integers(1, 4)),
        turns_rows=bool(rng.integers(0, 2)),
        lone_step_cycles=int(rng.integers(0, 5)),
        most_height=shape.micro_height * int(rng.integers(1, 6)),
        most_width=shape.micro_width * int(rng.integers(1, 6)),
        most_channels=split * int(rng.integers(1, 4)),
        split_channels=split,
        buffer_kib=int(rng.choice([3, 4, 6, 8])),
        input_grain_kib=1,
        accumulator_grain_kib=1,
        brick_channels=int(rng.choice([1, 4, 16])),
        few_channels_factor=int(rng.choice([1, 4])),
        output_cycles=one_of(0.25, 0.5, 0.75, 1, 1.5, 2, 3.25),
        access_cycles=int(rng.choice([0, 1, 5, 32])),
        command_share=int(rng.integers(1, 7)),
    )
    array = MacArray(
        kind="block",
        int16_passes=int16_passes,
        block=block,
        ifm_bytes_per_cycle=int(rng.choice([1, 3, 8, PORT])),
        weight_bytes_per_cycle=int(rng.choice([1, 4, 8, 12, PORT])),
    )
    least = Problem(shape.micro_height, shape.micro_width, micro, 1, 1, 1)
    return Hardware(name="rtl", mac_array=array) if chosen(block_shape(array), least) else None


def draw_block_case(rng: np.random.Generator, shape: BlockShape, kind: str) -> Case:
    """`kind`: convolution or depthwise, of int16 values with "int16_" in front."""
    while True:
        case = _attempt(rng, shape, kind)
        if case is not None:
            return case


def _attempt(rng: np.random.Generator, shape: BlockShape, kind: str) -> Case | None:
    """One draw; None if it is too large."""
    by_channel, int16 = kind.endswith("depthwise"), kind.startswith("int16")
    ifm_depth = draw_size(rng, shape.depth_first_channels, 3 * shape.depth_first_channels)
    ofm_depth = draw_size(rng, 2 * shape.micro_channels, 6 * shape.micro_channels)
    made = operands(rng, draw_window(rng), ifm_depth, None if by_channel else ofm_depth, int16=int16)
    hardware = draw_engine(rng, shape, 2 * int16)
    if made is None or hardware is None:
        return None
    instruction = instruction_of(made[0], by_channel, hardware)
    used, problem, alone = computed(block_shape(hardware.mac_array), instruction._problem)
    return Case(instruction, hardware, made[1]) if alone == 1 and chosen(used, problem) else None
