"""Operators along axes and over neighbours: small vectors, closed forms, tensors without elements, rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import TensorType
from npusim.kernels.operator.fixed_point import FixedPoint
from npusim.kernels.operator.inverse_root import inverse_root
from npusim.kernels.table import operator

from .calls import call_with, codes, given, reals, results


def numbers(dtype: str, *shape: int) -> TensorType:
    return TensorType(dtype, shape)


def result(name: str, x: TensorType, ofm: TensorType, values: Any, **parameters: Any) -> Any:
    [found] = results(operator(name), call_with([x], [ofm], given(name, **parameters)), values)
    return found


# Reductions

TABLE = [[1, -2, 3], [-4, 5, -6]]


@pytest.mark.parametrize(
    ("name", "axes", "expected"),
    [
        ("sum", [1], [2, -5]),
        ("sum", [0, 1], -3),
        ("reduce_prod", [1], [-6, 120]),
        ("reduce_max", [0], [1, 5, 3]),
        ("reduce_min", [0], [-4, -2, -6]),
        ("mean", [1], [0, -1]),  # 2 / 3 and -5 / 3, toward zero
    ],
)
def test_reductions_of_whole_numbers(name: str, axes: list[int], expected: Any) -> None:
    shape = np.shape(expected)
    assert result(name, numbers("int32", 2, 3), numbers("int32", *shape), TABLE, axes=axes) == expected


def test_reductions_of_truths() -> None:
    table = [[True, True], [True, False], [False, False]]
    x, ofm = numbers("bool", 3, 2), numbers("bool", 3)
    assert result("reduce_all", x, ofm, table, axes=[1]) == [True, False, False]
    assert result("reduce_any", x, ofm, table, axes=[1]) == [True, True, False]
    assert result("reduce_any", x, numbers("bool", 1, 1), table, axes=[0, 1], keep_dims=True) == [[True]]


def test_a_sum_of_codes_is_rescaled() -> None:
    # (3 - 1) + (7 - 1) + (1 - 1) = 8 halves are 4, which is 2 steps of 2 above 10
    x = codes(3, dtype="uint8", scale=0.5, zero_point=1)
    assert result(
        "sum", x, codes(1, dtype="uint8", scale=2.0, zero_point=10), [3, 7, 1], axes=[0], keep_dims=True
    ) == [12]


def test_half_precision_adds_in_single() -> None:
    """2048 + 1 + 1 is 2050; in float16 every 1 would be lost."""
    x, ofm = numbers("float16", 3), numbers("float16", 1)
    assert result("sum", x, ofm, [2048, 1, 1], axes=[0], keep_dims=True) == [2050]


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("sum", "float32", 0.0),
        ("reduce_prod", "float32", 1.0),
        ("mean", "float32", 0.0),
        ("reduce_max", "float32", -math.inf),
        ("reduce_min", "int32", (1 << 31) - 1),
        ("reduce_all", "bool", True),
        ("reduce_any", "bool", False),
    ],
)
def test_reductions_of_nothing(name: str, dtype: str, expected: Any) -> None:
    found = result(name, numbers(dtype, 2, 0), numbers(dtype, 2), [], axes=[1])
    assert found == [expected, expected]


@pytest.mark.parametrize(
    "name",
    ["sum", "mean", "reduce_max", "reduce_min", "softmax", "log_softmax", "l2_normalization", "cumsum"],
)
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_tensors_without_elements(name: str, shape: tuple[int, ...]) -> None:
    axis = {"axes": [1]} if name in ("sum", "mean", "reduce_max", "reduce_min") else {"axis": 1}
    x = reals(*shape)
    ofm = reals(shape[0]) if "axes" in axis else x
    [found] = operator(name).reference(
        call_with([x], [ofm], given(name, **axis)), [np.empty(shape, np.float32)]
    )
    assert found.shape == ofm.shape


# Positions


def test_arg_min_takes_the_first_of_equals() -> None:
    x, ofm = codes(2, 3), numbers("int32", 2)
    assert result("arg_min", x, ofm, [[5, 1, 1], [-3, -4, -4]], axis=-1) == [1, 1]


@pytest.mark.parametrize(("last_first", "positions"), [(False, [1, 2, 0]), (True, [2, 1, 3])])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_the_order_of_equals(dtype: str, last_first: bool, positions: list[int]) -> None:
    x = codes(4, dtype=dtype) if dtype == "uint8" else numbers(dtype, 4)
    top = codes(3, dtype=dtype) if dtype == "uint8" else numbers(dtype, 3)
    call = call_with([x], [top, numbers("int32", 3)], given("topk_v2", k=3, last_first=last_first))
    assert results(operator("topk_v2"), call, [2, 7, 7, 2]) == [[7, 7, 2], positions]


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [
        (False, False, [1, 3, 6]),
        (True, False, [0, 1, 3]),
        (False, True, [6, 5, 3]),
        (True, True, [5, 3, 0]),
    ],
)
def test_running_sums(exclusive: bool, reverse: bool, expected: list[int]) -> None:
    x = numbers("int32", 1, 3)
    assert result("cumsum", x, x, [1, 2, 3], axis=-1, exclusive=exclusive, reverse=reverse) == [expected]


# Shares


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_along_an_axis_is_that_of_the_moved_tensor(name: str, dtype: str, axis: int) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 256, (2, 3, 4)).astype(dtype)
    fixed = {"softmax": (1 / 256, 0), "log_softmax": (1 / 16, 255)}[name]

    def share(array: Any, along: int) -> Any:
        real = dtype == "float32"
        x = reals(*array.shape) if real else codes(*array.shape, dtype=dtype, scale=0.02)
        ofm = x if real else codes(*array.shape, dtype=dtype, scale=fixed[0], zero_point=fixed[1])
        call = call_with([x], [ofm], given(name, beta=0.5, axis=along))
        assert operator(name).broken_rule(call) is None
        return operator(name).reference(call, [array])[0]

    moved = share(np.ascontiguousarray(np.moveaxis(values, axis, -1)), -1)
    assert np.array_equal(np.moveaxis(share(values, axis), axis, -1), moved)


def test_softmax_of_huge_reals() -> None:
    huge = 3e38
    assert result("softmax", reals(3), reals(3), [huge, -huge, huge], beta=1e30) == [0.5, 0.0, 0.5]
    assert result("log_softmax", reals(2), reals(2), [huge, -huge]) == [0.0, -math.inf]


def test_the_logarithm_in_fixed_point() -> None:
    """1 to 4096 with 19 fraction bits; the result has 26."""
    x = np.unique(np.round(np.logspace(0, 12, 2000, base=2, endpoint=False) * (1 << 19)).astype(np.int64))
    found = FixedPoint(32).logarithm(x, 12, 5) / 2.0**26
    assert np.abs(found - np.log(x / 2.0**19)).max() < 2e-6


def test_inverse_roots_in_fixed_point() -> None:
    x = np.unique(np.round(np.logspace(1, 30.9, 3000, base=2)).astype(np.int64))
    multiplier, shift = inverse_root(x)
    assert np.abs(multiplier / 2.0 ** (31 + shift) * np.sqrt(x) - 1).max() < 2e-6


def test_l2_normalization_of_zeros_is_zero() -> None:
    assert result("l2_normalization", reals(1, 2), reals(1, 2), [0, 0]) == [[0.0, 0.0]]
    unit = codes(2, scale=1 / 128)
    assert result("l2_normalization", codes(2, zero_point=5), unit, [5, 5]) == [0, 0]
    # (3, 4) / 5 in 1/128
    assert result("l2_normalization", codes(2), unit, [3, 4]) == [77, 102]


def test_l2_normalization_along_another_axis() -> None:
    assert result("l2_normalization", reals(2, 1), reals(2, 1), [3, 4], axis=0) == [
        [pytest.approx(0.6)],
        [pytest.approx(0.8)],
    ]


@pytest.mark.parametrize(
    ("last_left_out", "expected"),
    [(False, [1 / 6, 2 / 15, 3 / 30, 4 / 26]), (True, [1 / 2, 2 / 6, 3 / 14, 4 / 26])],
)
def test_neighbours_of_a_local_response(last_left_out: bool, expected: list[float]) -> None:
    """1 + squares of 1 2 3 4 within one place; LiteRT leaves out the place behind."""
    how = {"radius": 1, "bias": 1.0, "alpha": 1.0, "beta": 1.0, "axis": 0, "last_left_out": last_left_out}
    found = result("local_response_normalization", reals(4), reals(4), [1, 2, 3, 4], **how)
    assert found == pytest.approx(expected)


def test_instance_normalization() -> None:
    """Channel 0 is 1 2 3 4: mean 2.5, variance 1.25; channel 1 is constant."""
    x = reals(1, 2, 2, 2)
    found = result(
        "instance_normalization", x, x, [[1, 7], [2, 7], [3, 7], [4, 7]], gamma=2.0, beta=10.0, epsilon=0.01
    )
    flat = np.reshape(found, (4, 2))
    assert flat[:, 0] == pytest.approx(10 + 2 * np.array([-1.5, -0.5, 0.5, 1.5]) / math.sqrt(1.26), rel=1e-6)
    assert flat[:, 1].tolist() == [10.0] * 4


def test_l2_pool_counts_what_is_inside() -> None:
    how = {"filter": [2, 2], "strides": [2, 2], "padding": [[0, 1], [0, 1]]}
    found = result("l2_pool_2d", reals(1, 1, 3, 1), reals(1, 1, 2, 1), [3, 4, 5], **how)
    assert np.ravel(found) == pytest.approx([math.sqrt(12.5), 5.0])


# Rules


@pytest.mark.parametrize(
    ("name", "x", "ofm", "parameters", "message"),
    [
        ("softmax", reals(2), reals(2), {"axis": 1}, "axis is an axis of the input"),
        ("softmax", reals(2), reals(2), {"axis": -2}, "axis is an axis of the input"),
        ("arg_min", reals(2, 0), numbers("int32", 2), {"axis": 1}, "the axis has at least one element"),
        (
            "reduce_max",
            codes(2),
            codes(scale=2.0),
            {"axes": [0]},
            "inputs and outputs have one scale and zero point",
        ),
        (
            "sum",
            reals(2, 2),
            reals(2, 2),
            {"axes": [1, 0]},
            "axes are different dimensions of the input, in ascending order",
        ),
        (
            "log_softmax",
            codes(2),
            codes(2, scale=1 / 16),
            {},
            "an 8-bit output has the scale 1/16 and the largest value of its type as zero point",
        ),
        (
            "l2_normalization",
            codes(2),
            codes(2),
            {},
            "an 8-bit output has the scale 1/128 and the middle of its range as zero point",
        ),
        ("instance_normalization", reals(2), reals(2), {}, "the input is [batch, height, width, channels]"),
    ],
)
def test_rules(name: str, x: TensorType, ofm: TensorType, parameters: dict[str, Any], message: str) -> None:
    assert operator(name).broken_rule(call_with([x], [ofm], given(name, **parameters))) == message


def test_more_than_there_are_is_refused() -> None:
    outputs = [reals(3), numbers("int32", 3)]
    call = call_with([reals(2)], outputs, given("topk_v2", k=3))
    assert operator("topk_v2").broken_rule(call) == "the axis has at least k elements"


def test_the_smallest_along_any_axis() -> None:
    """Columns 3 1 2 and 1 1 5: of equals the first one comes first, or the last one."""
    x, kinds = numbers("int32", 3, 2), [numbers("int32", 2, 2), numbers("int64", 2, 2)]
    values = [[3, 1], [1, 1], [2, 5]]
    for last_first, rows in ((False, [0, 1]), (True, [1, 0])):
        how = given("topk_v2", k=2, axis=0, smallest=True, last_first=last_first)
        found = results(operator("topk_v2"), call_with([x], kinds, how), values)
        assert found == [[[1, 1], [2, 1]], [[1, rows[0]], [2, rows[1]]]]
    how = given("topk_v2", k=2, axis=-2)
    found = results(operator("topk_v2"), call_with([x], kinds, how), values)
    assert found == [[[3, 5], [2, 1]], [[0, 2], [2, 0]]]
