"""Elementwise operators: LiteRT's bytes, results written out for the edges of every element type, both meanings."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.tflite.reader import parse
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.graph import call_of
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .calls import call_with, codes, given, reals, results

CASES = (
    "ABS.int8", "DIV.int8", "DIV.uint8", "EQUAL.int8", "EQUAL.uint8", "GELU.int8", "GELU.uint8", "GREATER.int8",
    "GREATER.uint8", "GREATER_EQUAL.int8", "GREATER_EQUAL.uint8", "LESS.int8", "LESS.uint8", "LESS_EQUAL.int8",
    "LESS_EQUAL.uint8", "NOT_EQUAL.int8", "NOT_EQUAL.uint8", "PRELU.int8", "PRELU.uint8", "RSQRT.int8",
    "SQUARED_DIFFERENCE.int8",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.cases(8)
@pytest.mark.parametrize("name", CASES)
def test_reference_gives_the_bytes_of_litert(shared: Path, name: str) -> None:
    stem = shared / "ops_litert_ref" / name
    entries = json.loads(Path(f"{stem}.json").read_text())["cases"]
    assert len(entries) >= 26
    with np.load(f"{stem}.npz") as arrays:
        for entry in entries:
            graph = parse(arrays[f"c{entry['case']}_model"].tobytes(), name)
            [node] = graph.nodes
            tensors = [graph.tensors[index] for index in node.inputs if index is not None]
            values = [
                arrays[entry["tensors"][index]["key"]] if tensor.data is None else tensor.data
                for index, tensor in zip(entry["inputs"], tensors, strict=True)
            ]
            [result] = operator(node.op).reference(call_of(graph, node), values)
            expected = arrays[entry["tensors"][entry["outputs"][0]]["key"]]
            assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
            assert np.array_equal(result, expected), entry["case"]


def of(dtype: str, *shape: int) -> TensorType:
    return TensorType(dtype, shape)


TRUTHS = of("bool", 3)


def one(name: str, dtype: str, *values: list[Any], **parameters: Any) -> list[Any]:
    """What an operator gives for vectors of one element type."""
    kind = of(dtype, len(values[0]))
    [result] = results(
        operator(name), call_with([kind] * len(values), [kind], given(name, **parameters)), *values
    )
    return list(result)


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """No value may make numpy warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


INF, NAN = float("inf"), float("nan")
LEAST, MOST = -(1 << 31), (1 << 31) - 1


