"""Numeric operations beside the formulas that define them: all ranks, broadcasts, axes and element types.

On the default machine, where the host computes real numbers, and on one with lanes for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import npusim
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, Precision

from .single import LANES, plain, run

Values = NDArray[Any]
TOLERANCE = {"float32": 1e-5, "float16": 4e-3}
MACHINES = (None, LANES)
SHAPES = [(), (1,), (7,), (2, 0, 3), (2, 3, 4, 5), (1, 2, 1, 3, 2, 2)]
BROADCASTS = [
    ((), ()), ((), (2, 3)), ((2, 3), (1,)), ((3, 1, 5), (2, 1, 4, 1)), ((2, 0), (1,)),
    ((1, 2, 1, 2, 1), (2, 1, 2, 1, 3)), ((5,), (2, 3, 4, 5)),
]  # fmt: skip
AXES = [((5,), 0), ((2, 3), -1), ((2, 3), 0), ((2, 6, 4, 5), 1), ((2, 6, 4, 5), -2), ((1, 2, 1, 3, 2, 2), 3)]


def numbers(shape: Sequence[int], dtype: str = "float32", low: float = -4, high: float = 4) -> Values:
    """Random numbers that a seed by shape gives."""
    rng = np.random.default_rng([len(shape), *shape])
    return np.asarray(rng.uniform(low, high, tuple(shape))).astype(dtype)


def close(found: Values, expected: Any, dtype: str = "float32") -> None:
    wanted = np.asarray(expected, np.float64)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


FUNCTIONS: dict[str, Callable[[Values], Values]] = {
    "abs": np.abs, "cos": np.cos, "exp": np.exp, "floor": np.floor, "log": np.log, "sin": np.sin,
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6), "rsqrt": lambda x: x**-0.5,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "square": np.square, "tanh": np.tanh,
    "swish": lambda x: x * (1 + np.tanh(x / 2)) / 2, "softplus": lambda x: np.logaddexp(0, x),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
}  # fmt: skip


@pytest.mark.cases(12)
@pytest.mark.parametrize("hardware", MACHINES, ids=["host", "lanes"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, hardware: npusim.Hardware | None) -> None:
    low = 0.1 if name in ("log", "rsqrt") else -4
    for shape, dtype in product(SHAPES, TOLERANCE):
        x = numbers(shape, dtype, low)
        close(run(name, [x], hardware=hardware)[0], FUNCTIONS[name](x.astype(np.float64)), dtype)


FUSED: tuple[Callable[[Values], Values], ...] = (
    lambda x: x, lambda x: np.maximum(x, 0), lambda x: np.clip(x, -1, 1), lambda x: np.clip(x, 0, 6)
)  # fmt: skip
ARITHMETIC: dict[str, Callable[[Values, Values], Values]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "pow": np.power, "floor_div": lambda a, b: np.floor(a / b),
}  # fmt: skip


@pytest.mark.cases(8)
@pytest.mark.parametrize("hardware", MACHINES, ids=["host", "lanes"])
@pytest.mark.parametrize("fuse_code", range(4))
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str, fuse_code: int, hardware: npusim.Hardware | None) -> None:
    for first, second in BROADCASTS:
        a, b = numbers(first, low=0.5 if name == "pow" else -4), numbers(second, low=1, high=3)
        expected = ARITHMETIC[name](a.astype(np.float64), b.astype(np.float64))
        close(run(name, [a, b], fuse_code, hardware=hardware)[0], FUSED[fuse_code](expected))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", [name for name in ARITHMETIC if name != "div"])
def test_arithmetic_of_whole_numbers(name: str, dtype: str) -> None:
    a, b = numbers((2, 3), dtype, -9, 9), numbers((3,), dtype, 1, 4)
    for fuse_code, fused in enumerate(FUSED):
        [found] = run(name, [a, b], fuse_code)
        assert found.dtype == np.dtype(dtype)
        assert np.array_equal(found, fused(ARITHMETIC[name](a, b)))


COMPARISONS = {
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
}  # fmt: skip
LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


@pytest.mark.cases(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", [*COMPARISONS, *LOGIC])
def test_truths_of_two(name: str) -> None:
    dtypes = ("bool",) if name in LOGIC else ("float32", "float16", "int32", "int64", "bool")
    for (first, second), dtype in product(BROADCASTS, dtypes):
        a, b = numbers(first, "int32", 0, 3).astype(dtype), numbers(second, "int32", 0, 2).astype(dtype)
        [found] = run(name, [a, b])
        assert found.dtype == np.bool_
        assert np.array_equal(found, {**COMPARISONS, **LOGIC}[name](a, b))


def test_no_number_is_equal_to_nothing_and_greater_than_nothing() -> None:
    a, b = np.float32([np.nan, np.nan, np.inf]), np.float32([np.nan, 1, np.inf])
    for name, relation in COMPARISONS.items():
        assert np.array_equal(run(name, [a, b])[0], relation(a, b))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "bool"])
def test_where(dtype: str) -> None:
    shapes = [
        ((), (), ()),
        ((2, 3), (), (3,)),
        ((3, 1), (2, 1, 4), (1,)),
        ((0, 2), (2,), (1, 2)),
        ((2,), (3, 1), ()),
    ]
    for of_condition, *others in shapes:
        condition = numbers(of_condition, "int32", 0, 2).astype(np.bool_)
        a, b = (numbers(shape, "int32").astype(dtype) for shape in others)
        assert np.array_equal(run("where", [condition, a, b])[0], np.where(condition, a, b))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_sum_of_several(count: int) -> None:
    values = [numbers(shape) for shape in [(2, 3, 4), (4,), (3, 1), ()][:count]]
    for hardware in MACHINES:
        close(run("sum", values, listed=True, hardware=hardware)[0], sum(values))


REDUCTIONS = {"reduce_max": np.max, "reduce_mean": np.mean, "reduce_sum": np.sum}


@pytest.mark.cases(3)
@pytest.mark.slow
@pytest.mark.parametrize("hardware", MACHINES, ids=["host", "lanes"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, hardware: npusim.Hardware | None) -> None:
    """No axes are all; what has one dimension keeps it."""
    for shape, keepdim in product([(5,), (2, 3), (2, 6, 4, 5), (1, 2, 1, 3, 2, 2)], (False, True)):
        rank, x = len(shape), numbers(shape)
        for axes in {(), (0,), (-1,), (rank - 1, 0)[: min(rank, 2)], tuple(range(rank))}:
            over = tuple({axis % rank for axis in axes}) or None
            expected = REDUCTIONS[name](x.astype(np.float64), axis=over, keepdims=keepdim or rank == 1)
            close(run(name, [x], np.array(axes, np.int32), keepdim, hardware=hardware)[0], expected)


@pytest.mark.parametrize("name", ["arg_max", "arg_min"])
@pytest.mark.parametrize("precision", [Precision.INT32, Precision.INT64])
def test_positions(name: str, precision: Precision) -> None:
    for (shape, axis), keepdim in product(AXES, (False, True)):
        x = numbers(shape)
        [found] = run(name, [x], axis, keepdim, int(precision))
        assert found.dtype == np.dtype(precision.name.lower())
        assert np.array_equal(found, getattr(np, name.replace("_", ""))(x, axis, keepdims=keepdim))


@pytest.mark.parametrize("hardware", MACHINES, ids=["host", "lanes"])
def test_softmax_and_its_logarithm(hardware: npusim.Hardware | None) -> None:
    for shape, axis in [*AXES, ((0, 3), 1)]:
        x = numbers(shape)
        powers = np.exp(x.astype(np.float64))
        shares = powers / powers.sum(axis, keepdims=True)
        close(run("softmax", [x], axis, hardware=hardware)[0], shares)
        close(run("log_softmax", [x], axis, hardware=hardware)[0], np.log(shares))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(exclusive: bool, reverse: bool) -> None:
    for shape, axis in AXES:
        x = numbers(shape, "int32")
        turned = np.flip(x, axis) if reverse else x
        sums = np.cumsum(turned, axis) - (turned if exclusive else 0)
        [found] = run("cum_sum", [x], axis, exclusive, reverse)
        assert np.array_equal(found, np.flip(sums, axis) if reverse else sums)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("precision", [Precision.INT32, Precision.INT64])
def test_top(largest: bool, precision: Precision) -> None:
    for shape, axis in AXES:
        x = numbers(shape)
        k = min(2, shape[axis])
        order = np.argsort(-x if largest else x, axis, kind="stable").take(range(k), axis)
        values, indices = run("top_k", [x], k, axis, largest, True, int(precision))
        assert indices.dtype == np.dtype(precision.name.lower())
        assert np.array_equal(indices, order)
        assert np.array_equal(values, np.take_along_axis(x, order, axis))


def moments(x: Values, axes: Any, epsilon: float) -> Values:
    wide = x.astype(np.float64)
    result: Values = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(
        wide.var(axes, keepdims=True) + epsilon
    )
    return result


@pytest.mark.cases(4)
@pytest.mark.slow
@pytest.mark.parametrize("hardware", MACHINES, ids=["host", "lanes"])
@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 3), (2, 6, 4, 5), (2, 6, 2, 3, 2)])
def test_normalizations(shape: tuple[int, ...], hardware: npusim.Hardware | None) -> None:
    x = numbers(shape)
    vectors = [numbers((6,), low=0.5) + np.float32(number) for number in range(4)]
    scale, bias, mean, variance = (vector.reshape(6, *[1] * (len(shape) - 2)) for vector in vectors)

    def beside(expected: Values, name: str, *arguments: Any) -> None:
        close(run(name, [x], *arguments, hardware=hardware)[0], expected)

    normal = (x - mean) / np.sqrt(variance + 0.01)
    beside(normal * scale + bias, "batch_normalization", *vectors, 0.01)
    for groups in (1, 2, 6):
        grouped = moments(x.reshape(2, groups, -1), 2, 0.01).reshape(shape) * scale + bias
        beside(grouped, "group_normalization", *vectors[:2], 0.01, groups)
    beside(grouped, "instance_normalization", *vectors[:2], 0.01)
    for begin in range(-len(shape), len(shape)):
        axes = tuple(range(begin % len(shape), len(shape)))
        factor, offset = numbers(shape[begin:]), numbers(shape[begin:], low=0)
        beside(moments(x, axes, 0.01) * factor + offset, "layer_normalization", factor, offset, begin, 0.01)
    for p, axes in product((1, 2), ((1,), (-1, 0))):
        norm = (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)
        beside(x / (norm + 0.1), "lp_normalization", list(axes), p, 0.1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_local_response(size: int) -> None:
    """(size - 1) // 2 channels in front, size // 2 behind."""
    x = numbers((2, 6, 3, 2))
    squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)])
    sums = sum(squares[:, first : first + 6] for first in range(size))
    close(run("lrn", [x], size, 1.0, 0.1, 0.75)[0], x / (1 + 0.1 * sums) ** 0.75)


