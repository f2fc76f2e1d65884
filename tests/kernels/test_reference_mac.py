"""Convolutions, arithmetic, pools, mean and quantize: LiteRT's bytes, sums by hand, rules, work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.isa.arithmetic.integer import quantize_multiplier
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import (
    act_range,
    add_multipliers,
    convolution_multipliers,
    fully_connected_multipliers,
    mean_multiplier,
)
from npusim.kernels.table import operator

from .calls import given
from .litert_cases import litert_cases

EDGE = hardware("edge-128")


LITERT = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D",
    "MEAN", "QUANTIZE",
)  # fmt: skip


@pytest.mark.parametrize(
    ("op", "dtype"),
    [*((op, dtype) for op in LITERT for dtype in ("int8", "uint8")), ("BATCH_MATMUL", "int8")],
)
def test_reference_gives_the_bytes_of_litert(shared: Path, op: str, dtype: str) -> None:
    cases = list(litert_cases(shared, op, dtype))
    assert len(cases) == 40
    for case in cases:
        entry = operator(case.operator)
        assert entry.broken_rule(case.call) is None, case.name
        [found], [expected] = entry.reference(case.call, case.values), case.expected
        assert found.dtype == expected.dtype, case.name
        assert np.array_equal(found, expected), case.name


# Small vectors


def codes(shape: tuple[int, ...], scale: float = 1.0, zero_point: int = 0, dtype: str = "int8") -> TensorType:
    return TensorType(dtype, shape, Quantization((scale,), (zero_point,)))


def reals(*shape: int) -> TensorType:
    return TensorType("float32", shape)


def result(
    name: str, parameters: Mapping[str, Any], inputs: list[tuple[TensorType, Any]], ofm: TensorType
) -> Any:
    """The output of an operator on nested lists of numbers, as nested lists."""
    call = Call(given(name, **parameters), tuple(tensor for tensor, _ in inputs), (ofm,), {})
    assert operator(name).broken_rule(call) is None
    values: list[Array | None] = [np.array(v, tensor.dtype).reshape(tensor.shape) for tensor, v in inputs]
    [found] = operator(name).reference(call, values)
    assert (found.dtype, found.shape) == (ofm.dtype, ofm.shape)
    return found.reshape(-1).tolist()


WINDOW = {"strides": [1, 1], "dilations": [1, 1], "padding": [[0, 0], [0, 0]], "activation": "none"}


def test_conv_2d() -> None:
    ifm = (codes((1, 2, 2, 1), 0.5, 1), [1, 2, 3, 4])  # minus 1: 0 1 2 3
    weights = (codes((1, 2, 2, 1), 0.5), [1, -1, 2, 1])
    bias = (TensorType("int32", (1,)), [4])
    # 0*1 + 1*-1 + 2*2 + 3*1 + 4 = 10, times 0.5 * 0.5 / 0.25 = 1, zero point -3
    assert result("conv_2d", WINDOW, [ifm, weights, bias], codes((1, 1, 1, 1), 0.25, -3)) == [10 - 3]


def test_conv_2d_scales_each_channel_by_itself() -> None:
    ifm = (codes((1, 1, 1, 1)), [8])
    weights = (TensorType("int8", (3, 1, 1, 1), Quantization((1.0, 0.5, 2.0), (0, 0, 0), 0)), [3, 3, -3])
    assert result("conv_2d", WINDOW, [ifm, weights], codes((1, 1, 1, 3))) == [24, 12, -48]


def test_conv_2d_rounds_twice_and_fully_connected_once() -> None:
    ifm, weights = (codes((1, 1, 1, 1)), [5]), (codes((1, 1, 1, 1), 0.25), [1])
    assert result("conv_2d", WINDOW, [ifm, weights], codes((1, 1, 1, 1))) == [2]  # 5/2 -> 3, 3/2 -> 2
    ifm, weights = (codes((1, 1)), [5]), (codes((1, 1), 0.25), [1])
    assert result("fully_connected", {}, [ifm, weights], codes((1, 1))) == [1]  # 5/4 -> 1


def test_conv_2d_of_each_image_of_a_batch() -> None:
    ifm, weights = (codes((3, 1, 2, 1)), [1, 2, 3, 4, 5, 6]), (codes((1, 1, 2, 1)), [1, 10])
    assert result("conv_2d", WINDOW, [ifm, weights], codes((3, 1, 1, 1))) == [21, 43, 65]


def test_depthwise_conv_2d_with_a_depth_multiplier() -> None:
    ifm = (codes((1, 1, 2, 2), 1, 1), [2, 3, 4, 5])  # minus 1: pixels (1, 2) and (3, 4)
    weights = (codes((1, 1, 2, 4)), [1, 2, 3, 4, 5, 6, 7, 8])
    # channels 0, 1 read input 0: 1*1 + 3*5, 1*2 + 3*6; channels 2, 3 read input 1: 2*3 + 4*7, 2*4 + 4*8
    found = result("depthwise_conv_2d", WINDOW | {"depth_multiplier": 2}, [ifm, weights], codes((1, 1, 1, 4)))
    assert found == [16, 20, 34, 40]


def test_fully_connected_takes_any_shape_of_feature_map() -> None:
    ifm, weights = (codes((1, 2, 1, 2)), [1, 2, 3, 4]), (codes((3, 2)), [1, 0, 0, 1, 1, 1])
    for shape, keep in (((2, 3), False), ((1, 2, 1, 3), True)):
        found = result("fully_connected", {"keep_num_dims": keep}, [ifm, weights], codes(shape))
        assert found == [1, 2, 3, 3, 4, 7]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add", [5 + 3, 5 - 4, 7 + 3, 7 - 4]),
        ("sub", [5 - 3, 5 + 4, 7 - 3, 7 + 4]),
        ("mul", [15, -20, 21, -28]),
    ],
)
def test_elementwise_operators_broadcast(op: str, expected: list[int]) -> None:
    column, row = (codes((2, 1), 1, 10), [15, 17]), (codes((1, 2), 1, -1), [2, -5])
    assert result(op, {"activation": "none"}, [column, row], codes((2, 2))) == expected


def test_add_brings_both_operands_to_a_common_scale() -> None:
    first, second = (codes((2,), 0.5), [10, 11]), (codes((2,), 0.25), [4, 4])
    # 5 + 1 and 5.5 + 1 in steps of 0.5, zero point 2
    assert result("add", {"activation": "none"}, [first, second], codes((2,), 0.5, 2)) == [14, 15]


POOL = {"filter": [2, 2], "strides": [1, 1], "padding": [[0, 0], [1, 0]], "activation": "none"}


def test_pools_do_not_see_the_padding() -> None:
    image = (codes((1, 2, 2, 1), 1, 5), [-1, -2, -4, -9])
    # left window: the first column alone; right window: everything
    assert result("max_pool_2d", POOL, [image], codes((1, 1, 2, 1), 1, 5)) == [-1, -1]
    # -5 / 2 -> -3 (half away from zero), -16 / 4
    assert result("average_pool_2d", POOL, [image], codes((1, 1, 2, 1), 1, 5)) == [-3, -4]


def test_mean_over_height_and_width() -> None:
    image = (codes((1, 1, 3, 2), 1, 1), [2, -2, 3, -3, 5, -6])  # minus 1: 1 2 4 and -3 -4 -7
    means = {True: (1, 1, 1, 2), False: (1, 2)}  # 7/3 and -14/3
    for keep_dims, shape in means.items():
        assert result("mean", {"axes": [1, 2], "keep_dims": keep_dims}, [image], codes(shape)) == [2, -5]


def test_quantize_rounds_ties_away_from_zero_and_clamps() -> None:
    x = [1.25, -1.25, 0.2, 1e30, -inf, nan]
    # 1e30 is beyond int32 and becomes -2**31 there, as in the kernel (checked with LiteRT); it was 127 here once
    assert result("quantize", {}, [(reals(6), x)], codes((6,), 0.5, 1)) == [4, -2, 1, -128, -128, -128]
    assert result("quantize", {}, [(reals(6), x)], codes((6,), 0.5, -1)) == [2, -4, -1, 127, 127, 127]


def test_quantize_from_codes_to_codes() -> None:
    x = (codes((4,), 0.5, 128, "uint8"), [100, 128, 129, 255])  # minus 128, halved, minus 10
    assert result("quantize", {}, [x], codes((4,), 1.0, -10)) == [-24, -10, -9, 54]


@pytest.mark.parametrize(
    ("op", "parameters", "inputs", "shape", "expected"),
    [
        ("conv_2d", WINDOW | {"activation": "relu6"}, [([1, 1, 2, 1], [1, 2]), ([2, 1, 2, 1], [1, 2, 2, 4]),
            ([2], [0.5, 0.5])], (1, 1, 1, 2), [5.5, 6.0]),
        ("depthwise_conv_2d", WINDOW | {"depth_multiplier": 1}, [([1, 1, 2, 2], [1, 2, 3, 4]),
            ([1, 1, 2, 2], [1, 2, 3, 4])], (1, 1, 1, 2), [10, 20]),
        ("fully_connected", {"activation": "relu", "keep_num_dims": False}, [([1, 2], [1, 2]),
            ([2, 2], [1, 1, -1, -1])], (1, 2), [3, 0]),
        ("add", {"activation": "none"}, [([2], [1, 2]), ([1], [0.5])], (2,), [1.5, 2.5]),
        ("sub", {"activation": "relu_n1_to_1"}, [([2], [1, 2]), ([1], [0.5])], (2,), [0.5, 1.0]),
        ("mul", {"activation": "none"}, [([2], [1, 2]), ([1], [0.5])], (2,), [0.5, 1.0]),
        ("max_pool_2d", POOL, [([1, 2, 2, 1], [-1, -2, -4, -9])], (1, 1, 2, 1), [-1, -1]),
        ("average_pool_2d", POOL, [([1, 2, 2, 1], [-1, -2, -4, -9])], (1, 1, 2, 1), [-2.5, -4]),
        ("mean", {"axes": [0], "keep_dims": False}, [([4], [1, 2, 3, 4])], (), [2.5]),
    ],
)  # fmt: skip
def test_float_models(
    op: str, parameters: dict[str, Any], inputs: list[Any], shape: tuple[int, ...], expected: list[float]
) -> None:
    operands = [(reals(*size), values) for size, values in inputs]
    assert result(op, parameters, operands, reals(*shape)) == expected


# Scales


@pytest.mark.parametrize(
    ("activation", "dtype", "scale", "zero_point", "expected"),
    [
        ("none", "int8", 0.1, 0, (-128, 127)),
        ("relu", "int8", 0.1, -20, (-20, 127)),
        ("relu", "uint8", 0.1, 0, (0, 255)),
        ("relu6", "int8", 0.1, -20, (-20, 40)),
        ("relu6", "int8", 0.01, -128, (-128, 127)),  # 600 steps do not fit
        ("relu6", "uint8", 4.0, 3, (3, 5)),  # 1.5 steps round away from zero
        ("relu_n1_to_1", "uint8", 0.4, 100, (97, 103)),  # 2.5 steps
        ("relu6", "int8", 1e-45, 7, (7, 127)),  # the quotient is infinite
    ],
)
def test_activation_range(
    activation: str, dtype: str, scale: float, zero_point: int, expected: tuple[int, int]
) -> None:
    assert act_range(activation, codes((1,), scale, zero_point, dtype)) == expected


def test_only_uint8_convolutions_round_the_product_of_scales_to_float32() -> None:
    scales = [float(np.float32(scale)) for scale in (0.1, 0.3, 0.7)]
    exact = scales[0] * scales[1] / scales[2]
    rounded = float(np.float32(scales[0] * scales[1])) / scales[2]
    assert quantize_multiplier(exact) != quantize_multiplier(rounded)
    for dtype, function, expected in (
        ("int8", convolution_multipliers, exact),
        ("uint8", convolution_multipliers, rounded),
        ("uint8", fully_connected_multipliers, exact),
    ):
        multipliers, shifts = function(*(codes((1,), scale, 0, dtype) for scale in scales))
        assert (multipliers.tolist(), shifts.tolist()) == tuple([n] for n in quantize_multiplier(expected))


def test_add_multipliers() -> None:
    # common scale 2 * 0.5 = 1; inputs 0.25 / 1 and 0.5 / 1, output 1 / (2**20 * 0.125)
    found = add_multipliers(codes((1,), 0.25), codes((1,), 0.5), codes((1,), 0.125))
    assert found == ((1 << 30, -1), (1 << 30, 0), (1 << 30, -16))


def test_mean_multiplier_keeps_the_precision_of_the_quotient() -> None:
    # 1 = 2**30 * 2**(1 - 31); 49 elements leave 5 bits: 2**35 / 49 with the shift 5 lower
    assert mean_multiplier(codes((1,)), codes((1,)), 49) == ((1 << 35) // 49, -4)


# Rules and work

CONVOLUTION = Call(
    given("conv_2d", **WINDOW),
    (codes((1, 8, 8, 3)), codes((4, 3, 3, 3)), TensorType("int32", (4,))),
    (codes((1, 6, 6, 4)),),
    {1: np.zeros((4, 3, 3, 3), np.int8), 2: np.zeros(4, np.int32)},
)


def with_strides(*strides: int) -> Call:
    return replace(CONVOLUTION, parameters=given("conv_2d", strides=strides))


def with_input(position: int, operand: TensorType | None) -> Call:
    inputs = tuple(operand if i == position else old for i, old in enumerate(CONVOLUTION.inputs))
    return replace(CONVOLUTION, inputs=inputs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (CONVOLUTION, None),
        (with_input(2, None), None),
        (with_input(1, None), "takes a feature map, weights and an optional bias and gives one output"),
        (
            with_input(0, reals(1, 8, 8, 3)),
            "element types are (int8, int8|uint8, int32 -> int8), (uint8, int8|uint8, int32 -> uint8), "
            "(int16, int8, int32|int64 -> int16),"
            " (float16 -> float16) or (float32 -> float32)",
        ),
        (
            with_input(0, codes((8, 8, 3))),
            "input and output have four dimensions: batch, height, width, channels, and only the batch may be empty",
        ),
        (
            with_input(1, codes((4, 3, 3, 2))),
            "weights are [output channels, height, width, input channels of a group], in groups of equal size",
        ),
        (
            with_strides(1, 2),
            "the output has the shape that kernel, strides, dilations and padding give, a channel per filter",
        ),
        (
            with_input(0, TensorType("int8", (1, 8, 8, 3))),
            "an 8-bit feature map and its output have one scale and zero point each",
        ),
        (
            with_input(1, TensorType("int8", (4, 3, 3, 3), Quantization((1.0,) * 3, (0,) * 3, 3))),
            "8-bit weights have one zero point, and one scale or one per channel of dimension 0",
        ),
        (
            with_input(0, codes((1, 8, 8, 3), 0.0)),
            "every scale is positive and finite, and every zero point of an 8-bit tensor is in the range of its type",
        ),
        (
            with_input(0, codes((1, 8, 8, 3), 1.0, 128)),
            "every scale is positive and finite, and every zero point of an 8-bit tensor is in the range of its type",
        ),
        (
            with_input(2, TensorType("int32", (5,))),
            "the bias has one value per output channel",
        ),
    ],
)
def test_a_malformed_convolution_breaks_the_rule_that_says_so(call: Call, message: str | None) -> None:
    assert operator("conv_2d").broken_rule(call) == message


def wide(strides: int, dilations: int, kernel: int, padding: int = 0) -> Call:
    """A convolution of one column with these numbers along the height."""
    height = (kernel - 1) * dilations + 1
    window = given("conv_2d", strides=[strides, 1], dilations=[dilations, 1], padding=[[0, padding], [0, 0]])
    rows = padding // strides + 1
    inputs = (codes((1, height, 1, 1)), codes((1, kernel, 1, 1)))
    return Call(window, inputs, (codes((1, rows, 1, 1)),), {1: np.zeros((1, kernel, 1, 1), np.int8)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (wide(31, 63, 255, 255), None),
        (wide(32, 1, 3), "on the NPU strides are 1..31"),
        (wide(1, 64, 3), "on the NPU dilations are 1..63"),
        (wide(1, 1, 256), "on the NPU kernels are 1..255 high and wide"),
        (replace(CONVOLUTION, inputs=(codes((1, 8, 8, 6)), *CONVOLUTION.inputs[1:])), None),
        (wide(1, 1, 3, 256), "on the NPU padding is 0..255 on each side"),
        (replace(CONVOLUTION, constants={}), None),
    ],
)
def test_what_the_npu_cannot_do_is_not_malformed(call: Call, message: str | None) -> None:
    entry = operator("conv_2d")
    assert entry.broken_rule(call) is None
    if message is None:
        assert entry.lowering(call, EDGE) in entry.lowerings
    else:
        assert (entry.lowering(call, EDGE), entry.host_reason(call, EDGE).words) == (None, message)


def test_pool_padding_must_leave_every_window_some_image() -> None:
    window = given("max_pool_2d", **POOL | {"padding": [[0, 0], [2, 0]]})
    call = Call(window, (codes((1, 2, 2, 1)),), (codes((1, 1, 3, 1)),), {})
    message = "padding is smaller than the filter, so that every window overlaps the image"
    assert operator("max_pool_2d").broken_rule(call) == message


@pytest.mark.parametrize(
    ("op", "parameters", "inputs", "ofm", "expected"),
    [
        # 6 * 6 * 4 outputs of 3 * 3 * 3 products; 4 * 27 weights and 4 biases of 4 bytes
        (
            "conv_2d",
            {},
            CONVOLUTION.inputs,
            codes((1, 6, 6, 4)),
            Workload("gemm", "int8", 144 * 27, 27, weight_bytes=108 + 16, input_bytes=192, output_bytes=144),
        ),
        (
            "depthwise_conv_2d",
            {},
            (codes((1, 8, 8, 3)), codes((1, 3, 3, 6))),
            codes((1, 6, 6, 6)),
            Workload("depthwise", "int8", 216 * 9, 9, weight_bytes=54, input_bytes=192, output_bytes=216),
        ),
        (
            "fully_connected",
            {},
            (reals(2, 5), reals(3, 5)),
            reals(2, 3),
            Workload("gemm", "float32", 6 * 5, 5, weight_bytes=60, input_bytes=40, output_bytes=24),
        ),
        (
            "add",
            {},
            (codes((2, 4)), codes((4,))),
            codes((2, 4)),
            Workload("elementwise", elements=8, input_bytes=12, output_bytes=8),
        ),
        (
            "max_pool_2d",
            POOL,
            (codes((1, 2, 2, 1)),),
            codes((1, 1, 2, 1)),
            # the first window sees one column and one of padding, which nobody reads
            Workload("elementwise", elements=2 + 4, input_bytes=4, output_bytes=2),
        ),
        (
            "mean",
            {"axes": [1]},
            (codes((2, 7)),),
            codes((2,)),
            Workload("elementwise", elements=14, input_bytes=14, output_bytes=2),
        ),
    ],
)
def test_workload(
    op: str, parameters: dict[str, Any], inputs: tuple[TensorType, ...], ofm: TensorType, expected: Workload
) -> None:
    assert operator(op).workload(Call(given(op, **parameters), inputs, (ofm,), {})) == expected