# Real numbers


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("name", "parameters", "x", "expected"),
    [
        ("abs", {}, [-2.0, -0.0, -INF], [2.0, 0.0, INF]),
        ("neg", {}, [2.0, -INF, 0.5], [-2.0, INF, -0.5]),
        ("exp", {}, [0.0, -INF, 1000.0], [1.0, 0.0, INF]),
        ("log", {}, [1.0, 0.0, -1.0], [0.0, -INF, NAN]),
        ("sqrt", {}, [4.0, -1.0, INF], [2.0, NAN, INF]),
        ("rsqrt", {}, [4.0, 0.0, INF], [0.5, INF, 0.0]),
        ("sin", {}, [0.0, INF, NAN], [0.0, NAN, NAN]),
        ("cos", {}, [0.0, INF, NAN], [1.0, NAN, NAN]),
        ("floor", {}, [-0.5, 1.5, INF], [-1.0, 1.0, INF]),
        ("ceil", {}, [-1.5, 1.5, -INF], [-1.0, 2.0, -INF]),
        ("round", {}, [0.5, 1.5, -2.5], [0.0, 2.0, -2.0]),
        ("sign", {}, [-3.0, 0.0, NAN], [-1.0, 0.0, NAN]),
        ("square", {}, [-3.0, 0.5, INF], [9.0, 0.25, INF]),
        ("elu", {}, [-INF, 0.0, 3.0], [-1.0, 0.0, 3.0]),
        ("elu", {"alpha": 2.0}, [-INF, 0.0, 3.0], [-2.0, 0.0, 3.0]),
        ("gelu", {}, [-20.0, 0.0, 20.0], [0.0, 0.0, 20.0]),
        ("gelu", {"approximate": True}, [-20.0, 0.0, 20.0], [0.0, 0.0, 20.0]),
        ("relu_n1_to_1", {}, [-2.0, 0.5, NAN], [-1.0, 0.5, NAN]),
        ("relu_0_to_1", {}, [-2.0, 0.5, INF], [0.0, 0.5, 1.0]),
    ],
)
def test_real_functions(
    name: str, parameters: dict[str, Any], x: list[float], expected: list[float], dtype: str
) -> None:
    found = one(name, dtype, x, **parameters)
    assert np.array_equal(found, np.array(expected, dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("div", [1.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.5, INF, NAN]),
        ("floor_div", [-7.0, 7.0, 1.0], [2.0, -2.0, 0.0], [-4.0, -4.0, INF]),
        ("floor_mod", [-7.0, 7.0, 1.0], [2.0, -2.0, 0.0], [1.0, -1.0, NAN]),
        ("pow", [2.0, -8.0, 0.0], [3.0, 0.5, -1.0], [8.0, NAN, INF]),
        ("prelu", [-2.0, 2.0, -4.0], [0.5, 0.5, -1.0], [-1.0, 2.0, 4.0]),
        ("squared_difference", [1.0, 5.0, INF], [3.0, 2.0, INF], [4.0, 9.0, NAN]),
        ("add_n", [1.0, 2.0, INF], [3.0, -2.0, -INF], [4.0, 0.0, NAN]),
    ],
)
def test_real_functions_of_two(
    name: str, a: list[float], b: list[float], expected: list[float], dtype: str
) -> None:
    assert np.array_equal(one(name, dtype, a, b), np.array(expected, dtype), equal_nan=True)


# Whole numbers


@pytest.mark.parametrize(
    ("name", "dtype", "a", "b", "expected"),
    [
        (
            "div",
            "int32",
            [-7, 7, LEAST, 5],
            [2, -2, -1, 0],
            [-3, -3, MOST, 0],
        ),  # toward zero; LiteRT saturates
        ("floor_div", "int32", [-7, 7, LEAST, 5], [2, -2, -1, 0], [-4, -4, LEAST, 0]),  # downwards, wraps
        ("floor_mod", "int32", [-7, 7, LEAST, 5], [2, -2, -1, 0], [1, -1, 0, 0]),
        ("floor_div", "int8", [-128, 100, 7], [-1, 7, 0], [-128, 14, 0]),
        ("pow", "int32", [-7, 0, 46341, 2], [3, 0, 2, 31], [-343, 1, LEAST, LEAST]),  # beyond 32 bits: -2**31
        ("squared_difference", "int32", [5, LEAST], [7, MOST], [4, 1]),  # wraps
        ("add_n", "int32", [MOST, 1], [1, 2], [LEAST, 3]),
        ("maximum", "int16", [-5, 7], [4, -9], [4, 7]),
        ("minimum", "int64", [-5, 7], [4, 1 << 40], [-5, 7]),
    ],
)
def test_whole_functions_of_two(
    name: str, dtype: str, a: list[int], b: list[int], expected: list[int]
) -> None:
    assert one(name, dtype, a, b) == expected


def test_whole_functions_of_one() -> None:
    assert one("abs", "int32", [-5, 0, LEAST]) == [5, 0, LEAST]
    assert one("neg", "int32", [-5, 0, LEAST]) == [5, 0, LEAST]
    assert one("sign", "int32", [-5, 0, 9]) == [-1, 0, 1]
    assert one("square", "int32", [-5, 0, 1 << 16]) == [25, 0, 0]


# Codes


def test_neg_of_codes_ignores_their_zero_point() -> None:
    kind = codes(3, zero_point=3)
    assert results(operator("neg"), call_with([kind], [kind]), [1, -128, 3]) == [[-1, -128, -3]]


