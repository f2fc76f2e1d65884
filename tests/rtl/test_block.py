"""The block engine: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.engines.mac_array import Blocks, MacArray
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import Convolve, Depthwise

from .block_referee import BlockReferee, BlockShape
from .comparing import disagreements
from .conftest import sized
from .random_block import draw_block_case
from .random_mac import Case
from .unit_bench import SCRATCHPAD_BYTES

SHAPES = (
    BlockShape(1, 2, 4),
    BlockShape(2, 2, 4, step_cycles=2, depth_first_channels=8, part_kernel_elements=4, depthwise_elements=2),
    BlockShape(1, 1, 4, step_cycles=4, depth_first_channels=16, part_kernel_elements=4, depthwise_elements=3),
)[: sized(1, 2, 3)]
KINDS = ("convolution", "depthwise", "int16_convolution", "int16_depthwise")
INSTRUCTIONS = sized(40, 150, 400)
"""For each shape and kind."""

referee = lru_cache(BlockReferee)


def differences(case: Case, shape: BlockShape) -> dict[str, object]:
    """What registers and model disagree on."""
    return disagreements(referee(shape).run(case.instruction, case.hardware, case.scratchpad), case)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda shape: f"{shape.micro_height}x{shape.micro_width}x{shape.micro_channels}"
)
def test_random_instructions(shape: BlockShape, kind: str) -> None:
    """Random windows, sizes, codes and memory; random blocks, ports, paces, latencies of the engine."""
    rng = np.random.default_rng([shape.micro_height, shape.depth_first_channels, KINDS.index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_block_case(rng, shape, kind)
        found = differences(case, shape)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.mac_array}"


def engine(**changes: float) -> Hardware:
    """Micro-blocks of 1 x 2 x 4; a step is 4 cycles of 8 products of each output and has 32 weights, which arrive in 4
    cycles; an output takes half a cycle; blocks of at most 4 x 8 x 8.
    """
    block = {
        **asdict(SHAPES[0]),
        "part_kernel_channels": 8,
        "most_height": 4,
        "most_width": 8,
        "most_channels": 8,
        "split_channels": 4,
        "buffer_kib": 8,
        "input_grain_kib": 1,
        "accumulator_grain_kib": 1,
        "access_cycles": 10,
        "brick_channels": 8,
        "few_channels_factor": 8,
    }
    ports = {"ifm_bytes_per_cycle": 8, "weight_bytes_per_cycle": 8, "int16_passes": 0}
    array = {name: changes.pop(name, value) for name, value in ports.items()}
    return Hardware(
        name="rtl", mac_array=MacArray(kind="block", block=Blocks(**{**block, **changes}), **array)
    )


def hand_written(
    hardware: Hardware, sizes: tuple[int, int, int, int], kernel: int = 1, by_channel: bool = False
) -> Case:
    """A convolution without padding, of (output rows, columns, channels, input channels); of int16 if the engine has
    passes for it.
    """
    size = 2 if hardware.mac_array.int16_passes else 1
    rows, columns, ofm_depth, ifm_depth = sizes
    rng = np.random.default_rng(sizes)
    window = {"stride": 1, "dilation": 1, "kernel": kernel}
    fields = {f"{name}_{axis}": value for name, value in window.items() for axis in ("height", "width")}
    map_width = columns + kernel - 1
    instruction = (Depthwise if by_channel else Convolve)(
        **fields,
        ifm_height=rows + kernel - 1,
        ifm_width=map_width,
        ifm_depth=ifm_depth,
        ofm_height=rows,
        ofm_width=columns,
        ofm_depth=ofm_depth,
        weights=16384,
        parameters=40960,
        ofm=49152,
        ifm_pixel_stride=ifm_depth * size,
        ifm_row_stride=map_width * ifm_depth * size,
        ofm_pixel_stride=ofm_depth * size,
        ofm_row_stride=columns * ofm_depth * size,
        signed=1,
        weights_signed=1,
        int16=size - 1,
        **({"low": -128, "high": 127} if size == 1 else {}),
    )
    scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    bias = rng.integers(-900, 900, ofm_depth).astype("<i4" if size == 1 else "<i8").tobytes()
    bounds = np.array([-30000, 31000], "<i2").tobytes() if size == 2 else b""
    parameters = bias + b"\0\0\0\x40" + b"\xf8" + bounds
    scratchpad[40960 : 40960 + len(parameters)] = np.frombuffer(parameters, np.uint8)
    return Case(instruction, hardware, scratchpad)


# Inputs of a block arrive, and outputs leave, 10 cycles after they are asked for, 8 bytes a cycle. The first inputs are
# those of a map without padding, of later blocks the whole input block counts.
BY_HAND = [
    # One step for each of 2 layers of 16 micro-blocks; 256 outputs.
    ("a block", engine(), (4, 8, 8, 8), 1, False, (10 + 32) + 2 * 16 * 4 + 256 // 2 + (10 + 32)),
    # Once for each byte of the operands, the first inputs and last outputs of each pass included.
    (
        "int16",
        engine(int16_passes=2),
        (4, 8, 8, 8),
        1,
        False,
        2 * ((10 + 32) + 2 * 16 * 4 + 256 // 2 + (10 + 32)),
    ),
    # 24 input channels are three input blocks. The output stage is done before the commands of the block are.
    ("three input blocks", engine(), (4, 8, 8, 24), 1, False, 42 + 384 + (42 + 384 + 128 + 42) // 4 + 42),
    # Part-kernel first 9 elements in 5 steps; 4 x 8 x 3 inputs, 6 x 10 x 3 in the commands: 843 / 4.
    ("part-kernel", engine(), (4, 8, 8, 3), 3, False, (10 + 12) + 2 * 5 * 64 + 211 + 42),
    # Two blocks of 4 channels, 4 elements of the kernel in a step: the outputs of the first one hide. Commands: 40 +
    # 192 + 64 + 26 in fours.
    ("depthwise", engine(), (4, 8, 8, 8), 3, True, (10 + 16) + 2 * (3 * 64) + 81 + (10 + 16)),
    # Pieces of 2 x 2, 2 x 1, 1 x 2 and 1 of a 3 x 3 kernel, depth first: 9 steps. Commands: 60 + 1152 + 128 + 42 in
    # fours.
    ("pieces of a kernel", engine(kernel_side=2), (4, 8, 8, 8), 3, False, 42 + 9 * 2 * 64 + 346 + 42),
    # One pixel, two input blocks: 4 cycles of products, then 2 more until the same accumulators are written. The
    # outputs take as long as 40 bytes of parameters, which is 5 cycles; the commands of the block 10.
    ("lone micro-block", engine(), (1, 1, 4, 16), 1, False, 11 + 2 * (4 + 2) + (12 + 12 + 5 + 11) // 4 + 11),
    # The first 32 weights come beside the inputs, the next 32 beside products of the first; nothing is behind them.
    (
        "weights that are late",
        engine(weight_bytes_per_cycle=2),
        (1, 1, 4, 16),
        1,
        False,
        max(10 + 1, 16) + (16 + 2) + (4 + 2) + 40 // 2 + (10 + 1),
    ),
    # Two blocks: outputs of the first one while the second one is computed.
    ("two blocks", engine(), (8, 8, 8, 8), 1, False, 42 + 2 * 128 + 128 + 42),
    # The output stage is slower: products of all blocks but the first one hide.
    ("slow outputs", engine(output_cycles=2), (8, 8, 16, 8), 1, False, 42 + 724 // 4 + 4 * 512 + 42),
    # 3 rows, then 2: 192 and 128 outputs at 0.75 cycles.
    (
        "an edge",
        engine(output_cycles=0.75),
        (5, 8, 8, 8),
        1,
        False,
        (10 + 24) + 3 * 4 * 8 + 144 + 96 + (10 + 16),
    ),
    # Slow answers of the memory: 720 cycles of commands for a block, four of them in one.
    ("commands", engine(access_cycles=200), (4, 8, 8, 8), 1, False, 232 + 2 * (720 // 4) + 232),
    # One byte a cycle: 2 blocks of 256 inputs and of 256 outputs, and 64 weights for each.
    ("port", engine(ifm_bytes_per_cycle=1, access_cycles=0), (8, 8, 8, 8), 1, False, 2 * (256 + 256 + 64)),
]


@pytest.mark.parametrize(
    ("what", "hardware", "sizes", "kernel", "by_channel", "cycles"),
    BY_HAND,
    ids=[case[0].replace(" ", "_") for case in BY_HAND],
)
def test_cycles_by_hand(
    what: str,
    hardware: Hardware,
    sizes: tuple[int, int, int, int],
    kernel: int,
    by_channel: bool,
    cycles: int,
) -> None:
    case = hand_written(hardware, sizes, kernel, by_channel)
    run = referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad)
    assert run.cycles == cycles, what
    assert differences(case, SHAPES[0]) == {}


@pytest.mark.parametrize(("cycles", "agrees"), [(9, False), (10, True), (11, False)])
def test_one_cycle_is_noticed(cycles: int, agrees: bool) -> None:
    """The comparison is able to fail: on both sides of the right number."""
    case = hand_written(engine(), (4, 8, 8, 8))
    run = referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad)
    cost = case.instruction.cost(Context(engine(access_cycles=cycles)))
    assert (run.cycles == cost.cycles) is agrees
