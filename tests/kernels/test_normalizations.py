"""Normalizations beside the formulas that define them, written out in numpy, and the rules of their operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .calls import call_with, given, reals

Values = NDArray[Any]
RNG = np.random.default_rng(11)
TOLERANCE = {"float32": 1e-6, "float16": 2e-3}


def normalized(name: str, operands: list[Values], dtype: str = "float32", **parameters: Any) -> Values:
    """What an operator gives for its operands."""
    kinds = [TensorType(dtype, operand.shape) for operand in operands]
    call = Call(given(name, **parameters), tuple(kinds), (kinds[0],), {})
    assert operator(name).broken_rule(call) is None
    [found] = operator(name).reference(call, [operand.astype(dtype) for operand in operands])
    assert (found.dtype, found.shape) == (np.dtype(dtype), operands[0].shape)
    return found.astype(np.float64)


def moments(x: Values, axes: tuple[int, ...], epsilon: float) -> Values:
    """x of mean 0 and variance 1 over axes."""
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    result: Values = (x - mean) / np.sqrt(variance + epsilon)
    return result


def vectors(count: int, size: int) -> list[Values]:
    return [RNG.uniform(0.5, 2, size) for _ in range(count)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_batch_normalization(axis: int, dtype: str) -> None:
    x = RNG.normal(size=(3, 4, 5))
    operands = vectors(4, x.shape[axis])
    shape = [1, 1, 1]
    shape[axis] = -1
    scale, bias, mean, variance = (operand.reshape(shape) for operand in operands)
    found = normalized("batch_normalization", [x, *operands], dtype, axis=axis, epsilon=0.01)
    expected = scale * (x - mean) / np.sqrt(variance + 0.01) + bias
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=5 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_normalization(groups: int, dtype: str) -> None:
    """One group is all channels; as many as channels is each by itself."""
    x = RNG.normal(size=(2, 6, 3, 4))
    scale, bias = vectors(2, 6)
    normal = moments(x.reshape(2, groups, -1), (2,), 0.1).reshape(x.shape)
    expected = normal * scale[:, None, None] + bias[:, None, None]
    for axis in (1, 3):  # channels second, and channels last
        image, wanted = (np.moveaxis(part, 1, axis) for part in (x, expected))
        how = {"groups": groups, "epsilon": 0.1, "axis": axis}
        found = normalized("group_normalization", [image, scale, bias], dtype, **how)
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=5 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("begin", [0, 1, 2])
def test_layer_normalization(begin: int, dtype: str) -> None:
    x = RNG.normal(size=(3, 4, 5))
    scale, bias = RNG.normal(size=x.shape[begin:]), RNG.normal(size=x.shape[begin:])
    found = normalized("layer_normalization", [x, scale, bias], dtype, begin_axis=begin, epsilon=0.001)
    expected = moments(x, tuple(range(begin, 3)), 0.001) * scale + bias
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=5 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_layer_normalization_of_floats_needs_float_lanes(dtype: str) -> None:
    kinds = [TensorType(dtype, shape) for shape in ((2, 8), (8,), (8,))]
    call = Call(given("layer_normalization", begin_axis=1), tuple(kinds), (kinds[0],), {})
    assert operator("layer_normalization").host_reason(call, hardware("edge-128")).words == (
        "runs on the host: no unit computes it as a whole, and its parts need float lanes"
    )


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p: int, axes: tuple[int, ...]) -> None:
    x = RNG.normal(size=(3, 4, 5))
    norm = (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)
    found = normalized("lp_normalization", [x], p=p, axes=axes, epsilon=0.1)
    np.testing.assert_allclose(found, x / (norm + 0.1), rtol=1e-6)


def test_a_constant_without_epsilon_has_no_direction() -> None:
    """0 / 0 is no number, and nobody warns."""
    with np.errstate(all="raise"):
        found = normalized(
            "layer_normalization", [np.ones((1, 2))] + [np.ones(2)] * 2, begin_axis=1, epsilon=0.0
        )
        assert np.isnan(found).all()
        assert np.isnan(normalized("lp_normalization", [np.zeros((1, 2))], axes=(1,), epsilon=0.0)).all()


@pytest.mark.parametrize("name", ["batch_normalization", "group_normalization"])
def test_images_without_elements(name: str) -> None:
    channels = [np.ones(6)] * (4 if name == "batch_normalization" else 2)
    assert normalized(name, [np.empty((0, 6, 2)), *channels], axis=1).size == 0


def test_windows_of_an_even_size_reach_one_further_behind() -> None:
    """Of 1 2 3 4 the squares from one in front to two behind: 14, 30, 29, 25."""
    how = {"radius": 1, "bias": 0.0, "alpha": 1.0, "beta": 1.0, "axis": 0, "one_more": True}
    found = normalized("local_response_normalization", [np.array([1, 2, 3, 4])], **how)
    np.testing.assert_allclose(found, [1 / 14, 2 / 30, 3 / 29, 4 / 25], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "shapes", "parameters", "message"),
    [
        ("batch_normalization", [(2, 3)] + [(2,)] * 4, {"axis": 1},
         "every operand but the first has one number per channel"),
        ("group_normalization", [(2, 3, 4), (3,), (3,)], {"axis": 1, "groups": 2},
         "groups divides the number of channels"),
        ("group_normalization", [(2, 3, 4), (2,), (2,)], {"axis": 0}, "the axis of the channels is not the first one"),
        ("layer_normalization", [(2, 3), (3,), (2,)], {"begin_axis": 1},
         "scale and bias have the input's sizes from begin_axis on"),
        ("layer_normalization", [(2, 3), (3,), (3,)], {"begin_axis": 2}, "begin_axis is an axis of the input"),
        ("lp_normalization", [(2, 3)], {"axes": (1, 0)},
         "axes are different dimensions of the input, in ascending order"),
    ],
)  # fmt: skip
def test_rules(name: str, shapes: list[tuple[int, ...]], parameters: dict[str, Any], message: str) -> None:
    call = call_with([reals(*shape) for shape in shapes], [reals(*shapes[0])], given(name, **parameters))
    assert operator(name).broken_rule(call) == message
