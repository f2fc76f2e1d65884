"""Weighted sums with the rescale "float32": references against the formulas written out, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.kernels.graph.graph import call_of
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from ..exact_sums import LIMITS, OPERATORS, Drawn, formula
from ..examples import examples
from ..graphs import random_inputs

EDGE = hardware("edge-128")


def both(name: str, draw: st.DataObject, **how: Any) -> None:
    drawn = Drawn(lambda low, high: draw.draw(st.integers(low, high)), **how)
    graph = drawn.graph(name)
    (node,) = graph.nodes
    call = call_of(graph, node)
    entry = operator(name)
    assert entry.broken_rule(call) is None
    given_values = dict(zip(graph.inputs, random_inputs(graph), strict=True))
    values = [given_values.get(each, graph.tensors[each].data) for each in node.inputs]
    (found,) = entry.compute(call, values)
    wanted = formula(name, call, values)
    assert (found.dtype, found.shape) == (wanted.dtype, call.outputs[0].shape)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", OPERATORS)
@given(st.data())
@examples(60)
def test_codes_of_8_bits(name: str, draw: st.DataObject) -> None:
    """Every mixture of int8 and uint8; zero points by channel too; sums where no codes are wanted."""
    both(name, draw, zeros=True)


@pytest.mark.parametrize("name", OPERATORS)
@given(st.data())
@examples(40)
def test_codes_of_16_bits(name: str, draw: st.DataObject) -> None:
    """Of 8 bits too, mixed: sums of more than 32 bits."""
    both(name, draw, dtypes=tuple(LIMITS), zeros=True)


def product(x: TensorType, w: TensorType, ofm: TensorType, **how: Any) -> Call:
    """A fully connected call."""
    return Call(operator("fully_connected").parameters(rescale="float32", **how), (x, w), (ofm,), {})


def coded(dtype: str, *shape: int, scale: float = 1.0, zero: int = 0) -> TensorType:
    return TensorType(dtype, shape, Quantization((scale,), (zero,)))


def test_a_real_output_is_the_sum_times_the_scales() -> None:
    """(3 - 1) * 5 + (0 - 1) * 2 = 8, times f32(0.1 * 0.3); less than 0 it is 0 behind relu."""
    call = product(
        coded("uint8", 1, 2, scale=0.1, zero=1), coded("int8", 2, 2, scale=0.3), TensorType("float32", (1, 2))
    )
    call = replace(call, parameters=call.parameters.changed(activation="relu"))
    x, w = np.array([[3, 0]], np.uint8), np.array([[5, 2], [-5, 2]], np.int8)
    (found,) = operator("fully_connected").compute(call, [x, w])
    assert found.tolist() == [[np.float32(8) * (np.float32(0.1) * np.float32(0.3)), 0]]
    assert found.dtype == np.float32


def test_the_scale_of_a_sum_is_for_those_that_read_it() -> None:
    """(3 - 1) * 5 = 10, plus a bias of 7, whatever the scales and zero points of output and bias say."""
    x, w = coded("uint8", 1, 1, scale=0.1, zero=1), coded("int8", 1, 1, scale=0.3)
    bias, ofm = (
        TensorType("int32", (1,), Quantization((2.0,), (5,))),
        coded("int32", 1, 1, scale=0.03, zero=4),
    )
    call = Call(operator("fully_connected").parameters(rescale="float32"), (x, w, bias), (ofm,), {})
    assert operator("fully_connected").broken_rule(call) is None
    values = [np.array([[3]], np.uint8), np.array([[5]], np.int8), np.array([7], np.int32)]
    assert operator("fully_connected").compute(call, values)[0].tolist() == [[17]]


def test_real_weights_are_computed_on_reals() -> None:
    """(3 - 1) * 0.5 * 1.25 = 1.25, in steps of 0.1 from 10: 22 (12.5 goes to the even 12)."""
    x, ofm = coded("uint8", 1, 1, scale=0.5, zero=1), coded("uint8", 1, 1, scale=0.1, zero=10)
    call = product(x, TensorType("float32", (1, 1)), ofm)
    (found,) = operator("fully_connected").compute(
        call, [np.array([[3]], np.uint8), np.array([[1.25]], np.float32)]
    )
    assert found.tolist() == [[22]]


def test_rows_with_scales_of_their_own() -> None:
    """Rows (4, -2) by scales 1 and 2, less zero points 0 and 1, columns by 1 and 0.5: over 1."""
    x = TensorType("int8", (2, 1), Quantization((1.0, 2.0), (0, 1), 0))
    y = TensorType("int8", (1, 2), Quantization((1.0, 0.5), (0, 1), 1))
    call = Call(operator("batch_matmul").parameters(rescale="float32"), (x, y), (coded("int8", 2, 2),), {})
    assert operator("batch_matmul").broken_rule(call) is None
    (found,) = operator("batch_matmul").compute(
        call, [np.array([[4], [-2]], np.int8), np.array([[3, 6]], np.int8)]
    )
    assert found.tolist() == [[12, 10], [-18, -15]]
    assert (
        operator("batch_matmul").host_reason(call, EDGE).words
        == "on the NPU the first operand has one scale and zero point"
    )


def test_sums_that_leave_32_bits_are_exact_on_the_host() -> None:
    """70,000 products of 255 * 255 are 4,551,750,000, beyond 2**32; a hundred-millionth of it is 46. In 32 bits it
    would be 256,782,704: 3. So the host computes it, but not where half of the weights are known to be 0.
    """
    inner = 70_000
    x, w = coded("uint8", 1, inner), coded("uint8", 1, inner)
    call = product(x, w, coded("uint8", 1, 1, scale=1e8))
    entry = operator("fully_connected")
    ones = np.full((1, inner), 255, np.uint8)
    (found,) = entry.compute(call, [ones, ones])
    assert found.tolist() == [[46]]
    reason = "on the NPU sums of products and bias fit 32 bits, unless the output is the int32 sums"
    assert entry.lowering(call, EDGE) is None
    assert entry.host_reason(call, EDGE).words == f"on the NPU the weights are constants; {reason}"
    known = ones * (np.arange(inner) < 33_025)
    assert entry.lowering(replace(call, constants={1: known}), EDGE) is not None
    more = ones * (np.arange(inner) < 33_026)
    assert entry.host_reason(replace(call, constants={1: more}), EDGE).words == reason
    # As it is, the sum wraps, on the NPU too.
    sums = replace(call, outputs=(TensorType("int32", (1, 1)),), constants={1: ones})
    (found,) = entry.compute(sums, [ones, ones])
    assert found.tolist() == [[4_551_750_000 - (1 << 32)]]
    assert entry.lowering(sums, EDGE) is not None


def test_what_the_npu_leaves_to_the_host() -> None:
    entry = operator("fully_connected")
    x, w, ofm = coded("int8", 4, 8), coded("uint8", 3, 8), coded("uint8", 4, 3)
    call = replace(product(x, w, ofm), constants={1: np.zeros((3, 8), np.uint8)})
    assert entry.lowering(call, EDGE) is not None
    without = change(EDGE, {"float32_rescale": False})
    words = "needs an output stage that requantizes in float32 (float32_rescale); edge-128 has none"
    assert entry.host_reason(call, without) == (words, ("float32_rescale",))
    assert entry.lowering(replace(call, outputs=(TensorType("int32", (4, 3)),)), without) is not None
    zeros = replace(w, quantization=Quantization((1.0,) * 3, (1, 2, 1), 0))
    assert (
        entry.host_reason(replace(call, inputs=(x, zeros)), EDGE).words
        == "on the NPU all weights have one zero point"
    )
    wide = product(coded("int16", 4, 8), w, ofm)
    assert entry.host_reason(wide, EDGE).words.startswith(
        "on the NPU feature map and weights are 8-bit quantized values"
    )


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"ofm": coded("uint8", 4, 3, scale=0.0)}, "every scale is positive and finite"),
        (
            {"ofm": coded("uint8", 4, 3, scale=1e-45), "w": coded("int8", 3, 8, scale=1e3)},
            "every scale is positive",
        ),
        (
            {"x": coded("int8", 4, 8, zero=200)},
            "every scale is positive and finite, every zero point fits its type",
        ),
        (
            {"w": TensorType("int8", (3, 8), Quantization((1.0,) * 8, (0,) * 8, 1))},
            "feature map and a quantized output",
        ),
        (
            {"ofm": TensorType("int32", (4, 3)), "activation": "relu"},
            "an int32 output, the sum itself, has no",
        ),
    ],
)
def test_calls_that_are_refused(changes: dict[str, Any], rule: str) -> None:
    operands = {"x": coded("int8", 4, 8), "w": coded("int8", 3, 8), "ofm": coded("uint8", 4, 3)} | changes
    broken = operator("fully_connected").broken_rule(product(**operands))
    assert broken is not None
    assert broken.startswith(rule)


def test_in_fixed_point_types_are_those_of_tflite() -> None:
    call = product(coded("int8", 4, 8), coded("int8", 3, 8), coded("uint8", 4, 3))
    fixed = replace(call, parameters=call.parameters.changed(rescale="fixed_point"))
    assert "element types are" in (operator("fully_connected").broken_rule(fixed) or "")