def test_roots_of_codes() -> None:
    # sqrt(0.09) / 0.04 = 7.5 is cut off; sqrt of a negative number is zero
    call = call_with([codes(3, scale=0.01)], [codes(3, scale=0.04)])
    assert results(operator("sqrt"), call, [9, 0, -5]) == [[7, 0, 0]]
    # 1 / sqrt(0.04) / 0.1 = 50; of nothing and less the largest
    call = call_with([codes(3, scale=0.01)], [codes(3, scale=0.1)])
    assert results(operator("rsqrt"), call, [4, 0, -5]) == [[50, 127, 127]]


def test_functions_of_codes_without_a_kernel_in_litert() -> None:
    call = call_with([codes(3, scale=0.25)], [codes(3, scale=0.5)])
    assert results(operator("floor"), call, [-1, 3, 5]) == [[-2, 0, 2]]
    call = call_with([codes(3, scale=0.25)], [codes(3, scale=0.5)], given("elu"))
    assert results(operator("elu"), call, [-127, 0, 6]) == [[-2, 0, 3]]


@pytest.mark.parametrize(
    ("by_value", "expected"),
    [(False, [True, True, False]), (True, [False, False, False])],
)
def test_small_scales_are_equal_for_litert_and_different_by_value(
    by_value: bool, expected: list[bool]
) -> None:
    # 1 and 2 times 256 * 0.001 are both 0 to the nearest whole number, 4 and 5 both 1
    kind = codes(3, scale=0.001)
    call = call_with([kind] * 2, [TRUTHS], given("equal", by_value=by_value))
    assert results(operator("equal"), call, [0, 4, 8], [1, 5, 12]) == [expected]


def test_scales_from_1_on_compare_exactly() -> None:
    # LiteRT's kernels are undefined there
    call = call_with([codes(3, scale=1.5), codes(3, scale=3.0, zero_point=1)], [TRUTHS], given("less"))
    assert results(operator("less"), call, [1, 2, 3], [2, 2, 2]) == [[True, False, False]]


@pytest.mark.parametrize("scales", [(1e-30, 1e30), (1.0, 0.3), (0.1, 0.7), (3e-39, 1e-38)])
def test_comparison_by_value_is_that_of_exact_products(scales: tuple[float, float]) -> None:
    a, b = (float(np.float32(scale)) for scale in scales)
    first, second = codes(511, scale=a, zero_point=-3), codes(511, scale=b, zero_point=5)
    rng = np.random.default_rng(5)
    x, y = rng.integers(-128, 128, (2, 511))
    call = call_with([first, second], [of("bool", 511)], given("less", by_value=True))
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    expected = [Fraction(a) * (i + 3) < Fraction(b) * (j - 5) for i, j in pairs]
    assert results(operator("less"), call, x, y) == [expected]


def test_maximum_and_select_by_value_give_codes_of_the_output() -> None:
    first, second, output = codes(3, scale=0.5), codes(3, scale=1.0, zero_point=10), codes(3, scale=0.25)
    call = call_with([first, second], [output], given("maximum", by_value=True))
    # 1, 2, 3 and 2, 0, 4 in quarters
    assert results(operator("maximum"), call, [2, 4, 6], [12, 10, 14]) == [[8, 8, 16]]
    call = call_with([TRUTHS, first, second], [output], given("select", by_value=True))
    assert results(operator("select"), call, [1, 0, 1], [2, 4, 6], [12, 10, 14]) == [[4, 0, 12]]


def test_maximum_in_tflite_keeps_the_codes_whatever_their_scales() -> None:
    call = call_with([codes(2), codes(2, scale=2.0)], [codes(2, scale=4.0)], given("maximum"))
    assert results(operator("maximum"), call, [1, 5], [3, 4]) == [[3, 5]]


def wide(*shape: int, scale: float = 1.0) -> TensorType:
    return TensorType("int16", shape, Quantization((scale,), (0,)))


def test_codes_of_16_bits() -> None:
    call = call_with([wide(2), wide(2, scale=0.5)], [wide(2, scale=2.0)], given("add"))
    assert results(operator("add"), call, [100, -32768], [40, -32768]) == [[60, -24576]]
    call = call_with([wide(2), wide(2, scale=0.5)], [wide(2)], given("mul"))
    assert results(operator("mul"), call, [100, -32768], [40, -32768]) == [[2000, 32767]]
    call = call_with([wide(3)], [wide(3, scale=0.5)])
    assert results(operator("abs"), call, [-3, 3, -32768]) == [[6, 6, 32767]]
    assert results(operator("relu6"), call, [-3, 3, 20]) == [[0, 6, 12]]
    bare = TensorType("int16", (3,))
    assert (
        operator("relu").broken_rule(call_with([bare], [bare]))
        == "every int16 operand has one scale and zero point"
    )


