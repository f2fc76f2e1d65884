"""The streaming engine: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.engines.mac_array import Streams
from npusim.isa.hardware.file import change
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import Convolve, Depthwise

from .comparing import disagreements
from .conftest import sized
from .random_mac import Case
from .random_stream import draw_stream_case, wide
from .stream_referee import StreamReferee, StreamShape
from .unit_bench import SCRATCHPAD_BYTES

SHAPES = (
    StreamShape(units=2, multipliers=12, kernels=4),
    StreamShape(units=1, multipliers=25, kernels=8),
    StreamShape(units=4, multipliers=5, kernels=3),
)[: sized(1, 2, 3)]
KINDS = ("convolution", "depthwise")
INSTRUCTIONS = sized(30, 120, 300)
"""For each shape and kind."""

referee = lru_cache(StreamReferee)


def differences(case: Case, shape: StreamShape) -> dict[str, object]:
    """What registers and model disagree on."""
    return disagreements(referee(shape).run(case.instruction, case.hardware, case.scratchpad), case)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.units}x{shape.multipliers}")
def test_random_instructions(shape: StreamShape, kind: str) -> None:
    """Random windows, sizes, codes and memory; random units, multipliers and sets of kernels."""
    rng = np.random.default_rng([shape.units, shape.multipliers, KINDS.index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_stream_case(rng, shape, kind == "depthwise")
        found = differences(case, shape)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.mac_array}"


def hand_written(
    sizes: tuple[int, int, int], kernel: int, stride: int = 1, by_channel: bool = False, units: int = 1
) -> Case:
    """A convolution of (output rows and columns, output channels, input channels) on units of 12 multipliers."""
    side, ofm_depth, ifm_depth = sizes
    map_side = (side - 1) * stride + kernel
    one = ("kernel", "stride", "dilation", "ifm", "ofm")
    values = dict(zip(one, (kernel, stride, 1, map_side, side), strict=True))
    instruction = (Depthwise if by_channel else Convolve)(
        **{f"{name}_{axis}": values[name] for name in one for axis in ("height", "width")},
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
    )
    scratchpad = np.random.default_rng(sizes).integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    parameters = np.full(ofm_depth, 70, "<i4").tobytes() + b"\0\0\0\x40" + b"\xf6"
    scratchpad[40960 : 40960 + len(parameters)] = np.frombuffer(parameters, np.uint8)
    hardware = wide(Streams(units=2, multipliers=12, units_per_layer=units, kernels=4))
    return Case(instruction, hardware, scratchpad)


BY_HAND = [
    ("one window of 9", (5, 6, 1), 3, 1, False, 1, 25 * 6),
    ("a second channel", (5, 6, 2), 3, 1, False, 1, 25 * 6 * 2),
    ("a second unit", (5, 6, 2), 3, 1, False, 2, 25 * 6),
    ("12 and 13 points", (5, 6, 13), 1, 1, False, 1, 25 * 6 * 2),
    ("3 windows of 4", (5, 6, 3), 2, 1, False, 1, 25 * 6),
    ("a window of 16 in two pieces", (5, 6, 2), 4, 1, False, 1, 25 * 6 * 2 * 2),
    ("stride 2", (5, 6, 1), 3, 2, False, 1, 25 * 6),
    ("depthwise", (5, 3, 3), 3, 1, True, 1, 7 * 7 * 3),
    ("depthwise, two units", (5, 3, 3), 3, 1, True, 2, 7 * 7 * 2),
    ("depthwise, stride 2", (5, 3, 3), 3, 2, True, 1, 11 * 11 * 3),
    ("depthwise, stride 3 of 2", (5, 3, 3), 2, 3, True, 1, 10 * 10 * 3),
]


@pytest.mark.parametrize(
    ("what", "sizes", "kernel", "stride", "by_channel", "units", "cycles"),
    BY_HAND,
    ids=[case[0] for case in BY_HAND],
)
def test_cycles_by_hand(
    what: str,
    sizes: tuple[int, int, int],
    kernel: int,
    stride: int,
    by_channel: bool,
    units: int,
    cycles: int,
) -> None:
    case = hand_written(sizes, kernel, stride, by_channel, units)
    run = referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad)
    assert run.cycles == cycles, what
    assert differences(case, SHAPES[0]) == {}


def test_one_multiplier_is_noticed() -> None:
    """The comparison is able to fail: with 11 multipliers 12 channels take two passes."""
    case = hand_written((5, 6, 12), 1)
    run = referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad)
    other = change(case.hardware, {"mac_array.stream.multipliers": 11})
    assert case.instruction.cost(Context(other)).cycles == 2 * run.cycles