def test_slopes() -> None:
    for shape in [(2, 6), (2, 6, 4, 5), (2, 6, 2, 3, 2)]:
        x, slopes = numbers(shape), numbers((6,))
        per_channel = slopes.reshape(6, *[1] * (len(shape) - 2))
        close(run("prelu", [x], slopes)[0], np.where(x < 0, x * per_channel, x))
        close(run("prelu", [x], slopes[:1])[0], np.where(x < 0, x * slopes[0], x))


def test_parameters_of_halves_may_be_float32() -> None:
    x, ones = numbers((2, 6, 4), "float16"), np.ones(6, np.float32)
    close(run("prelu", [x], np.float32([0.5]))[0], np.where(x < 0, x / 2, x), "float16")
    close(run("batch_normalization", [x], ones, ones, ones, ones)[0], x, "float16")


def test_limits_may_be_infinite_and_may_be_computed() -> None:
    for shape in SHAPES:
        x = numbers(shape)
        infinite = np.float32([np.inf])
        close(run("clip", [x], np.float32([-1]), infinite)[0], np.maximum(x, -1))
        close(run("clip", [x, np.float32([-1]), np.float32([2])])[0], np.clip(x, -1, 2))
    assert run("clip", [np.int32([-9, 0, 9])], -1, 5)[0].tolist() == [-1, 0, 5]


