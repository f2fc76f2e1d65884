"""The vector unit: small vectors written out, and exact occupancy on both sides of each gate."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
import pytest

from npusim.isa.arithmetic.integer import softmax_scaling
from npusim.isa.hardware.file import change
from npusim.isa.instructions.elementwise import NAMES, SCALES, Binary
from npusim.isa.instructions.grid import Select
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.lanes import FORMAT_NAMES
from npusim.isa.instructions.reduction import FUNCTIONS as REDUCTIONS
from npusim.isa.instructions.reduction import Reduce
from npusim.isa.instructions.rows import Softmax
from npusim.isa.instructions.vector import TYPES, Convert, Lookup
from npusim.isa.instructions.windows import Pool

from .samples import codes, read, run, tiny_hardware

A, B, OUT = 0, 256, 1024
INT8 = {"low": -128, "high": 127, "signed": 1}
CLAMP = {"low": -128, "high": 127}
UINT8 = {"low": 0, "high": 255, "signed": 0}
ONE = {"multiplier": 1 << 30, "shift": 1}
"""The scale 1: 2^30 * 2^(1 - 31)."""
FUNCTION = {name: number for number, name in enumerate(NAMES)}
IN_FLOAT32 = FORMAT_NAMES.index("as_float32")


def scaled(prefix: str, halvings: int = 0) -> dict[str, int]:
    """The rescale `prefix` by 2^-halvings."""
    return {f"{prefix}_multiplier": 1 << 30, f"{prefix}_shift": 1 - halvings}


def binary(name: str, a: list[int], b: list[int], **fields: Any) -> list[int]:
    """One row of a binary function, all scales 1 unless `fields` say otherwise."""
    defaults = INT8 | scaled("a") | scaled("b") | scaled("output")
    instruction = Binary(
        **{
            "function": FUNCTION[name], "a": A, "b": B, "output": OUT, "rows": 1, "columns": len(a),
            "a_column_stride": 1, "b_column_stride": 1, **defaults, **fields,
        }
    )  # fmt: skip
    dtype = "int8" if instruction.signed else "uint8"
    memory = run(instruction, {A: codes(*a, dtype=dtype), B: codes(*b, dtype=dtype)})
    (row,) = read(memory, OUT, 1, len(a), dtype=dtype)
    return list(row)


def test_add() -> None:
    assert binary("add", [1, -5, 100, -100], [2, 7, 100, -100]) == [3, 2, 127, -128]
    # (1 - 3) + (2 - -1) - 4 = -3
    assert binary("add", [1], [2], a_zero=3, b_zero=-1, output_zero=-4) == [-3]
    assert binary("add", [200], [56], **UINT8, a_zero=128, b_zero=128, output_zero=128) == [72 - 72 + 128]


def test_add_with_different_scales() -> None:
    """With 4 fractional bits: 3 * 16 / 2 + 5 * 16 / 4 = 44; / 16 = 2.75, rounded 3."""
    fields = {"left_shift": 4, **scaled("a", 1), **scaled("b", 2), **scaled("output", 4)}
    assert binary("add", [3], [5], **fields) == [3]
    assert binary("sub", [3], [5], **fields) == [0]  # 24 - 20 = 4; / 16 = 0.25
    assert binary("sub", [5], [3], **fields) == [2]  # 40 - 12 = 28; / 16 = 1.75


def test_sub() -> None:
    assert binary("sub", [1, -5, 100, -100], [2, 7, -100, 100]) == [-1, -12, 127, -128]


def test_mul() -> None:
    assert binary("mul", [3, -5, 100], [4, 7, 100]) == [12, -35, 127]
    # (3 - 1) * (4 - -2) = 12; / 8 = 1.5, away from zero 2; plus 5
    assert binary("mul", [3, -1], [4, 4], a_zero=1, b_zero=-2, output_zero=5, **scaled("output", 3)) == [7, 3]


def test_max_and_min() -> None:
    assert binary("max", [1, -5, 100], [2, -7, 50]) == [2, -5, 100]
    assert binary("min", [1, -5, 100], [2, -7, 50]) == [1, -7, 50]
    assert binary("max", [200, 3], [100, 2], **UINT8) == [200, 3]
    assert binary("max", [1, -5, 100], [2, -7, 50], low=0, high=6) == [2, 0, 6]


def test_extremes_of_rescaled_codes() -> None:
    """a halved, b quartered: 3 and 2.5 (away from zero 3), -4 and -1, 100 and 25; plus 1."""
    fields = {"left_shift": 0, "output_zero": 1, **scaled("a", 1), **scaled("b", 2)}
    assert binary("rescaled_max", [6, -8, 100], [10, -4, 100], **fields) == [4, 0, 51]
    assert binary("rescaled_min", [6, -8, 100], [10, -4, 100], **fields) == [4, -3, 26]


def test_squared_difference() -> None:
    # (3 - 7)^2 = 16, (-5 - 5)^2 = 100; / 4, plus 2
    fields = {"left_shift": 0, "output_zero": 2, **scaled("a"), **scaled("b"), **scaled("output", 2)}
    assert binary("squared_difference", [3, -5], [7, 5], **fields) == [6, 27]


def test_prelu() -> None:
    # from 2 on halved; below it the product with (alpha - 1), quartered: (-3) * 2 / 4 = -1.5, away from zero -2
    fields = {"a_zero": 2, "b_zero": 1, **scaled("a", 1), **scaled("output", 2)}
    assert binary("prelu", [2, 8, -1, -1], [3, 3, 3, -127], **fields) == [0, 3, -2, 96]


def test_div() -> None:
    # (100 - 0) / (b - 1), times 1: 100 / 4, 100 / -4, 0 for a divisor of zero
    fields = {"b_zero": 1, **scaled("output")}
    assert binary("div", [100, 100, 100], [5, -3, 1], **fields) == [25, -25, 0]


def compare(relation: str, scale: str, a: list[int], b: list[int], **fields: int) -> list[int]:
    """The truths that a comparison of two rows gives."""
    instruction = Binary(
        function=FUNCTION[relation], scale=SCALES.index(scale), a=A, b=B, output=OUT, rows=1, columns=len(a),
        a_column_stride=1, b_column_stride=1, **fields,
    )  # fmt: skip
    dtype = "int8" if fields.get("signed") else "uint8"
    memory = run(instruction, {A: codes(*a, dtype=dtype), B: codes(*b, dtype=dtype)})
    return list(read(memory, OUT, 1, len(a), dtype="uint8")[0])


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("equal", [0, 1, 0]), ("not_equal", [1, 0, 1]), ("greater", [0, 0, 1]), ("greater_equal", [0, 1, 1]),
        ("less", [1, 0, 0]), ("less_equal", [1, 1, 0]),
    ],
)  # fmt: skip
def test_comparisons_of_codes(relation: str, expected: list[int]) -> None:
    assert compare(relation, "codes", [-5, 3, 7], [2, 3, -7], signed=1) == expected
    assert compare(relation, "codes", [1, 200, 255], [2, 200, 0]) == expected


def test_comparisons_round_what_they_compare_or_do_not() -> None:
    # a / 8 and b / 8 with a fractional bit: 3 and 4 are both 1, to the nearest quarter, 2 is a half, away from zero 1
    rounded = {"left_shift": 1, **scaled("a", 3), **scaled("b", 3)}
    assert compare("equal", "rounded", [3, 2, 1], [4, 4, 4], **rounded) == [1, 1, 0]
    # 3 * (a - 1) and 2 * (b - 0) << 1
    exact = {"a_zero": 1, "a_multiplier": 3, "b_multiplier": 2, "b_shift": 1}
    assert compare("equal", "exact", [5, 5, 1], [3, 4, 0], **exact) == [1, 0, 1]
    assert compare("greater", "exact", [5, 5, 255], [3, 2, 190], **exact) == [0, 1, 1]


def test_exact_products_have_room() -> None:
    exact = Binary(
        function=FUNCTION["equal"],
        rows=1,
        columns=1,
        scale=SCALES.index("exact"),
        a_multiplier=1 << 24,
        b_shift=16,
    )
    assert exact.faults() == []
    assert replace(exact, a_multiplier=1 << 25, b_shift=-1).faults() == [
        "exact a_multiplier 33554432, a_shift 0 may be 0..2**24, 0..16",
        "exact b_multiplier 0, b_shift -1 may be 0..2**24, 0..16",
    ]


def select(condition: list[int], a: list[int], b: list[int], **fields: int) -> list[int]:
    """The codes that a choice between two rows gives."""
    instruction = Select(
        condition=OUT + 64, a=A, b=B, output=OUT, rows=1, columns=len(a), condition_column_stride=1,
        a_column_stride=1, b_column_stride=1, **fields,
    )  # fmt: skip
    truths = bytes(condition)
    memory = run(instruction, {A: codes(*a), B: codes(*b), OUT + 64: truths})
    return list(read(memory, OUT, 1, len(a))[0])


def test_choices() -> None:
    assert select([1, 0, 255], [1, 2, 3], [-4, -5, -6]) == [1, -5, 3]
    rescaled = {
        "function": 1, "a_zero": 1, "b_zero": -1, "output_zero": 10, "signed": 1, "low": -128, "high": 127,
        **scaled("a", 1), **scaled("b", 0),
    }  # fmt: skip
    # (1 - 1) / 2, -5 + 1, (3 - 1) / 2; plus 10
    assert select([1, 0, 255], [1, 2, 3], [-4, -5, -6], **rescaled) == [10, 6, 11]


def test_a_truth_per_row_chooses_whole_elements() -> None:
    """Elements of 2 bytes are 2 columns."""
    instruction = Select(
        condition=OUT + 64, a=A, b=B, output=OUT, rows=2, columns=2, condition_row_stride=1, a_row_stride=2,
        b_row_stride=2, a_column_stride=1, b_column_stride=1,
    )  # fmt: skip
    memory = run(instruction, {A: codes(1, 2, 3, 4), B: codes(5, 6, 7, 8), OUT + 64: bytes([0, 1])})
    assert read(memory, OUT, 2, 2) == [[5, 6], [3, 4]]


def test_look_ups_in_wide_entries() -> None:
    instruction = Lookup(input=A, output=B, size=2, table=1024, entry=1)
    table = np.arange(256, dtype=np.int16) * 300
    memory = run(instruction, {A: bytes([3, 200]), 1024: table.tobytes()})
    found = np.array(read(memory, B, 4, dtype="uint8"), np.uint8).view(np.int16)
    assert found.tolist() == [900, (200 * 300 + 32768) % 65536 - 32768]


@pytest.mark.parametrize(
    ("strides", "expected"),
    [
        # b is 10, 20, 30, 40, ...
        ({"b_row_stride": 3, "b_column_stride": 1}, [[11, 22, 33], [44, 55, 66]]),
        ({"b_row_stride": 0, "b_column_stride": 1}, [[11, 22, 33], [14, 25, 36]]),  # one row
        ({"b_row_stride": 1, "b_column_stride": 0}, [[11, 12, 13], [24, 25, 26]]),  # one column
        ({"b_row_stride": 0, "b_column_stride": 0}, [[11, 12, 13], [14, 15, 16]]),  # one value
        ({"b_row_stride": 4, "b_column_stride": 1}, [[11, 22, 33], [54, 65, 76]]),  # part of longer rows
    ],
)
def test_operands_that_repeat(strides: dict[str, int], expected: list[list[int]]) -> None:
    fields = INT8 | scaled("a") | scaled("b") | scaled("output")
    instruction = Binary(
        a=A, b=B, output=OUT, rows=2, columns=3, a_row_stride=3, a_column_stride=1, **fields, **strides
    )
    memory = run(instruction, {A: codes(1, 2, 3, 4, 5, 6), B: codes(10, 20, 30, 40, 50, 60, 70, 80)})
    assert read(memory, OUT, 2, 3) == expected


def pool(
    maximum: int, size: tuple[int, int], kernel: tuple[int, int], values: list[int], **fields: Any
) -> Any:
    """A pool of stride 1 over one channel without padding, as [row][column]."""
    given = INT8 | fields
    pads = (given.get("pad_top", 0), given.get("pad_left", 0))
    out = [n + 2 * pad - k + 1 for n, pad, k in zip(size, pads, kernel, strict=True)]
    instruction = Pool(
        **{
            "function": maximum, "ifm": A, "ofm": OUT, "depth": 1, "ifm_height": size[0], "ifm_width": size[1],
            "ifm_row_stride": size[1], "ofm_height": out[0], "ofm_width": out[1], "ofm_row_stride": out[1],
            "kernel_height": kernel[0], "kernel_width": kernel[1], "stride_height": 1, "stride_width": 1, **given,
        }
    )  # fmt: skip
    dtype = "int8" if instruction.signed else "uint8"
    memory = run(instruction, {A: codes(*values, dtype=dtype)})
    shape = (instruction.ofm_height, instruction.ofm_width)
    return read(memory, OUT, *shape, dtype=dtype)


def test_average_pools_round_half_away_from_zero() -> None:
    assert pool(0, (1, 4), (1, 2), [1, 2, -1, -2]) == [[2, 1, -2]]  # 1.5, 0.5, -1.5
    assert pool(0, (2, 2), (2, 2), [1, 2, 3, 5]) == [[3]]  # 11 / 4 = 2.75
    assert pool(0, (1, 2), (1, 2), [250, 255], **UINT8) == [[253]]  # 252.5
    assert pool(0, (1, 4), (1, 2), [1, 2, -1, -2], low=0, high=1) == [[1, 1, 0]]


def test_padding_does_not_count() -> None:
    """3 x 3 windows over 1 2 / 3 4: each sees all four (2.5); over 5 9 with padding of one row: 1 x 2 values."""
    assert pool(0, (2, 2), (3, 3), [1, 2, 3, 4], pad_top=1, pad_left=1) == [[3, 3], [3, 3]]
    assert pool(0, (1, 2), (3, 1), [5, 9], pad_top=1) == [[5, 9]]
    assert pool(0, (1, 3), (1, 3), [10, 20, 60], pad_left=1) == [[15, 30, 40]]
    assert pool(1, (1, 3), (1, 3), [-10, -20, -60], pad_left=1) == [[-10, -10, -20]]


def test_maximum_pools() -> None:
    assert pool(1, (2, 3), (2, 2), [1, 5, -3, -8, 2, 4]) == [[5, 5]]
    assert pool(1, (2, 3), (2, 2), [1, 5, 200, 8, 2, 4], **UINT8) == [[8, 200]]
    assert pool(1, (2, 3), (2, 2), [1, 5, -3, -8, 2, 4], high=3) == [[3, 3]]


def test_strided_pools_of_several_channels() -> None:
    """Two channels, windows of two columns, three apart: columns 0, 1 and 3, 4."""
    values = [1, 10, 3, 30, 99, 99, 5, 50, 7, 70]
    fields = {
        "ifm_width": 5,
        "depth": 2,
        "ifm_row_stride": 10,
        "ofm_width": 2,
        "ofm_row_stride": 4,
        "stride_width": 3,
    }
    instruction = Pool(ifm=A, ofm=OUT, ifm_height=1, ofm_height=1, kernel_height=1, kernel_width=2, stride_height=1,
                       **INT8, **fields)  # fmt: skip
    assert read(run(instruction, {A: codes(*values)}), OUT, 2, 2) == [[2, 20], [6, 60]]


def mean(**fields: int) -> Reduce:
    """A sum over the middle of [outer, count, inner] times 1/4."""
    places: dict[str, int] = {
        "input": A,
        "output": OUT,
        "parts": 1,
        "middle": 1,
        "multiplier": 1 << 30,
        "shift": -1,
    }
    return Reduce(function=REDUCTIONS.index("sum"), **places, **INT8, **fields)


def test_mean() -> None:
    """[2, 3, 2]: sums over the middle, less 3 zero points of 1, times 1/4 (2^-2), plus 10."""
    values = [1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6]
    instruction = mean(outer=2, count=3, inner=2, input_zero=1, output_zero=10)
    # The rescale halves twice, halves first up, then away from zero: 9 - 3 = 6 -> 3 -> 2; 12 - 3 = 9 -> 5 -> 3;
    # -9 - 3 = -12 -> -6 -> -3; -12 - 3 = -15 -> -7 -> -4.
    assert read(run(instruction, {A: codes(*values)}), OUT, 2, 2) == [[12, 13], [7, 6]]


def test_mean_rounds_in_two_steps() -> None:
    """5 * 2^30 / 2^31 = 2.5 -> 3, then 3 / 2 = 1.5 -> 2, where one step would give 1.25 -> 1."""
    instruction = mean(outer=1, count=1, inner=1)
    assert read(run(instruction, {A: codes(5)}), OUT, 1) == [2]


@pytest.mark.parametrize(
    ("fields", "source", "target", "given", "expected"),
    [
        (CLAMP | ONE, "int8", "int8", [-128, -1, 0, 127], [-128, -1, 0, 127]),
        ({"low": 0, "high": 255, "output_zero": 128} | ONE, "int8", "uint8", [-128, 0, 127], [0, 128, 255]),
        (CLAMP | ONE | {"input_zero": 128}, "uint8", "int8", [0, 128, 255], [-128, 0, 127]),
        # (code + 3) / 2, halves away from zero, less 5, clamped
        (
            {"low": -6, "high": 0, "multiplier": 1 << 30, "shift": 0, "input_zero": -3,
             "output_zero": -5},
            "int8", "int8", [-8, -4, -2, 0, 2, 100], [-6, -5, -4, -3, -2, 0],
        ),
    ],
)  # fmt: skip
def test_rescale(
    fields: dict[str, int], source: str, target: str, given: list[int], expected: list[int]
) -> None:
    types = {"source": TYPES.index(source), "target": TYPES.index(target)}
    instruction = Convert(input=A, output=OUT, size=len(given), **types, **fields)
    memory = run(instruction, {A: codes(*given, dtype=source)})
    assert read(memory, OUT, len(given), dtype=target) == expected


def test_rescale_ties() -> None:
    """Halving in one step: halves go up, -0.5 to 0 and 0.5 to 1 (the high product rounds half up)."""
    fields = CLAMP | {"source": 1, "target": 1, "multiplier": 1 << 30, "shift": 0}
    memory = run(Convert(input=A, output=OUT, size=4, **fields), {A: codes(-3, -1, 1, 3)})
    assert read(memory, OUT, 4) == [-1, 0, 1, 2]


def test_lookup() -> None:
    table = bytes((7 * code + 1) % 256 for code in range(256))
    memory = run(Lookup(input=A, output=OUT, size=4, table=B), {A: bytes([0, 1, 255, 128]), B: table})
    assert read(memory, OUT, 4, dtype="uint8") == [1, 8, (7 * 255 + 1) % 256, (7 * 128 + 1) % 256]


def softmax(values: list[list[int]], scale: float, dtype: str = "int8") -> Any:
    multiplier, left_shift, difference_min = softmax_scaling(scale, 1.0)
    instruction = Softmax(
        input=A, output=OUT, rows=len(values), depth=len(values[0]), multiplier=multiplier, left_shift=left_shift,
        difference_min=difference_min, signed=int(dtype == "int8"),
    )  # fmt: skip
    memory = run(instruction, {A: codes(*np.ravel(values).tolist(), dtype=dtype)})
    return read(memory, OUT, *np.shape(values), dtype=dtype)


def test_softmax_of_equal_codes() -> None:
    """Shares of 1/256: a half is 128 above the lowest code, a quarter 64, the whole is clamped to 255."""
    assert softmax([[5, 5], [-128, -128]], 0.1) == [[0, 0], [0, 0]]
    assert softmax([[9, 9, 9, 9]], 0.1, "uint8") == [[64, 64, 64, 64]]
    assert softmax([[3]], 0.1) == [[127]]
    assert softmax([[100, -100]], 1.0) == [[127, -128]]  # e^-200 is below the smallest difference


def test_softmax_is_close_to_the_real_one() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-128, 128, (20, 10)).tolist()
    for row, shares in zip(values, softmax(values, 0.05), strict=True):
        real = [exp(0.05 * code) for code in row]
        for share, value in zip(shares, real, strict=True):
            assert share + 128 == pytest.approx(min(256 * value / sum(real), 255), abs=0.51)


# Occupancy: 4 lanes, 10 cycles of start-up, every function with a number of cycles of its own.

CHIP = change(
    tiny_hardware(),
    {
        "vector.lanes": 4, "vector.startup_cycles": 10, "vector.add_cycles": 3, "vector.mul_cycles": 5,
        "vector.max_cycles": 2, "vector.requantise_cycles": 7, "vector.pool_cycles": 4, "vector.reduce_cycles": 6,
        "vector.divide_cycles": 9, "vector.lut_cycles": 8, "vector.exp_cycles": 11,
        "vector.literal_cycles": 12, "vector.literal_divide_cycles": 13, "vector.fused_cycles": 14,
        "vector.dequantise_cycles": 15, "vector.quantise_cycles": 16,
    },
)  # fmt: skip
R, W = "scratchpad_read_byte", "scratchpad_write_byte"
POOL = Pool(ofm_height=2, ofm_width=3, depth=4, kernel_height=2, kernel_width=2)
PER_ROW = 2 + (11 + 6) + (11 + 7)
"""Softmax: the maximum; exponential and add; exponential and rescale."""


@pytest.mark.parametrize(
    ("instruction", "cycles", "actions"),
    [
        (Binary(function=FUNCTION["add"], rows=2, columns=4), 10 + 2 * 3, {"vector_add_q8": 8, R: 16, W: 8}),
        (Binary(function=FUNCTION["sub"], rows=3, columns=3), 10 + 3 * 3, {"vector_add_q8": 9, R: 18, W: 9}),
        (Binary(function=FUNCTION["mul"], rows=1, columns=4), 10 + 5, {"vector_mul_q8": 4, R: 8, W: 4}),
        (Binary(function=FUNCTION["mul"], rows=1, columns=5), 10 + 2 * 5, {"vector_mul_q8": 5, R: 10, W: 5}),
        (
            Binary(function=FUNCTION["rescaled_min"], rows=1, columns=4),
            10 + 3,
            {"vector_add_q8": 4, R: 8, W: 4},
        ),
        (Binary(function=FUNCTION["prelu"], rows=1, columns=4), 10 + 5, {"vector_mul_q8": 4, R: 8, W: 4}),
        (Binary(function=FUNCTION["equal"], rows=1, columns=5), 10 + 2 * 2, {"vector_max": 5, R: 10, W: 5}),
        (
            Binary(function=FUNCTION["equal"], scale=1, rows=1, columns=5),
            10 + 2 * 3,
            {"vector_add_q8": 5, R: 10, W: 5},
        ),
        (Select(rows=1, columns=5), 10 + 2 * 2, {"vector_max": 5, R: 15, W: 5}),
        (Binary(function=FUNCTION["max"], rows=1, columns=1), 10 + 2, {"vector_max": 1, R: 2, W: 1}),
        (Binary(function=FUNCTION["min"], rows=1, columns=1), 10 + 2, {"vector_max": 1, R: 2, W: 1}),
        (
            Binary(format=IN_FLOAT32, function=FUNCTION["mul"], rows=1, columns=5),
            10 + 2 * 12,
            {"vector_literal_mul": 5, R: 10, W: 5},
        ),
        (
            Binary(format=IN_FLOAT32, function=FUNCTION["div"], rows=1, columns=4),
            10 + 13,
            {"vector_literal_divide": 4, R: 8, W: 4},
        ),
        (
            Binary(format=IN_FLOAT32, function=FUNCTION["fused_add"], rows=1, columns=5),
            10 + 2 * 14,
            {"vector_fused": 5, R: 10, W: 5},
        ),
        # 2 x 3 pixels of two groups of 4 channels: 4 elements of 15 cycles, and the end
        (
            Pool(format=IN_FLOAT32, ofm_height=2, ofm_width=3, depth=5, kernel_height=2, kernel_width=2),
            10 + 6 * 2 * (4 * 15 + 16),
            {"vector_dequantise": 120, "vector_quantise": 30, R: 120, W: 30},
        ),
        # 10 results in groups of 4, 3 elements each
        (
            Reduce(
                format=IN_FLOAT32,
                function=REDUCTIONS.index("mean"),
                outer=2,
                parts=1,
                middle=1,
                count=3,
                inner=5,
            ),
            10 + 3 * (3 * 15 + 16),
            {"vector_dequantise": 30, "vector_quantise": 10, R: 30, W: 10},
        ),
        (
            Reduce(
                format=IN_FLOAT32,
                function=REDUCTIONS.index("fused_mean"),
                outer=2,
                parts=1,
                middle=1,
                count=3,
                inner=5,
            ),
            10 + 3 * (3 * 6 + 14),
            {"vector_add_i32": 30, "vector_fused": 10, R: 30, W: 10},
        ),
        # per row of 5 two groups: compare 2, to float32 twice, exponentials of twice the bits twice, the quotient
        (
            Softmax(format=IN_FLOAT32, rows=2, depth=5),
            10 + 2 * 2 * (2 + 2 * 15 + 4 * 11 + 16),
            {
                "vector_max": 10,
                "vector_dequantise": 20,
                "vector_exp": 40,
                "vector_quantise": 10,
                R: 30,
                W: 10,
            },
        ),
        # a table of 1024 bytes; two look-ups of 4 bytes
        (
            Softmax(format=IN_FLOAT32, fused=1, rows=2, depth=5),
            10 + 1024 // 4 + 2 * 2 * (2 + 8 * 8 + 14 + 16),
            {
                "vector_max": 10,
                "vector_lut": 80,
                "vector_fused": 10,
                "vector_quantise": 10,
                R: 30 + 1024,
                W: 10,
            },
        ),
        # 2 x 3 pixels of one group of 4 channels: 4 steps of 4 cycles, for averages one division of 9
        (replace(POOL, function=1), 10 + 6 * 4 * 4, {"vector_pool_step": 96, R: 96, W: 24}),
        (POOL, 10 + 6 * (4 * 4 + 9), {"vector_pool_step": 96, "vector_divide": 24, R: 96, W: 24}),
        (
            replace(POOL, depth=5),
            10 + 6 * 2 * (4 * 4 + 9),
            {"vector_pool_step": 120, "vector_divide": 30, R: 120, W: 30},
        ),
        # per 4 results: count adds of 6 and one rescale of 7
        (
            mean(outer=2, count=3, inner=4),
            10 + 2 * (3 * 6 + 7),
            {"vector_add_i32": 24, "requantise": 8, R: 24, W: 8},
        ),
        (
            mean(outer=2, count=3, inner=5),
            10 + 3 * (3 * 6 + 7),  # 10 results in groups of 4
            {"vector_add_i32": 30, "requantise": 10, R: 30, W: 10},
        ),
        (Convert(size=8), 10 + 2 * 7, {"requantise": 8, R: 8, W: 8}),
        (Convert(size=9), 10 + 3 * 7, {"requantise": 9, R: 9, W: 9}),
        # the table of 256 bytes at 4 per cycle, then the look-ups
        (Lookup(size=8), 10 + 64 + 2 * 8, {"vector_lut": 8, R: 8 + 256, W: 8}),
        (Lookup(size=9), 10 + 64 + 3 * 8, {"vector_lut": 9, R: 9 + 256, W: 9}),
        # per row three passes and a reciprocal of 11
        (
            Softmax(rows=2, depth=8),
            10 + 2 * (2 * PER_ROW + 11),
            {"vector_max": 16, "vector_exp": 34, "vector_add_i32": 16, "requantise": 16, R: 48, W: 16},
        ),
        (
            Softmax(rows=1, depth=9),
            10 + 3 * PER_ROW + 11,
            {"vector_max": 9, "vector_exp": 19, "vector_add_i32": 9, "requantise": 9, R: 27, W: 9},
        ),
    ],
)
def test_occupancy(instruction: Instruction, cycles: int, actions: dict[str, int]) -> None:
    assert instruction.cost(Context(CHIP)) == Cost(cycles, actions)
