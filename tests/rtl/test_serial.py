"""The bit-serial engine: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.engines.engine import Layout
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import Convolve, Depthwise

from .comparing import disagreements
from .conftest import sized
from .random_mac import Case
from .random_serial import draw_serial_case
from .serial_referee import SerialReferee, SerialShape
from .unit_bench import SCRATCHPAD_BYTES

NE16 = SerialShape(side=3, kernel_side=3, channels=32, input_channels=16)
SHAPES = (
    SerialShape(side=3, kernel_side=3, channels=8, input_channels=4),
    NE16,
    SerialShape(side=2, kernel_side=2, channels=6, input_channels=5),
    SerialShape(side=4, kernel_side=3, channels=4, input_channels=3),
)[: sized(1, 2, 4)]
KINDS = ("kernel", "point", "depthwise")
INSTRUCTIONS = sized(40, 120, 300)
"""For each shape and kind."""

referee = lru_cache(SerialReferee)


def differences(case: Case, shape: SerialShape) -> dict[str, object]:
    """What registers and model disagree on. They read a byte for each weight, the model charges for bits that count."""
    array = case.hardware.mac_array
    use = engine_of(array).use(array, case.instruction._problem, Layout())
    run = referee(shape).run(case.instruction, case.hardware, case.scratchpad)
    return disagreements(run, case, bytes_read=use.map_values + use.weight_values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.side}x{shape.side}x{shape.channels}")
def test_random_instructions(shape: SerialShape, kind: str) -> None:
    """Random windows, sizes, codes and memory; random bits of weights, blocks with strides, latencies."""
    rng = np.random.default_rng([shape.side, shape.channels, KINDS.index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_serial_case(rng, shape, kind)
        found = differences(case, shape)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.mac_array}"


def hand_written(
    shape: SerialShape, sizes: tuple[int, int, int], kernel: int, stride: int = 1, by_channel: bool = False
) -> Case:
    """A convolution to so many rows and columns, of (output rows and columns, output channels, input channels), with
    the latencies of the NE16 and weights of 5 bits.
    """
    side, ofm_depth, ifm_depth = sizes
    map_side = (side - 1) * stride + kernel
    rng = np.random.default_rng(sizes)
    bits = {"mac_array.weight_bits": 5}
    engine = {f"mac_array.bit_serial.{name}": value for name, value in asdict(shape).items()}
    engine["mac_array.bit_serial.depthwise_channels"] = min(shape.input_channels, shape.channels)
    one = ("kernel", "stride", "dilation", "ifm", "ofm")
    values = dict(zip(one, (kernel, stride, 1, map_side, side), strict=True))
    fields = {f"{name}_{axis}": values[name] for name in one for axis in ("height", "width")}
    instruction = (Depthwise if by_channel else Convolve)(
        **fields,
        ifm_depth=ifm_depth,
        ofm_depth=ofm_depth,
        weights=16384,
        parameters=40960,
        ofm=49152,
        ifm_pixel_stride=ifm_depth,
        ifm_row_stride=map_side * ifm_depth,
        ofm_pixel_stride=ofm_depth,
        ofm_row_stride=side * ofm_depth,
        signed=1,
        weights_signed=1,
        low=-128,
        high=127,
        few_bits=1,
    )
    scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    scratchpad[16384:40960] = rng.integers(-16, 16, 40960 - 16384).astype(np.uint8)
    parameters = rng.integers(-900, 900, ofm_depth).astype("<i4").tobytes() + b"\0\0\0\x40" + b"\xfa"
    scratchpad[40960 : 40960 + len(parameters)] = np.frombuffer(parameters, np.uint8)
    return Case(instruction, change(hardware("gap9"), {**bits, **engine}), scratchpad)


# A shape of 8 output channels and 4 input channels, 5 bits. A step: 6 cycles, 5 x 5 pixels of the patch, 14 cycles, 5
# for each channel; with one tap 10 cycles, the pixels, 14 cycles, 1 for each of 8 channels. The output stage: 66.
BY_HAND = [
    ("a block", (3, 8, 4), 3, 1, False, 6 + 25 + 14 + 8 * 5 + 66),
    ("two steps", (3, 8, 5), 3, 1, False, 2 * (6 + 25 + 14 + 8 * 5) + 66),
    ("3 of 8 channels", (3, 3, 4), 3, 1, False, 6 + 25 + 14 + 3 * 5 + 66),
    ("8 and 2 channels", (3, 10, 4), 3, 1, False, 2 * (6 + 25 + 14 + 66) + 10 * 5),
    ("four blocks, one of a pixel", (4, 8, 4), 3, 1, False, 4 * (6 + 25 + 14 + 8 * 5 + 66)),
    # A patch of 5 x 5 has 2 x 2 windows with stride 2, one with stride 3.
    ("stride 2", (4, 8, 4), 3, 2, False, 4 * (6 + 25 + 14 + 8 * 5 + 66)),
    ("stride 3", (4, 8, 4), 3, 3, False, 16 * (6 + 25 + 14 + 8 * 5 + 66)),
    ("one tap", (3, 3, 4), 1, 1, False, 10 + 9 + 14 + 8 + 66),
    ("one tap, two columns of 2 x 2 pixels", (2, 8, 9), 1, 2, False, 3 * (10 + 4 + 14 + 8) + 66),
    # 4 channels at a time, for which the output stage takes half as long.
    ("depthwise", (3, 6, 6), 3, 1, True, (6 + 25 + 14 + 4 * 5 + 33) + (6 + 25 + 14 + 2 * 5 + 33)),
    ("depthwise of one tap", (3, 4, 4), 1, 1, True, 6 + 9 + 14 + 4 * 5 + 33),
]


@pytest.mark.parametrize(
    ("what", "sizes", "kernel", "stride", "by_channel", "cycles"), BY_HAND, ids=[case[0] for case in BY_HAND]
)
def test_cycles_by_hand(
    what: str, sizes: tuple[int, int, int], kernel: int, stride: int, by_channel: bool, cycles: int
) -> None:
    case = hand_written(SHAPES[0], sizes, kernel, stride, by_channel)
    run = referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad)
    assert run.cycles == cycles, what
    assert differences(case, SHAPES[0]) == {}


@pytest.mark.skipif(NE16 not in SHAPES, reason="the engine of the size of NE16 is built by make rtl")
@pytest.mark.parametrize(
    ("sizes", "kernel", "by_channel", "cycles"),
    # The published model of the NE16, with 5 bits.
    [
        ((6, 64, 32), 3, False, 4 * 2 * (2 * (31 + 6 + (6 + 32 * 5) + 2) + 41 + 12 + 13)),
        ((6, 64, 32), 1, False, 4 * 2 * (2 * (19 + 6 + (6 + 32) + 2) + 41 + 12 + 13)),
        ((6, 48, 48), 3, True, 4 * 3 * (31 + 6 + (6 + 16 * 5) + 2 + 33)),
    ],
)
def test_ne16_by_hand(sizes: tuple[int, int, int], kernel: int, by_channel: bool, cycles: int) -> None:
    case = hand_written(NE16, sizes, kernel, 1, by_channel)
    assert referee(NE16).run(case.instruction, case.hardware, case.scratchpad).cycles == cycles
    assert differences(case, NE16) == {}


@pytest.mark.parametrize(
    ("key", "value"), [("bit_serial.step_cycles", 15), ("bit_serial.output_cycles", 67), ("weight_bits", 6)]
)
def test_one_cycle_is_noticed(key: str, value: int) -> None:
    """The comparison is able to fail: a model with one cycle, or one bit, more."""
    case = hand_written(SHAPES[0], (3, 8, 4), 3)
    run = referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad)
    other = change(case.hardware, {f"mac_array.{key}": value})
    assert case.instruction.cost(Context(other)).cycles > run.cycles
    assert differences(case, SHAPES[0]) == {}