CASTS = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.cases(20)
@pytest.mark.parametrize("before", CASTS)
@pytest.mark.parametrize("after", CASTS)
def test_casts(before: str, after: str) -> None:
    for shape in [(), (2, 5), (0, 2)]:
        x = numbers(shape, low=0, high=100).astype(before)
        [found] = run("cast", [x], int(plain(after).precision))
        assert found.dtype == np.dtype(after)
        assert np.array_equal(found, x.astype(after))


# Wrong use

X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("name", "values", "arguments", "message"),
    [
        ("softmax", [X], [2], "axis is 2, must be -2..1"),
        ("reduce_sum", [X], [[0, -3]], "axes is -3, must be -2..1"),
        ("top_k", [X], [4], "k is 4, must be 0..3, the size of axis 1"),
        ("group_normalization", [X], [np.ones(3), np.ones(3), 0.1, 2], "groups divides the number of channels"),
        ("group_normalization", [X], [np.ones(3), np.ones(3), 0.1, 0], "groups is 0, must be 1 or more"),
        ("batch_normalization", [X], [np.ones(2)] * 4, "scale has shape [2], must have shape [3]"),
        ("batch_normalization", [X[0]], [np.ones(3)] * 4, "input has shape [3], must have 2 dimensions or more"),
        ("lp_normalization", [X], [1, 3], "p is 3, must be 1 or 2"),
        ("lrn", [X], [0], "size is 0, must be 1 or more"),
        ("clip", [X], [float("nan"), 1.0], "min is nan, max 1.0: must be numbers"),
        ("cast", [X], [24], "dtype is QUANT_INT8_SYMM_PER_LAYER, must be a precision without scales"),
        ("dequantize", [X], [], "input has no scale, must be quantized"),
        ("quantize", [X], [1, 0.0, 0], "scale is [0.0], must be above 0"),
        ("quantize", [X], [2, np.ones(2, np.float32), 0], "axis is 2, must be -2..1"),
        ("quantize", [X], [1, np.ones(3, np.float32), 7], "zero_point is [7], must be one for each of 3 scales"),
        ("add", [X], [np.ones(2, np.float32)], "the shapes of the two inputs broadcast to that of the output"),
        ("add", [X, X], [4], "fuse_code: is 4"),
    ],
)  # fmt: skip
def test_wrong_use(name: str, values: list[Values], arguments: list[Any], message: str) -> None:
    plain_arguments = [
        given.astype(np.float32) if isinstance(given, np.ndarray) and given.dtype == np.float64 else given
        for given in arguments
    ]
    with pytest.raises(InvalidParameter) as caught:
        run(name, values, *plain_arguments)
    assert message in str(caught.value)
    assert f"operations[0] ({name.upper()}): " in str(caught.value)


def test_limits_have_one_element() -> None:
    with pytest.raises(InvalidParameter, match="must have one element"):
        run("clip", [X], np.ones(2, np.float32), 1.0)
