"""vec.reduce: what it computes, how long it takes, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.instruction import Context, Cost
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.reduction import FUNCTIONS, Reduce
from npusim.isa.instructions.region import Space

NUMBER = {name: number for number, name in enumerate(FUNCTIONS)}
OUT = 64


def reduce(name: str, **fields: int) -> Reduce:
    sizes = {"outer": 1, "parts": 1, "middle": 1, "count": 1, "inner": 1}
    clamp = {"low": -128, "high": 127, "signed": 1}
    return Reduce(function=NUMBER[name], output=OUT, **{**sizes, **clamp, **fields})


def run(instruction: Reduce, values: list[int], count: int, dtype: str = "int8") -> list[int]:
    scratchpad = np.zeros(256, np.uint8)
    scratchpad[: len(values)] = np.array(values, np.int64).astype(np.uint8)
    commit(instruction.execute(Memory({Space.SCRATCHPAD: scratchpad})))
    found: list[int] = scratchpad[OUT : OUT + count * np.dtype(dtype).itemsize].view(dtype).tolist()
    return found


def test_extremes_over_the_middle() -> None:
    """[2, 3, 2] over the 3."""
    values = [1, 20, 3, 4, 5, 6, -1, -2, -30, -4, -5, -6]
    assert run(reduce("max", outer=2, count=3, inner=2), values, 4) == [5, 20, -1, -2]
    assert run(reduce("min", outer=2, count=3, inner=2), values, 4) == [1, 4, -30, -6]


def test_unsigned_codes() -> None:
    unsigned = {"low": 0, "high": 255, "signed": 0}
    assert run(reduce("max", count=3, **unsigned), [1, 200, 3], 1, "uint8") == [200]


def test_two_places() -> None:
    """[2, 3, 2] over both 2: six results would be 3 sums of 4."""
    instruction = reduce("sum", parts=2, middle=3, count=2, multiplier=1 << 30, shift=1)
    assert run(instruction, [1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60], 3) == [33, 77, 121]


def test_a_sum_is_rescaled() -> None:
    """3 + 4 + 5 less 3 zero points of 2 is 6; 6 / 2 = 3, and 3 / 2 away from zero is 2; plus 10."""
    instruction = reduce("sum", count=3, input_zero=2, output_zero=10, multiplier=1 << 30, shift=-1)
    assert run(instruction, [3, 4, 5], 1) == [12]


@pytest.mark.parametrize(("wide", "dtype"), [(0, "int32"), (1, "int64")])
def test_positions_are_those_of_the_first_of_equals(wide: int, dtype: str) -> None:
    values = [1, 9, 9, 0, -3, -4, -4, -3]
    assert run(reduce("arg_max", outer=2, count=4, wide=wide), values, 2, dtype) == [1, 0]
    assert run(reduce("arg_min", outer=2, count=4, wide=wide), values, 2, dtype) == [3, 1]


def test_an_extreme_is_clamped() -> None:
    assert run(reduce("max", count=2, high=50), [100, 3], 1) == [50]


CHIP = change(
    hardware("edge-128"),
    {
        "vector.lanes": 4, "vector.startup_cycles": 10, "vector.max_cycles": 2, "vector.requantise_cycles": 7,
        "vector.reduce_cycles": 6,
    },
)  # fmt: skip
R, W = "scratchpad_read_byte", "scratchpad_write_byte"


@pytest.mark.parametrize(
    ("instruction", "cycles", "actions"),
    [
        # 2 x 4 results are 2 groups of 4 lanes; 3 compares of 2 each
        (reduce("max", outer=2, count=3, inner=4), 10 + 2 * 3 * 2, {"vector_max": 24, R: 24, W: 8}),
        # 9 results are 3 groups, and results of several outer indices share one
        (reduce("min", outer=9, count=3), 10 + 3 * 3 * 2, {"vector_max": 27, R: 27, W: 9}),
        # the same, and 3 cycles more for 4 bytes, 7 for 8
        (reduce("arg_max", outer=9, count=3), 10 + 3 * (3 * 2 + 3), {"vector_max": 27, R: 27, W: 36}),
        (reduce("arg_min", outer=9, count=3, wide=1), 10 + 3 * (3 * 2 + 7), {"vector_max": 27, R: 27, W: 72}),
        # 2 x 3 terms of 6 and a rescale of 7
        (
            reduce("sum", parts=2, middle=5, count=3),
            10 + 2 * (6 * 6 + 7),
            {"vector_add_i32": 30, "requantise": 5, R: 30, W: 5},
        ),
    ],
)
def test_occupancy(instruction: Reduce, cycles: int, actions: dict[str, int]) -> None:
    assert instruction.cost(Context(CHIP)) == Cost(cycles, actions)


def test_faults() -> None:
    good = reduce("sum", count=4)
    assert good.faults() == []
    assert replace(good, middle=0).faults() == ["middle is 0; it may be 1 or more"]
    assert replace(good, parts=1 << 20, count=4).faults() == [
        "4194304 terms may overflow the accumulator; may be less than 4194304"
    ]
    assert reduce("arg_max", parts=1 << 20, count=1 << 12).faults() == [
        "4294967296 elements have positions beyond 31 bits"
    ]
    assert replace(good, low=5, high=4).faults() == ["clamp 5..4 is not within -128..127"]
