"""Softmax of rows beside each other, its logarithm, and unit length: what they compute, and how long they take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.isa.arithmetic.integer import softmax_exponentials, softmax_scaling
from npusim.isa.arithmetic.rows import logarithm
from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.lanes import bits_of
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.normalize import FUNCTIONS, LONGEST_FUSED, Normalize
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.rows import Softmax, UnitLength
from npusim.isa.instructions.word import CODES
from tests.examples import examples

OUT = 512
SOFTMAX = {"multiplier": 1 << 30, "left_shift": 25, "difference_min": -62, "signed": 1}
LOGARITHM = {
    "function": 1,
    "signed": 1,
    "multiplier": 1 << 30,
    "left_shift": 23,
    "difference_min": -248,
    "back": 1 << 30,
    "back_shift": -22,
}
"""Of the input scale 1/16: a difference of 1 is 2^22 of 26 fraction bits."""


def run(instruction: Instruction, values: Any, dtype: str = "int8") -> Any:
    scratchpad = np.zeros(1024, np.uint8)
    given = np.array(values, dtype)
    scratchpad[: given.size] = given.view(np.uint8).ravel()
    commit(instruction.execute(Memory({Space.SCRATCHPAD: scratchpad})))
    return scratchpad[OUT : OUT + given.size].view(dtype).reshape(given.shape)


@pytest.mark.parametrize(
    ("row", "fields"),
    [(Softmax, SOFTMAX), (Softmax, LOGARITHM), (UnitLength, {"input_zero": 3, "signed": 1})],
    ids=["softmax", "log_softmax", "unit_length"],
)
def test_rows_beside_each_other_are_rows(row: Any, fields: dict[str, int]) -> None:
    values = np.random.default_rng(2).integers(-128, 128, (2, 7, 5)).astype(np.int8)
    beside = run(row(output=OUT, rows=2, depth=7, gap=4, **fields), values)
    behind = run(row(output=OUT, rows=10, depth=7, **fields), np.ascontiguousarray(values.swapaxes(1, 2)))
    assert np.array_equal(beside.swapaxes(1, 2), behind)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@given(seed=st.integers(0, 1 << 30), scale=st.floats(0.001, 2))
@settings(examples(40))
def test_softmax_by_a_table_is_softmax(dtype: str, seed: int, scale: float) -> None:
    numbers = softmax_scaling(scale, 1.0)
    values = np.random.default_rng(seed).integers(*CODES[dtype == "int8"], (3, 20)).astype(dtype)
    fields = dict(zip(("multiplier", "left_shift", "difference_min"), numbers, strict=True))
    row = Softmax(output=OUT, rows=3, depth=20, signed=int(dtype == "int8"), **fields)
    scratchpad = np.zeros(4096, np.uint8)
    scratchpad[2048 : 2048 + 1024] = softmax_exponentials(*numbers).astype("<i4").view(np.uint8)
    scratchpad[:60] = values.view(np.uint8).ravel()
    commit(replace(row, fused=1, table=2048).execute(Memory({Space.SCRATCHPAD: scratchpad})))
    assert np.array_equal(scratchpad[OUT : OUT + 60].view(dtype).reshape(3, 20), run(row, values, dtype))


def test_logarithms() -> None:
    x = np.unique(np.round(np.logspace(0, 12, 2000, base=2, endpoint=False) * (1 << 19)).astype(np.int64))
    assert np.abs(logarithm(x) / 2.0**26 - np.log(x / 2.0**19)).max() < 2e-6


def test_log_softmax() -> None:
    """Of two equal codes each has log(1/2) = -0.693, which is -11.09 sixteenths; what lies 16 below has -16."""
    assert run(Softmax(output=OUT, rows=1, depth=2, **LOGARITHM), [5, 5]).tolist() == [116, 116]
    assert run(Softmax(output=OUT, rows=1, depth=2, **LOGARITHM), [127, -128]).tolist() == [127, -128]


@pytest.mark.parametrize(("signed", "dtype", "middle"), [(1, "int8", 0), (0, "uint8", 128)])
def test_unit_length(signed: int, dtype: str, middle: int) -> None:
    """(3, 4) / 5 in 1/128, and nothing is nothing."""
    unit = UnitLength(output=OUT, rows=2, depth=2, input_zero=10, signed=signed)
    assert run(unit, [[13, 14], [10, 10]], dtype).tolist() == [
        [middle + 77, middle + 102],
        [middle, middle],
    ]


CHIP = change(
    hardware("edge-128"),
    {
        "vector.lanes": 4, "vector.startup_cycles": 10, "vector.mul_cycles": 5, "vector.max_cycles": 2,
        "vector.requantise_cycles": 7, "vector.reduce_cycles": 6, "vector.exp_cycles": 11, "vector.moment_cycles": 12,
        "vector.fused_cycles": 13, "vector.dequantise_cycles": 14, "vector.literal_cycles": 15,
        "vector.lut_cycles": 3,
    },
)  # fmt: skip
R, W = "scratchpad_read_byte", "scratchpad_write_byte"
PER_LINE = 2 + (11 + 6) + (11 + 7)


@pytest.mark.parametrize(
    ("instruction", "cycles", "actions"),
    [
        # 2 x 5 rows of 3: two groups of lanes across rows, and a reciprocal for each group
        (
            Softmax(rows=2, depth=3, gap=4),
            10 + 2 * 2 * (3 * PER_LINE + 11),
            {"vector_max": 30, "vector_exp": 70, "vector_add_i32": 30, "requantise": 30, R: 90, W: 30},
        ),
        # the table at 4 bytes a cycle; maximum; 4 look-ups and add; 4 look-ups and rescale; both
        # reciprocals together
        (
            Softmax(fused=1, rows=2, depth=9),
            10 + 1024 // 4 + 2 * 3 * (2 + 4 * 3 + 6 + 4 * 3 + 7) + 11,
            {
                "vector_max": 18,
                "vector_lut": 144,
                "vector_exp": 2,
                "vector_add_i32": 18,
                "requantise": 18,
                R: 54 + 1024,
                W: 18,
            },
        ),
        # maximum; exponential and add; difference; a logarithm per row
        (
            Softmax(function=1, signed=1, rows=2, depth=9),
            10 + 2 * (3 * (2 + 11 + 6 + 7) + 11),
            {"vector_max": 18, "vector_exp": 20, "vector_add_i32": 18, "requantise": 18, R: 54, W: 18},
        ),
        # square and add; rescale; an inverse root per row
        (
            UnitLength(rows=2, depth=9),
            10 + 2 * (3 * (5 + 6 + 7) + 11),
            {"vector_mul_q8": 18, "vector_add_i32": 18, "requantise": 18, "vector_exp": 2, R: 36, W: 18},
        ),
        (
            UnitLength(rows=2, depth=3, gap=4),
            10 + 2 * 2 * (3 * (5 + 6 + 7) + 11),
            {"vector_mul_q8": 30, "vector_add_i32": 30, "requantise": 30, "vector_exp": 10, R: 60, W: 30},
        ),
        # both sums; result; the roots of two rows in one group; factors and addends of 9 elements, 8 bytes each
        (
            Normalize(fused=1, rows=2, depth=9),
            10 + 2 * 3 * (12 + 13) + 11 + 3 * 8,
            {"vector_moments": 18, "vector_fused": 18, "vector_exp": 2, R: 36 + 72, W: 18},
        ),
        # sum; centred squares; result; 17 rows: 16 and one, with four groups of roots and one
        (
            Normalize(rows=17, depth=3),
            10 + 17 * (14 + (14 + 13) + 15) + 5 * 11 + 2 * 8,
            {
                "vector_dequantise": 102,
                "vector_fused": 51,
                "vector_literal_mul": 51,
                "vector_exp": 17,
                R: 3 * 51 + 2 * 24,
                W: 51,
            },
        ),
        # no sum
        (
            Normalize(function=FUNCTIONS.index("rms"), rows=1, depth=4),
            10 + (14 + 13) + 15 + 11 + 8,
            {
                "vector_dequantise": 4,
                "vector_fused": 4,
                "vector_literal_mul": 4,
                "vector_exp": 1,
                R: 8 + 32,
                W: 4,
            },
        ),
    ],
)
def test_occupancy(instruction: Instruction, cycles: int, actions: dict[str, int]) -> None:
    assert instruction.cost(Context(CHIP)) == Cost(cycles, actions)


def normalized(values: Any, parameters: Any, **fields: int) -> Any:
    """Return what a normalization of rows of int8 gives; the input's scale is 1/2, the output's 1/4."""
    given, table = np.array(values, np.int8), np.array(parameters, "<f4")
    scratchpad = np.zeros(1024, np.uint8)
    scratchpad[: given.size] = given.view(np.uint8).ravel()
    scratchpad[256 : 256 + 4 * table.size] = table.view(np.uint8).ravel()
    types = {"low": -128, "high": 127, "input_signed": 1, "signed": 1}
    scales = {"input_scale": bits_of(0.5), "output_scale": bits_of(0.25)}
    rows, depth = given.shape
    row = Normalize(output=OUT, rows=rows, depth=depth, table=256, **types, **scales, **fields)
    commit(row.execute(Memory({Space.SCRATCHPAD: scratchpad})))
    return scratchpad[OUT : OUT + given.size].view(np.int8).reshape(given.shape).tolist()


def test_normalizations() -> None:
    """(1, 3) less 1 is worth (0, 1): its mean is 1/2 and so is its deviation, (-1, 1); half of that, plus 1, in 1/4."""
    rms = FUNCTIONS.index("rms")
    half, fused_half = (
        [[0.5, 1.0]] * 2,
        [[2.0, 4.0]] * 2,
    )  # as the method "fused" has it, in steps of the output
    for method, table in ((0, half), (1, fused_half)):
        assert normalized([[1, 3]], table, input_zero=1, output_zero=3, fused=method) == [[3 + 2, 3 + 6]]
        # the root of the mean of (0, 1) squared is sqrt(1/2): (0, 1.414)
        assert normalized([[1, 3]], table, input_zero=1, fused=method, function=rms) == [[4, 4 + 3]]
        # rows that are all alike have no deviation; epsilon keeps it from 0 / 0
        epsilon = bits_of(1e-5)
        assert normalized([[9, 9], [1, 3]], table, epsilon=epsilon, fused=method) == [[4, 4], [2, 6]]
        assert normalized([[9, 9]], table, fused=method) == [[-128, -128]]


def test_faults() -> None:
    assert Softmax(rows=1).faults() == ["depth is 0; it may be 1 or more"]
    assert Softmax(rows=1, depth=1, function=1, signed=1, fused=1).faults() == [
        "fused is fused with log_softmax; it may be literal"
    ]
    assert Normalize(fused=1, rows=1, depth=LONGEST_FUSED + 1).faults() == [
        "depth is 65537 with fused; it may be at most 65536"
    ]
    assert Normalize(rows=1, depth=1, high=256).faults() == ["clamp 0..256 is not within 0..255"]
    assert UnitLength(rows=1, depth=33026).faults() == [
        "depth 33026 may overflow the accumulator; it may be less than 33026"
    ]