def test_int16_operands_with_power_of_two_scales_are_shifted_before_they_are_added() -> None:
    """By 2 places: 6 becomes 1.5, rounded to 2, and -6 to -2. Without the shift sums are rounded once."""
    by_shift = given("add", rescale="power_of_two")
    for op, expected in (("add", [12, 8, 32767, -32768]), ("sub", [-8, -12, -32734, 32735])):
        call = call_with([wide(4, scale=0.25), wide(4)], [wide(4)], by_shift)
        values = [np.array([6, -6, 130, -130], np.int16), np.array([10, 10, 32767, -32768], np.int16)]
        assert operator(op).broken_rule(call) is None
        assert operator(op).compute(call, values)[0].tolist() == expected
    apart = call_with([wide(4, scale=0.25), wide(4, scale=0.5)], [wide(4)], by_shift)
    assert str(operator("add").broken_rule(apart)).startswith(
        "power-of-two scales of int16 values: one operand has"
    )


def test_a_quotient_by_the_zero_point_is_zero() -> None:
    kind = codes(2, scale=0.1, zero_point=7)
    assert results(operator("div"), call_with([kind] * 2, [kind], given("div")), [27, 9], [7, 9]) == [[7, 17]]


# Selection


def test_a_condition_per_element_per_row_or_for_all() -> None:
    a, b = [[1, 2], [3, 4]], [[5, 6], [7, 8]]

    def chosen(name: str, shape: tuple[int, ...], condition: Any) -> list[Any]:
        kind = of("int32", 2, 2)
        call = call_with([of("bool", *shape), kind, kind], [kind], given(name))
        [result] = results(operator(name), call, condition, a, b)
        return list(result)

    assert chosen("select", (2, 2), [[1, 0], [0, 1]]) == [[1, 6], [7, 4]]
    assert chosen("select", (2,), [0, 1]) == [[5, 6], [3, 4]]
    assert chosen("select", (), True) == a
    assert chosen("select_v2", (2,), [0, 1]) == [[5, 2], [7, 4]]


# Conversions


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("int8", [127, -128, 127, -1, 0]),
        ("uint8", [255, 0, 255, 0, 0]),
        ("int32", [MOST, LEAST, MOST, -1, 0]),
        ("bool", [True, True, True, True, True]),
        ("float16", [INF, -INF, NAN, -1.5, 0.89990234375]),
    ],
)
def test_casts_of_reals_saturate(dtype: str, expected: list[Any]) -> None:
    call = call_with([reals(5)], [of(dtype, 5)], given("cast"))
    [found] = results(operator("cast"), call, [1e10, -1e10, NAN, -1.5, 0.9])
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize(("saturating", "expected"), [(False, [44, 212, 5]), (True, [255, 0, 5])])
def test_casts_of_whole_numbers_wrap_or_saturate(saturating: bool, expected: list[int]) -> None:
    call = call_with([of("int32", 3)], [of("uint8", 3)], given("cast", saturating=saturating))
    assert results(operator("cast"), call, [300, -300, 5]) == [expected]


def test_casts_of_reals_wrap_as_whole_numbers_do_if_wanted() -> None:
    call = call_with([reals(4)], [of("uint8", 4)], given("cast"))
    assert results(operator("cast"), call, [-3.7, 300.2, 7.9, 1e30]) == [[0, 255, 7, 255]]
    call = call_with([reals(4)], [of("uint8", 4)], given("cast", wrapping=True))
    assert results(operator("cast"), call, [-3.7, 300.2, 7.9, 255.0]) == [[253, 44, 7, 255]]


