"""Rows that are quantized at run time: LiteRT's rule written out value by value, and what the NPU makes of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator
from tests.examples import examples
from tests.kernels.test_real_parts import evaluated

BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))


def rows(seed: int, *, count: int = 3, size: int = 21) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, size)) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)


def test_a_symmetric_row_spans_127_steps() -> None:
    """Steps of 1. In the vector of 8 values 0.49999997 is rounded up, behind it down."""
    x = np.array([[127, -127, BELOW_HALF, 1.5, -1.5, 0, 0, 0, BELOW_HALF]], np.float32)
    found = dynamic_range.quantized_rows(x, asymmetric=False)
    assert found.values.tolist() == [[127, -127, 1, 2, -2, 0, 0, 0, 0]]
    assert (found.scales.tolist(), found.zero_points.tolist()) == ([1], [0])


@pytest.mark.parametrize(
    ("low", "high", "zero"),
    [
        (0.0, 255.0, -128),
        (-255.0, 0.0, 127),
        (3.0, 255.0, -128),  # 0 is a part of every range
        (-127.5, 127.5, -1),  # -0.5 goes away from zero
        (-100.0, 155.0, -28),
    ],
)
def test_an_asymmetric_row_spans_255_steps(low: float, high: float, zero: int) -> None:
    found = dynamic_range.quantized_rows(np.array([[low, high]], np.float32), asymmetric=True)
    assert (found.scales.tolist(), found.zero_points.tolist()) == ([1.0], [zero])
    assert found.values.tolist() == [[max(round(low) + zero, -128), min(round(high) + zero, 127)]]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_row_of_zeros_has_scale_one(asymmetric: bool) -> None:
    found = dynamic_range.quantized_rows(np.zeros((2, 5), np.float32), asymmetric)
    assert not found.values.any()
    assert (found.scales.tolist(), found.zero_points.tolist()) == ([1, 1], [0, 0])


@given(st.integers(0, 1 << 32), st.booleans())
@examples(50)
def test_values_are_within_a_step(seed: int, asymmetric: bool) -> None:
    x = rows(seed)
    found = dynamic_range.quantized_rows(x, asymmetric)
    back = (found.values - found.zero_points[:, None]) * found.scales[:, None]
    assert np.all(np.abs(back - x) <= found.scales[:, None] * 1.001)


def dense(asymmetric: bool, *, constant: bool = True) -> tuple[Call, list[Any]]:
    """A fully connected layer of 21 inputs, 5 units, a scale per unit."""
    rng = np.random.default_rng(1)
    weights = rng.integers(-127, 128, (5, 21)).astype(np.int8)
    scaling = Quantization(tuple(rng.uniform(0.01, 0.1, 5).astype(np.float32).tolist()), (0,) * 5, 0)
    kinds = TensorType("float32", (3, 21)), TensorType("int8", (5, 21), scaling), TensorType("float32", (5,))
    bias = rng.standard_normal(5).astype(np.float32)
    rescale = "dynamic_asymmetric" if asymmetric else "dynamic"
    parameters = operator("fully_connected").parameters(rescale=rescale, activation="relu")
    call = Call(
        parameters, kinds, (TensorType("float32", (3, 5)),), {1: weights, 2: bias} if constant else {}
    )
    return call, [rows(2), weights, bias]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_dense_layer_is_sums_of_integers_times_two_scales(asymmetric: bool) -> None:
    call, values = dense(asymmetric)
    entry = operator("fully_connected")
    assert entry.broken_rule(call) is None
    [found] = entry.compute(call, values)
    quantized = dynamic_range.quantized_rows(values[0], asymmetric)
    for row, unit in np.ndindex(3, 5):
        codes = quantized.values[row].astype(int) - int(quantized.zero_points[row])
        total = np.float32(int(codes @ values[1][unit].astype(int)))
        scale = quantized.scales[row] * np.float32(call.inputs[1].quantization.scales[unit])  # type: ignore[union-attr]
        assert found[row, unit] == max(total * scale + values[2][unit], np.float32(0))


@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_steps_of_float_units_give_the_bytes_of_the_whole(asymmetric: bool) -> None:
    """Only the scales of asymmetric rows are the host's."""
    call, values = dense(asymmetric)
    values[0][1] = 0  # a row of zeros
    entry = operator("fully_connected")
    arithmetic = entry.arithmetic(call)
    assert arithmetic is not None
    assert arithmetic.expand is not None
    found = arithmetic.expand(call)
    assert found is not None
    [steps] = evaluated(call, found, dict(enumerate(values)))
    assert steps.tobytes() == entry.compute(call, values)[0].tobytes()
    ops = [part.op for part in found.parts if part.name in found.on_host]
    assert ops == (["row_scales"] if asymmetric else [])


def test_what_stays_on_the_host_says_why() -> None:
    entry = operator("fully_connected")
    call, _ = dense(asymmetric=False, constant=False)
    arithmetic = entry.arithmetic(call)
    assert arithmetic is not None
    assert arithmetic.expand is not None
    assert arithmetic.expand(call) is None
    reason = entry.host_reason(call, hardware("edge-128")).words
    assert "rows are quantized at run time (dynamic range), which needs float lanes and columns" in reason
    assert "constant weights" in reason


def test_weights_with_a_zero_point_are_refused() -> None:
    call, _ = dense(asymmetric=False)
    kinds = (call.inputs[0], TensorType("int8", (5, 21), Quantization((0.1,), (3,))), call.inputs[2])
    broken = operator("fully_connected").broken_rule(Call(call.parameters, kinds, call.outputs, {}))
    assert broken is not None
    assert "zero point 0" in broken


def test_an_embedding_with_one_scale_becomes_float_on_the_npu() -> None:
    """The rows are gathered as they are, and their values looked up."""
    rng = np.random.default_rng(3)
    table = rng.integers(-128, 128, (9, 4, 3)).astype(np.int8)
    kinds = TensorType("int32", (6,)), TensorType("int8", (9, 4, 3), Quantization((0.037,), (0,)))
    call = Call(
        operator("embedding_lookup").parameters(rescale="dynamic"),
        kinds,
        (TensorType("float32", (6, 4, 3)),),
        {},
    )
    entry, indices = operator("embedding_lookup"), rng.integers(0, 9, 6).astype(np.int32)
    assert entry.broken_rule(call) is None
    [whole] = entry.compute(call, [indices, table])
    np.testing.assert_array_equal(whole, table[indices].astype(np.float32) * np.float32(0.037))
    arithmetic = entry.arithmetic(call)
    assert arithmetic is not None
    assert arithmetic.expand is not None
    found = arithmetic.expand(call)
    assert found is not None
    np.testing.assert_array_equal(evaluated(call, found, {0: indices, 1: table})[0], whole)
