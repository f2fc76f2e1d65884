"""Numeric operations on codes beside what they stand for: dequantized, computed in float32, rounded and clamped.

On the default machine, and on one with lanes for real numbers. Those that LiteRT has are in `test_beside_litert`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import npusim
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter
from npusim.frontends.nnadapter.operand_type import OperandType

from .single import LANES, coded, piece, run
from .test_numeric_operations import ARITHMETIC, FUNCTIONS, FUSED, numbers

Values = NDArray[Any]
CODES = {"int8": coded(0.1), "uint8": coded(0.1, zero_point=120), "int16": coded(0.01, bits=16)}


def rounded(reals: Values, kind: OperandType) -> Values:
    """Reals as codes: divided in float32, halves away from zero, clamped."""
    limits = np.iinfo(kind.dtype)
    with np.errstate(all="ignore"):
        steps = (reals.astype(np.float32) / np.float32(kind.scale)).astype(np.float64)
    steps = np.nan_to_num(np.clip(steps, -1e6, 1e6), nan=-1e6)
    nearest = np.trunc(steps + np.copysign(0.5, steps)) + (kind.zero_point or 0)
    return np.clip(nearest, limits.min, limits.max).astype(kind.dtype)


def of_codes(codes: Values, kind: OperandType) -> Values:
    result: Values = (codes.astype(np.int64) - (kind.zero_point or 0)).astype(np.float32) * np.float32(
        kind.scale
    )
    return result


def shares(x: Values) -> Values:
    powers = np.exp(x - x.max(1, keepdims=True))
    result: Values = powers / powers.sum(1, keepdims=True)
    return result


ONES = np.ones(3, np.float32)
BY_VALUE: dict[str, tuple[Sequence[Any], Callable[[Values], Values]]] = {
    "swish": ((), FUNCTIONS["swish"]),
    "softplus": ((), FUNCTIONS["softplus"]),
    "hard_sigmoid": ((0.25, 0.5), lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
    "hard_swish": ((0.25, 0.5), lambda x: x * np.clip(np.float32(0.25) * x + np.float32(0.5), 0, 1)),
    "clip": ((-1.0, 2.0), lambda x: np.clip(x, -1, 2)),
    "softmax": ((1,), shares),
    "log_softmax": ((1,), lambda x: np.log(shares(x.astype(np.float64)))),
    "prelu": ((np.float32([0.3]),), lambda x: np.where(x < 0, np.float32(0.3) * x, x)),
    "batch_normalization": ((2 * ONES, ONES, ONES, 3 * ONES, 1.0), lambda x: x),
    "lrn": ((1, 1.0, 1.0, 0.5), lambda x: x / np.sqrt(1 + x * x)),
    "cum_sum": ((0,), lambda x: np.cumsum(x, 0, dtype=np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("name", BY_VALUE)
def test_codes_without_a_kernel_of_litert_are_computed_as_reals(name: str, dtype: str) -> None:
    """Dequantized, computed in float32, quantized."""
    arguments, function = BY_VALUE[name]
    kind = CODES[dtype]
    limits = np.iinfo(kind.dtype)
    codes = np.linspace(limits.min, limits.max, 2 * 3 * 40).reshape(2, 3, 40).astype(kind.dtype)
    source = OperandType(kind.precision, [2, 3, 40], scale=kind.scale, zero_point=kind.zero_point)
    [found] = run(name, [codes], *arguments, types=[source], outputs=[kind])
    [again] = run(name, [codes], *arguments, types=[source], outputs=[kind], hardware=LANES)
    expected = rounded(function(of_codes(codes, kind)), kind)
    assert np.abs(found.astype(int) - again.astype(int)).max() <= (dtype == "int16")
    if dtype == "int16":  # a step is so small that a last bit of float32 may decide
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    else:
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", ["pow", "floor_div"])
@pytest.mark.parametrize("fuse_code", range(4))
def test_codes_of_two_operands_are_computed_as_reals(name: str, fuse_code: int) -> None:
    rng = np.random.default_rng(1)
    first, second, output = coded(0.05, [2, 30]), coded(0.125, [2, 30]), coded(0.25)
    a, b = (rng.integers(-128, 128, (2, 30)).astype(np.int8) for _ in range(2))
    a = np.maximum(a, 1 if name == "pow" else -128)  # the root of what is negative is no number
    with np.errstate(all="ignore"):
        expected = ARITHMETIC[name](of_codes(a, first), of_codes(b, second))
    [found] = run(name, [a, b], fuse_code, types=[first, second], outputs=[output])
    assert np.array_equal(found, rounded(FUSED[fuse_code](expected), output))


@pytest.mark.parametrize("name", ["max", "min", "where"])
def test_codes_of_other_scales_are_chosen_by_value(name: str) -> None:
    """2.0 and 1.0, in steps of 1/4 and 1/2, as steps of 1/8."""
    first, second, output = coded(0.25, [2]), coded(0.5, [2]), coded(0.125)
    a, b = np.int8([8, -8]), np.int8([2, -2])
    values, types = [a, b], [first, second]
    if name == "where":
        values, types = [np.array([True, False]), a, b], [None, first, second]  # type: ignore[list-item]
    expected = {"max": [16, -8], "min": [8, -16], "where": [16, -8]}[name]
    assert run(name, values, types=types, outputs=[output])[0].tolist() == expected


def test_sum_of_codes_is_rounded_once() -> None:
    """0.3 + 0.3 + 0.3 in steps of 1/2 is 2 steps; rounded one by one it would be 3."""
    kind = coded(0.1, [1])
    values = [np.int8([3])] * 3
    assert run("sum", values, types=[kind] * 3, outputs=[coded(0.5)], listed=True)[0].tolist() == [2]


def test_quantize_says_the_type_of_its_output() -> None:
    x = numbers((2, 3, 4))
    for axis in (1, -2):
        scales = np.float32([0.02, 0.05, 0.1])
        [found] = run("quantize", [x], axis, scales, np.zeros(3, np.int32))
        steps = x / scales[:, None]
        assert np.array_equal(found, np.clip(np.trunc(steps + np.copysign(0.5, steps)), -128, 127))
        assert found.dtype == np.int8
    [found] = run("quantize", [x], 1, np.float32([0.05]), np.int32([120]))
    assert np.array_equal(found, rounded(x, coded(0.05, zero_point=120)))
    assert run("quantize", [np.int32([1, 3, 300])], 0, 2.0, 0)[0].tolist() == [1, 2, 127]
    assert run("quantize", [np.float32([2.5, -2.5])], 0, 1.0, 0)[0].tolist() == [3, -3]


@pytest.mark.parametrize("kind", [*CODES.values(), coded(0.1, zero_point=9, bits=16)])
def test_dequantize(kind: OperandType) -> None:
    source = OperandType(kind.precision, [3], scale=kind.scale, zero_point=kind.zero_point)
    codes = np.array([0, 3, 100], kind.dtype)
    [found] = run("dequantize", [codes], types=[source])
    assert np.array_equal(found, of_codes(codes, kind))


def test_the_builtin_device_computes_on_reals_and_cuts_off() -> None:
    """0.7 + 0.7 in steps of 1/2 is 2.8, cut off 2; -7 is no code below -127 / 16."""
    kind, output = coded(0.1, [2]), coded(0.5)
    found = piece("add", [np.int8([7, -7])] * 2, types=[kind] * 2, outputs=[output], all_in_float=True).graph
    assert [node.op for node in found.nodes] == ["dequantize", "dequantize", "add", "quantize"]
    values = [np.int8([7, -7])] * 2
    assert run("add", values, types=[kind] * 2, outputs=[output], all_in_float=True)[0].tolist() == [2, -2]
    assert run("add", values, types=[kind] * 2, outputs=[coded(0.01)], all_in_float=True)[0].tolist() == [
        127,
        -127,
    ]


def test_quantize_refuses_an_output_of_another_scale() -> None:
    with pytest.raises(InvalidParameter, match="are not those of"):
        run("quantize", [numbers((2, 3))], 1, 0.5, 0, outputs=[coded(0.25)])


def test_constants_of_no_dimensions_are_computed_while_building() -> None:
    model = Model()
    x = model.add_constant(np.array(7, np.int8), coded(0.5))
    model.identify([], [model.dequantize(x)])
    model.finish()
    graph = model.network().piece([0]).graph
    assert not graph.nodes
    assert npusim.simulate(npusim.compile(graph), []).outputs[0] == 3.5