def test_powers_of_64_bits_wrap() -> None:
    values = [[3, -2, 1, -1, -1, 5, 2], [40, 63, -5, -4, -3, -1, 64]]
    assert one("pow", "int64", *values) == [3**40 - (1 << 64), -(1 << 63), 1, 1, -1, 0, 0]


def test_quantize_and_dequantize_other_widths() -> None:
    call = call_with(
        [of("float16", 3)], [codes(3, dtype="uint8", scale=0.5, zero_point=100)], given("quantize")
    )
    assert results(operator("quantize"), call, [1.25, -INF, NAN])[0][0] == 103
    wide = TensorType("int16", (2,), Quantization((0.5,), (0,)))
    assert results(
        operator("quantize"), call_with([wide], [codes(2, scale=0.25)], given("quantize")), [10, 100]
    ) == [[20, 127]]
    assert results(operator("dequantize"), call_with([wide], [of("float16", 2)]), [3, -30000]) == [
        [1.5, -15000]
    ]


def test_quantize_to_a_scale_per_channel() -> None:
    """Channels in steps of 1/2 and 1/4, halves away from zero."""
    kind = TensorType("int8", (2, 2), Quantization((0.5, 0.25), (0, 0), 1))
    found = results(
        operator("quantize"),
        call_with([reals(2, 2)], [kind], given("quantize")),
        [[1.25, 1.25], [-0.75, -40]],
    )
    assert found == [[[3, 5], [-2, -128]]]


def test_quantize_has_as_many_scales_as_channels() -> None:
    kind = TensorType("int8", (2, 2), Quantization((0.5, 0.25, 1.0), (0, 0, 0), 1))
    broken = operator("quantize").broken_rule(call_with([reals(2, 2)], [kind], given("quantize")))
    assert broken == "there are as many scales as channels, or one"


def test_quantize_of_what_32_bits_do_not_hold() -> None:
    """LiteRT's conversion gives the smallest code; the nearest one if saturating. No number is neither."""
    values = [INF, -INF, 1e30, NAN]
    call = call_with([reals(4)], [codes(4, scale=0.5)], given("quantize"))
    assert results(operator("quantize"), call, values) == [[-128] * 4]
    call = call_with([reals(4)], [codes(4, scale=0.5)], given("quantize", saturating=True))
    assert results(operator("quantize"), call, values) == [[127, -128, 127, -128]]


def test_quantize_toward_zero_gives_no_smallest_code() -> None:
    call = call_with([reals(4)], [codes(4, scale=0.5)], given("quantize", truncate=True))
    assert results(operator("quantize"), call, [1.4, -1.4, -INF, 1e30]) == [[2, -2, -127, 127]]
    kind = codes(4, dtype="uint8", scale=0.5, zero_point=10)
    call = call_with([reals(4)], [kind], given("quantize", truncate=True))
    assert results(operator("quantize"), call, [1.4, -1.4, -INF, 1e30]) == [[12, 8, 0, 255]]


# No elements

EMPTY_OPERATORS = (
    "abs", "neg", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "floor", "ceil", "round", "sign", "square", "elu",
    "gelu", "hard_swish", "logistic", "swish", "softplus", "clip",
    "tanh", "relu", "relu6", "relu_n1_to_1", "relu_0_to_1", "add", "sub", "mul",
    "div", "maximum", "minimum", "prelu", "squared_difference", "equal", "less", "quantize",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
@pytest.mark.parametrize("name", EMPTY_OPERATORS)
def test_tensors_without_elements(name: str, dtype: str) -> None:
    kind = reals(0, 4) if dtype == "float32" else codes(0, 4, dtype=dtype, scale=0.1)
    entry = operator(name)
    output = of("bool", 0, 4) if name in ("equal", "less") else kind
    if name == "quantize":
        output = codes(0, 4, scale=0.1)
    for count in (1, 2):
        call = Call(given(name), (kind,) * count, (output,), {})
        if entry.broken_rule(call) is None:
            [result] = entry.reference(call, [np.empty((0, 4), dtype)] * count)
            assert (result.shape, result.dtype) == ((0, 4), output.numpy_dtype)
            return
    raise AssertionError(f"{name} takes neither one nor two operands")
