"""Codes in float32: small vectors by hand, ties and ends of the range, and a multiply-add with one rounding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.arithmetic.float_codes import multiply_add, quantise
from npusim.isa.hardware.file import change
from npusim.isa.instructions.elementwise import NAMES, Binary
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.lanes import FORMAT_NAMES, bits_of
from npusim.isa.instructions.reduction import FUNCTIONS, Reduce
from npusim.isa.instructions.rows import Softmax
from npusim.isa.instructions.windows import Pool

from ..examples import examples
from .samples import codes, read, run, tiny_hardware

A, B, OUT = 0, 256, 1024

IN_FLOAT32 = FORMAT_NAMES.index("as_float32")


def pairs(
    name: str, a: list[int], b: list[int], scales: tuple[float, float, float], **fields: Any
) -> list[int]:
    """One row of a function of int8 codes, zero points 0 unless `fields` say otherwise."""
    given = zip(("a_multiplier", "b_multiplier", "output_multiplier"), map(bits_of, scales), strict=True)
    common = {"a_signed": 1, "b_signed": 1, "signed": 1, "low": -128, "high": 127, **dict(given), **fields}
    instruction = Binary(
        format=IN_FLOAT32, function=NAMES.index(name), a=A, b=B, output=OUT, rows=1, columns=len(a),
        a_column_stride=1, b_column_stride=1, **common,
    )  # fmt: skip
    [row] = read(run(instruction, {A: codes(*a), B: codes(*b)}), OUT, 1, len(a))
    return list(row)


def test_halves_go_to_even_and_the_zero_point_comes_behind() -> None:
    # (1 + 0) / 2 = 0.5, (3 + 0) / 2 = 1.5, -0.5, -1.5
    assert pairs("add", [1, 3, -1, -3], [0, 0, 0, 0], (1, 1, 2)) == [0, 2, 0, -2]
    assert pairs("add", [1, 3, -1, -3], [0, 0, 0, 0], (1, 1, 2), output_zero=1) == [1, 3, 1, -1]
    # fused: 0.5 * a + 0.5 * b + zero point before rounding: 1.5, 2.5, 0.5, -0.5
    assert pairs("fused_add", [1, 3, -1, -3], [0, 0, 0, 0], (0.5, 0.5, 1)) == [2, 2, 0, 0]


def test_functions() -> None:
    assert pairs("sub", [5, -128], [3, 127], (1, 2, 1)) == [-1, -128]
    assert pairs("mul", [5, -3], [3, 4], (0.5, 2, 0.25), output_zero=1) == [61, -47]
    assert pairs("max", [5, -3], [3, 4], (1, 2, 1)) == [6, 8]
    assert pairs("min", [5, -3], [3, 4], (1, 2, 1)) == [5, -3]
    assert pairs("prelu", [5, -3], [3, 4], (1, 2, 1)) == [5, -24]
    # (5 - 1) * (3 - 2) * 0.25 + 3 = 4; (-3 - 1) * (4 - 2) * 0.25 + 3 = 1
    assert pairs("fused_mul", [5, -3], [3, 4], (1, 1, 0.25), a_zero=1, b_zero=2, output_zero=3) == [4, 1]


def test_what_is_no_number_is_the_smallest_code_of_the_type() -> None:
    assert pairs("div", [0, 1, -1], [0, 0, 0], (1, 1, 1)) == [-128, 127, -128]
    assert pairs("div", [0, 1, -1], [0, 0, 0], (1, 1, 1), low=0, high=6) == [-128, 6, 0]


def test_types_may_differ() -> None:
    assert pairs("add", [-1, -1], [1, 2], (1, 1, 1), a_signed=0, b_signed=0, a_zero=255, signed=1) == [1, 2]


@pytest.mark.slow
@given(st.integers(0, (1 << 31) - 1), st.integers(-255, 255), st.integers(0, (1 << 31) - 1), st.booleans())
@examples(300)
def test_a_multiply_add_rounds_once(factor: int, code: int, addend: int, negative: bool) -> None:
    """Beside fractions: the nearest float32 of the exact sum, of two as near the one with an even significand."""
    x, z = (np.array([bits], np.uint32).view(np.float32)[0] for bits in (factor, addend))
    if not (np.isfinite(x) and np.isfinite(z)):
        return
    z = -z if negative else z
    exact = Fraction(float(x)) * code + Fraction(float(z))
    found = multiply_add(x, np.array([code], np.int16), np.array([z], np.float32))[0]
    if not np.isfinite(found) or abs(exact) >= Fraction(float(np.finfo(np.float32).max)):
        return
    error = abs(Fraction(float(found)) - exact)
    for other in (np.nextafter(found, np.float32(np.inf)), np.nextafter(found, np.float32(-np.inf))):
        if np.isfinite(other):
            apart = abs(Fraction(float(other)) - exact)
            assert error < apart or (error == apart and int(found.view(np.uint32)) % 2 == 0)


def test_ends_of_float32() -> None:
    reals = np.array([np.inf, -np.inf, np.nan, 3e38], np.float32)
    assert quantise(reals, np.float32(1e-30), 7, -128, 127, np.int8).tolist() == [127, -128, -128, 127]


def test_the_order_of_a_sum_in_float32_shows() -> None:
    """((12.7 + 10) - 12.7) - 10 leaves what float32 lost of the first sum; (12.7 - 12.7) + (10 - 10) is 0."""
    window = [127, 100, -127, -100]
    fields = {
        "ifm": A, "ofm": OUT, "ifm_row_stride": 2, "ifm_height": 2, "ifm_width": 2, "depth": 1, "ofm_row_stride": 1,
        "ofm_height": 1, "ofm_width": 1, "kernel_height": 2, "kernel_width": 2, "stride_height": 1, "stride_width": 1,
        "input_scale": bits_of(0.1), "output_scale": bits_of(1e-8), "input_signed": 1, "signed": 1, "low": -128,
        "high": 127,
    }  # fmt: skip
    tenth = np.float32(0.1)
    a, b, c, d = (np.float32(code) * tenth for code in window)
    found = {}
    for by_columns, total in ((0, ((a + b) + c) + d), (1, (a + c) + (b + d))):
        memory = run(Pool(format=IN_FLOAT32, by_columns=by_columns, **fields), {A: codes(*window)})
        steps = np.rint(total / np.float32(4) / np.float32(1e-8))
        [[found[by_columns]]] = read(memory, OUT, 1, 1)
        assert found[by_columns] == np.clip(steps, -128, 127)
    assert found[1] == 0 != found[0]


def test_means_and_sums() -> None:
    common = {
        "input": A, "output": OUT, "outer": 1, "parts": 1, "middle": 1, "count": 4, "inner": 1, "input_zero": 1,
        "input_scale": bits_of(0.5), "input_signed": 1, "signed": 1, "low": -128, "high": 127,
    }  # fmt: skip
    # codes less 1: 1, 2, 3, 4; reals 0.5 .. 2: 5, of which the mean is 1.25
    for name, scale, expected in (("mean", 0.5, 2), ("sum", 0.5, 10), ("fused_mean", 0.25, 2)):
        instruction = Reduce(
            format=IN_FLOAT32, function=FUNCTIONS.index(name), output_scale=bits_of(scale), **common
        )
        [[found]] = read(run(instruction, {A: codes(2, 3, 4, 5)}), OUT, 1, 1)
        assert found == expected, name


def test_softmax_of_two_equal_codes() -> None:
    instruction = Softmax(
        format=IN_FLOAT32, input=A, output=OUT, rows=1, depth=2, input_scale=bits_of(0.1),
        output_scale=bits_of(1 / 256), output_zero=-128, low=-128, high=127, input_signed=1, signed=1,
    )  # fmt: skip
    assert read(run(instruction, {A: codes(5, 5)}), OUT, 1, 2) == [[0, 0]]


@pytest.mark.parametrize("row", [Binary, Pool, Reduce, Softmax])
def test_a_machine_must_have_the_mode(row: Any) -> None:
    without = change(tiny_hardware(), {"float32_rescale": False})
    assert row(format=IN_FLOAT32).misfits(Context(tiny_hardware())) == []
    assert row(format=IN_FLOAT32).misfits(Context(without)) == [
        "computes on 8-bit values in float32, the machine has float32_rescale = false"
    ]
