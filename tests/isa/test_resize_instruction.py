"""vec.resize: what it computes, how long it takes, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.instruction import Context, Cost
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.resize import Resize

OUT = 64
ONE = 1 << 24


def run(instruction: Resize, image: Any) -> list[int]:
    scratchpad = np.zeros(256, np.uint8)
    codes = np.array(image, np.int64).astype(np.uint8).ravel()
    scratchpad[: len(codes)] = codes
    commit(instruction.execute(Memory({Space.SCRATCHPAD: scratchpad})))
    count = instruction.ofm_height * instruction.ofm_width * instruction.depth
    found: list[int] = scratchpad[OUT : OUT + count].view("int8" if instruction.signed else "uint8").tolist()
    return found


def row(bilinear: int, width: int, count: int, scale: int, offset: int, depth: int = 1) -> Resize:
    return Resize(
        bilinear=bilinear,
        output=OUT,
        ifm_height=1,
        ifm_width=width,
        depth=depth,
        ofm_height=1,
        ofm_width=count,
        column_scale=scale,
        column_offset=offset,
        signed=1,
    )


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, [1, 1, 2, 2]),  # 0, 0.5, 1, 1.5
        (ONE // 2, [1, 2, 2, 2]),  # 0.5, 1, 1.5, 2: the last pixel
        (-ONE, [1, 1, 1, 1]),  # -1, -0.5, 0, 0.5: the first
    ],
)
def test_the_pixel_before_a_position(offset: int, expected: list[int]) -> None:
    assert run(row(0, 2, 4, ONE // 2, offset), [1, 2]) == expected


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, [0, 50, 100, 100]),
        (-ONE // 4, [0, 25, 75, 100]),  # -0.25, 0.25, 0.75, 1.25
    ],
)
def test_between_two_pixels(offset: int, expected: list[int]) -> None:
    assert run(row(1, 2, 4, ONE // 2, offset), [0, 100]) == expected


def test_halves_go_away_from_zero() -> None:
    assert run(row(1, 2, 2, ONE // 2, 0), [0, 3]) == [0, 2]
    assert run(row(1, 2, 2, ONE // 2, 0), [0, -3]) == [0, -2]


def test_between_four_pixels_of_two_channels() -> None:
    """A quarter of the way down, half of the way right: (3 (a + b) + c + d) / 8."""
    instruction = Resize(
        bilinear=1, output=OUT, ifm_height=2, ifm_width=2, depth=2, ofm_height=1, ofm_width=1,
        row_offset=ONE // 4, column_offset=ONE // 2, signed=0,
    )  # fmt: skip
    assert run(instruction, [[8, 200], [16, 100], [24, 0], [0, 0]]) == [12, 113]  # 96 / 8, 900 / 8 = 112.5


CHIP = change(
    hardware("edge-128"),
    {"vector.lanes": 4, "vector.startup_cycles": 10, "vector.mul_cycles": 5, "vector.lut_cycles": 8},
)
R, W = "scratchpad_read_byte", "scratchpad_write_byte"


@pytest.mark.parametrize(
    ("instruction", "cycles", "actions"),
    [
        # 9 x 3 elements are 7 groups of 4 lanes, across pixels
        (row(0, 2, 9, ONE, 0, depth=3), 10 + 7 * 8, {"vector_lut": 27, R: 27, W: 27}),
        (row(1, 2, 9, ONE, 0, depth=3), 10 + 7 * 4 * 5, {"vector_mul_q8": 108, R: 108, W: 27}),
    ],
)
def test_occupancy(instruction: Resize, cycles: int, actions: dict[str, int]) -> None:
    assert instruction.cost(Context(CHIP)) == Cost(cycles, actions)


def test_faults() -> None:
    assert row(1, 2, 4, ONE, 0).faults() == []
    assert row(1, 0, 4, ONE, 0).faults() == ["ifm_width is 0; it may be 1 or more"]
