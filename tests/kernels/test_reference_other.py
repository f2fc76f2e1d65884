"""Softmax, look-up tables, moves, resizes, positions: LiteRT's bytes, small vectors, rules, aliases, work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.tflite.reader import parse
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.graph import call_of
from npusim.kernels.operator.operator import Alias, Call
from npusim.kernels.operators.movement.joining import rescaling_table
from npusim.kernels.operators.reduction.softmax import SOFTMAX, fixed_point_numbers
from npusim.kernels.table import operator

from .calls import call_with, codes, given, reals, results
from .litert_cases import litert_cases

EDGE = hardware("edge-128")

# Bytes of the LiteRT reference kernels

CASES = (
    "SOFTMAX", "LOGISTIC", "TANH", "RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "RESIZE_BILINEAR", "ARG_MAX",
    "DEQUANTIZE", "PAD", "CONCATENATION",
)  # fmt: skip

MODELS = (
    "PADV2", "MAXIMUM", "MINIMUM", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "RESIZE_NEAREST_NEIGHBOR", "ARG_MIN",
    "LOG_SOFTMAX", "L2_NORMALIZATION", "REDUCE_MAX", "REDUCE_MIN", "SUM",
    "BATCH_TO_SPACE_ND", "DEPTH_TO_SPACE", "GATHER", "MIRROR_PAD", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "TILE",
)  # fmt: skip

CASES_OF = {"MIRROR_PAD": 36}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_reference_gives_the_bytes_of_litert(shared: Path, name: str, dtype: str) -> None:
    cases = list(litert_cases(shared, name, dtype))
    assert len(cases) == 40
    for case in cases:
        entry = operator(case.operator)
        assert entry.broken_rule(case.call) is None, case.name
        [found], [expected] = entry.reference(case.call, case.values), case.expected
        assert found.dtype == expected.dtype, case.name
        assert np.array_equal(found, expected), case.name


@pytest.mark.cases(13)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in MODELS for dtype in ("int8", "uint8") if (name, dtype) != ("SUM", "int8")],
)
def test_one_operator_models_give_the_bytes_of_litert(shared: Path, name: str, dtype: str) -> None:
    stem = shared / "ops_litert_ref" / f"{name}.{dtype}"
    entries = json.loads(Path(f"{stem}.json").read_text())["cases"]
    assert len(entries) == CASES_OF.get(name, 40)
    with np.load(f"{stem}.npz") as arrays:
        for entry in entries:
            graph = parse(arrays[f"c{entry['case']}_model"].tobytes(), name)
            [node] = graph.nodes
            call = call_of(graph, node)
            tensors = [graph.tensors[index] for index in node.inputs if index is not None]
            values = [
                arrays[entry["tensors"][index]["key"]] if tensor.data is None else tensor.data
                for index, tensor in zip(entry["inputs"], tensors, strict=False)
            ]
            assert operator(node.op).broken_rule(call) is None
            [found] = operator(node.op).reference(call, values)
            expected = arrays[entry["tensors"][entry["outputs"][0]]["key"]]
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert np.array_equal(found, expected), entry["case"]


# Softmax

BETA = given("softmax", beta=1.0)


def shares(*shape: int) -> TensorType:
    """The type of int8 probabilities."""
    return codes(*shape, scale=1 / 256, zero_point=-128)


def test_softmax_of_equal_codes_is_uniform() -> None:
    call = call_with([codes(2, 4)], [shares(2, 4)], BETA)
    assert results(SOFTMAX, call, [[5] * 4, [-128] * 4]) == [[[64 - 128] * 4] * 2]


def test_softmax_counts_a_certain_class_as_255_of_256() -> None:
    call = call_with([codes(1, 2)], [shares(1, 2)], BETA)
    assert results(SOFTMAX, call, [[127, -128]]) == [[[127, -128]]]


def test_softmax_in_floating_point() -> None:
    call = call_with([reals(1, 2)], [reals(1, 2)], given("softmax", beta=2.0))
    [[row]] = results(SOFTMAX, call, [[0.0, np.log(2.0)]])
    assert row == pytest.approx([0.2, 0.8], rel=1e-6)


@pytest.mark.parametrize("scale", [2**-20, 0.001, 0.1, 3.0])
def test_fixed_point_softmax_is_near_the_real_one(scale: float) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-128, 128, (20, 10)).astype(np.int8)
    call = call_with([codes(20, 10, scale=scale)], [shares(20, 10)], BETA)
    [found] = SOFTMAX.reference(call, [values])
    exponentials = np.exp(scale * (values.astype(float) - 127))
    expected = 256 * exponentials / exponentials.sum(axis=1, keepdims=True) - 128
    assert np.abs(np.minimum(expected, 127) - found.astype(float)).max() < 0.51


@pytest.mark.parametrize(
    ("scale", "beta", "expected"),
    [
        # 0.25 * 2**26 = 2**24 = 0.5 * 2**25; 31 * 2**26 / 2**25 = 62
        (0.25, 1.0, (1 << 30, 25, -62)),
        (0.25, 0.5, (1 << 30, 24, -124)),
        # limited to 2**31 - 1, a multiplier of almost 1; 31 * 2**26 / 2**31 = 0.97
        (1000.0, 1.0, ((1 << 31) - 1, 31, 0)),
    ],
)
def test_softmax_parameters(scale: float, beta: float, expected: tuple[int, int, int]) -> None:
    call = call_with([codes(1, 4, scale=scale)], [shares(1, 4)], given("softmax", beta=beta))
    assert fixed_point_numbers(call) == expected


# Look-up tables


def test_a_table_is_in_the_order_of_raw_bytes() -> None:
    every = np.arange(256, dtype=np.uint8)
    signed = call_with([codes(256)], [codes(256)])
    assert results(operator("relu"), signed, every.view(np.int8)) == [[*range(128), *[0] * 128]]
    kind = codes(256, dtype="uint8", zero_point=100)
    unsigned = call_with([kind], [kind])
    assert results(operator("relu"), unsigned, every) == [[*[100] * 100, *range(100, 256)]]


@pytest.mark.parametrize(
    ("name", "parameters", "values", "expected"),
    [
        # logistic(0) = 128/256, logistic(+-6.25) = 0.9981 and 0.0019
        ("logistic", {}, [0, 50, -50], [0, 127, -128]),
        # tanh(0.5) = 0.4621 in 1/128 is 59.2
        ("tanh", {}, [0, 4, -4, 127], [0, 59, -59, 127]),
        ("relu", {}, [-3, 0, 3], [0, 0, 3]),
        ("relu6", {}, [-3, 47, 48, 49], [0, 47, 48, 48]),
        # -5 / 4 = -1.25; -6 / 4 = -1.5, half away from zero
        ("leaky_relu", {"alpha": 0.25}, [-5, -6, 7], [-1, -2, 7]),
        # x * (x + 3) / 6 at 1: 4 / 6 = 0.667 in 1/8 is 5.33; beyond 3 it is x, below -3 zero
        ("hard_swish", {}, [8, 24, 40, -24, -40], [5, 24, 40, 0, 0]),
        # x * (x / 4 + 1/4) at 1: 0.5; from 3 on x, up to -1 zero
        ("hard_swish", {"alpha": 0.25, "beta": 0.25}, [8, 24, 40, -8, -40], [4, 24, 40, 0, 0]),
        # 1 / 4 + 1/4 and its limits 0 and 1, which is 8/8
        ("hard_sigmoid", {"alpha": 0.25, "beta": 0.25}, [8, 24, 40, -8, -40], [4, 8, 8, 0, 0]),
        # 1 * 0.7311 in 1/8 is 5.85; -1 * 0.2689 is -2.15
        ("swish", {}, [8, -8, 0, 127], [6, -2, 0, 127]),
        # log(1 + e) = 1.3133 in 1/8 is 10.5; log(1 + 1/e) is 2.51; log(2) is 5.55
        ("softplus", {}, [8, -8, 0, 127], [11, 3, 6, 127]),
        ("softplus", {"threshold": 0.5}, [8, -8, 0, 127], [8, 3, 6, 127]),
        ("clip", {"least": -0.5, "most": 1.5}, [-9, -4, 12, 127], [-4, -4, 12, 12]),
        ("clip", {"most": 1.5}, [-9, -4, 12, 127], [-9, -4, 12, 12]),
    ],
)
def test_eight_bit_functions(
    name: str, parameters: dict[str, Any], values: list[int], expected: list[int]
) -> None:
    output = {"logistic": (1 / 256, -128), "tanh": (1 / 128, 0)}.get(name, (0.125, 0))
    source = codes(len(values), scale=0.125)
    target = codes(len(values), scale=output[0], zero_point=output[1])
    call = call_with([source], [target], given(name, **parameters))
    assert results(operator(name), call, values) == [expected]


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("logistic", {}, [0.2689414, 0.5, 0.9933072]),
        ("tanh", {}, [-0.7615942, 0.0, 0.9999092]),
        ("relu", {}, [0.0, 0.0, 5.0]),
        ("relu6", {}, [0.0, 0.0, 5.0]),
        ("leaky_relu", {"alpha": 0.5}, [-0.5, 0.0, 5.0]),
        ("hard_swish", {}, [-1 / 3, 0.0, 5.0]),
        ("hard_swish", {"alpha": 0.2, "beta": 0.1}, [0.0, 0.0, 5.0]),
        ("hard_sigmoid", {"alpha": 0.2, "beta": 0.3}, [0.1, 0.3, 1.0]),
        ("swish", {}, [-0.2689414, 0.0, 4.9665358]),
        ("softplus", {}, [0.3132617, 0.6931472, 5.0067153]),
        ("softplus", {"beta": 2.0}, [0.0634640, 0.3465736, 5.0000227]),
        ("softplus", {"threshold": 4.0}, [0.3132617, 0.6931472, 5.0]),
        ("clip", {"least": -0.5}, [-0.5, 0.0, 5.0]),
        ("clip", {"least": 2.0, "most": 1.0}, [1.0, 1.0, 1.0]),
    ],
)
def test_functions_in_floating_point(name: str, parameters: dict[str, Any], expected: list[float]) -> None:
    [found] = results(
        operator(name), call_with([reals(3)], [reals(3)], given(name, **parameters)), [-1.0, 0.0, 5.0]
    )
    assert found == pytest.approx(expected, rel=1e-6)


def test_logistic_of_the_largest_arguments_is_quiet() -> None:
    call = call_with([codes(2, scale=100.0)], [codes(2, scale=1 / 256, zero_point=-128)])
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        assert results(operator("logistic"), call, [-128, 127]) == [[-128, 127]]


# Moves


def test_reshape_and_squeeze_keep_the_order_of_elements() -> None:
    call = call_with([codes(2, 1, 3)], [codes(3, 2)], given("reshape", shape=[3, -1]))
    assert results(operator("reshape"), call, range(6)) == [[[0, 1], [2, 3], [4, 5]]]
    call = call_with([codes(2, 1, 3)], [codes(2, 3)], given("squeeze"))
    assert results(operator("squeeze"), call, range(6)) == [[[0, 1, 2], [3, 4, 5]]]


def test_pad_puts_the_zero_point_around_codes() -> None:
    call = call_with(
        [codes(1, 2, zero_point=-7)], [codes(2, 4, zero_point=-7)], given("pad", paddings=[[0, 1], [1, 1]])
    )
    assert results(operator("pad"), call, [1, 2]) == [[[-7, 1, 2, -7], [-7] * 4]]


def test_pad_with_a_value() -> None:
    call = call_with([reals(1)], [reals(2)], given("pad", paddings=[[1, 0]], pad_value=0.5))
    assert results(operator("pad"), call, [2.0]) == [[0.5, 2.0]]


def test_concatenation_rescales_uint8_inputs_of_another_scale() -> None:
    same, other = codes(1, 2, dtype="uint8", zero_point=10), codes(1, 2, dtype="uint8", scale=0.5)
    joined = codes(1, 4, dtype="uint8", zero_point=10)
    call = call_with([same, other], [joined], given("concatenation", axis=1))
    # 5 * 0.5 = 2.5, half away from zero
    assert results(operator("concatenation"), call, [1, 2], [5, 255]) == [[[1, 2, 13, 138]]]
    assert rescaling_table(call, 0) is None
    table = rescaling_table(call, 1)
    assert table is not None
    assert table.tolist()[:4] == [10, 11, 11, 12]


def test_split_cuts_unequal_pieces() -> None:
    call = call_with([codes(2, 3)], [codes(2, 1), codes(2, 2)], given("split", axis=1, sizes=[1, 2]))
    assert results(operator("split"), call, range(6)) == [[[0], [3]], [[1, 2], [4, 5]]]


def test_transpose() -> None:
    call = call_with([codes(2, 3)], [codes(3, 2)], given("transpose", perm=[1, 0]))
    assert results(operator("transpose"), call, range(6)) == [[[0, 3], [1, 4], [2, 5]]]


def test_slices_take_strides_backwards_and_drop_axes() -> None:
    call = call_with([codes(3, 4)], [codes(2, 2)], given("slice", begin=[1, 1], size=[2, 2]))
    assert results(operator("slice"), call, range(12)) == [[[5, 6], [9, 10]]]
    backwards = given("strided_slice", begin=[2, 3], size=[1, 2], strides=[1, -2], shape=[2])
    call = call_with([codes(3, 4)], [codes(2)], backwards)
    assert results(operator("strided_slice"), call, range(12)) == [[11, 9]]


# Aliases


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        (
            "reshape",
            call_with([codes(2, 3)], [codes(6)], given("reshape", shape=[6])),
            (Alias(part=("out", 0), whole=("in", 0), offset_bytes=0),),
        ),
        (
            "concatenation",
            call_with([codes(1, 2, 5), codes(1, 3, 5)], [codes(1, 5, 5)], given("concatenation", axis=1)),
            (Alias(("in", 0), ("out", 0), 0), Alias(("in", 1), ("out", 0), 10)),
        ),
        (
            "split",
            call_with([reals(1, 6)], [reals(1, 2), reals(1, 4)], given("split", axis=1, sizes=[2, 4])),
            (Alias(("out", 0), ("in", 0), 0), Alias(("out", 1), ("in", 0), 8)),
        ),
        (
            "concatenation",
            call_with([codes(2, 1), codes(2, 1)], [codes(2, 2)], given("concatenation", axis=1)),
            None,
        ),
        (
            "split",
            call_with([codes(2, 2)], [codes(2, 1), codes(2, 1)], given("split", axis=1, sizes=[1, 1])),
            None,
        ),
        (
            "concatenation",
            call_with(
                [codes(2, dtype="uint8"), codes(2, dtype="uint8", scale=2.0)],
                [codes(4, dtype="uint8")],
                given("concatenation", axis=0),
            ),
            None,
        ),
    ],
)
def test_aliases(name: str, call: Call, expected: tuple[Alias, ...] | None) -> None:
    entry = operator(name)
    assert entry.broken_rule(call) is None
    assert entry.alias is not None
    assert entry.alias(call) == expected


# Positions, comparisons, conversions, resizes


def test_arg_max_takes_the_first_of_equals() -> None:
    call = call_with([codes(2, 3)], [TensorType("int64", (2,))], given("arg_max", axis=1))
    assert results(operator("arg_max"), call, [[1, 5, 5], [-3, -4, -3]]) == [[1, 0]]


def test_maximum_and_minimum_broadcast() -> None:
    call = call_with([codes(2, 2), codes(2)], [codes(2, 2)])
    assert results(operator("maximum"), call, [1, 5, 3, -9], [2, 4]) == [[[2, 5], [3, 4]]]
    assert results(operator("minimum"), call, [1, 5, 3, -9], [2, 4]) == [[[1, 4], [2, -9]]]


def test_dequantize_per_tensor_and_per_channel() -> None:
    call = call_with([codes(3, scale=0.5, zero_point=-1)], [reals(3)])
    assert results(operator("dequantize"), call, [-128, -1, 127]) == [[-63.5, 0.0, 64.0]]
    channels = TensorType("int8", (2, 1), Quantization((0.5, 2.0), (0, 1), 0))
    assert results(operator("dequantize"), call_with([channels], [reals(2, 1)]), [3, 3]) == [[[1.5], [4.0]]]


@pytest.mark.parametrize(
    ("corners", "centers", "expected"),
    [
        (False, False, [0, 50, 100, 100]),  # positions 0, 0.5, 1, 1.5
        (True, False, [0, 33, 67, 100]),  # 0, 1/3, 2/3, 1
        (False, True, [0, 25, 75, 100]),  # -0.25, 0.25, 0.75, 1.25
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bilinear_positions(dtype: str, corners: bool, centers: bool, expected: list[int]) -> None:
    call = call_with(
        [codes(1, 1, 2, 1, dtype=dtype)],
        [codes(1, 1, 4, 1, dtype=dtype)],
        given("resize_bilinear", size=[1, 4], align_corners=corners, half_pixel_centers=centers),
    )
    [[[pixels]]] = results(operator("resize_bilinear"), call, [0, 100])
    assert [pixel for [pixel] in pixels] == expected


@pytest.mark.parametrize(
    ("corners", "centers", "expected"),
    [(False, False, [1, 1, 2, 2]), (True, False, [1, 1, 2, 2]), (False, True, [1, 1, 2, 2])],
)
def test_nearest_positions(corners: bool, centers: bool, expected: list[int]) -> None:
    how = given("resize_nearest_neighbor", size=[4, 1], align_corners=corners, half_pixel_centers=centers)
    call = call_with([codes(1, 2, 1, 1)], [codes(1, 4, 1, 1)], how)
    [[rows]] = results(operator("resize_nearest_neighbor"), call, [1, 2])
    assert [row[0][0] for row in rows] == expected


# Rules

IMAGE = codes(1, 4, 4, 2)


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("relu", call_with([codes(2), codes(2)], [codes(2)]), "takes 1 input and gives 1 output"),
        (
            "tanh",
            call_with([TensorType("int16", (2,))], [TensorType("int16", (2,))]),
            "an int16 input has one scale and zero point 0, its output zero point 0 and scale 1/32768",
        ),
        (
            "tanh",
            call_with([codes(2)], [reals(2)]),
            "operands are all int8, all uint8, all float32, all int16 or all float16",
        ),
        ("logistic", call_with([codes(2)], [codes(3)]), "input and output have one shape"),
        (
            "tanh",
            call_with([TensorType("int8", (2,))], [codes(2)]),
            "every 8-bit operand has one scale and zero point",
        ),
        (
            "softmax",
            call_with([codes(1, 2)], [codes(1, 2, scale=1 / 128)], BETA),
            "an output's zero point is the smallest value of its type, its scale 1/256 in 8 bits, about 1/65536 in 16",
        ),
        (
            "softmax",
            call_with([codes(1, 1048577)], [shares(1, 1048577)], BETA),
            "an 8-bit input has at most 1048576 elements along the axis, which is what the accumulator holds",
        ),
        (
            "softmax",
            call_with([codes(2)], [shares(2)], given("softmax", beta=-1)),
            "beta is a positive number",
        ),
        (
            "reshape",
            call_with([codes(2)], [codes(3)], given("reshape", shape=[3])),
            "input and output have the same number of elements",
        ),
        (
            "squeeze",
            call_with([codes(2, 3)], [codes(3, 2)], given("squeeze")),
            "the output has the input's shape without the axes",
        ),
        (
            "squeeze",
            call_with([codes(2, 3)], [codes(3)], given("squeeze", axes=[0])),
            "axes are axes of the input, of one element each",
        ),
        (
            "reshape",
            call_with([codes(6)], [codes(2, 3)], given("reshape", shape=[-1, 4])),
            "at most one size is -1 (to be inferred), and the others divide the number of elements",
        ),
        (
            "reshape",
            call_with([codes(6)], [codes(2, 3)], given("reshape", shape=[3, 2])),
            "the output has the shape that the parameters give",
        ),
        (
            "pad",
            call_with([codes(2)], [codes(3)], given("pad", paddings=[[1, 0], [0, 0]])),
            "paddings has two numbers for each axis",
        ),
        (
            "pad",
            call_with([codes(2)], [codes(3)], given("pad", paddings=[[1, 1]])),
            "the output is the input's shape plus its paddings",
        ),
        (
            "pad",
            call_with([codes(2)], [codes(3)], given("pad", paddings=[[0, 1]], pad_value=200)),
            "pad_value is a value of the output's element type",
        ),
        (
            "concatenation",
            call_with([codes(2), codes(2)], [codes(5)], given("concatenation", axis=0)),
            "the sizes of the inputs along the axis add up to the output's; all other sizes are equal",
        ),
        (
            "concatenation",
            call_with([codes(2)], [codes(2)], given("concatenation", axis=0, activation="relu")),
            "has no fused activation",
        ),
        (
            "split",
            call_with([codes(4)], [codes(2), codes(1)], given("split", axis=0, sizes=[2, 1])),
            "the sizes add up to that of the input along the axis",
        ),
        (
            "split",
            call_with([codes(4)], [codes(2), codes(1)], given("split", axis=0, sizes=[2, 2])),
            "the outputs have the input's shape but for their sizes along the axis",
        ),
        (
            "split",
            call_with([codes(4)], [codes(4)], given("split", axis=1, sizes=[4])),
            "axis is an axis of the input",
        ),
        (
            "resize_bilinear",
            call_with(
                [IMAGE],
                [IMAGE],
                given("resize_bilinear", size=[4, 4], align_corners=True, half_pixel_centers=True),
            ),
            "align_corners and half_pixel_centers are not both true",
        ),
        (
            "resize_bilinear",
            call_with([IMAGE], [codes(1, 8, 8, 3)], given("resize_bilinear", size=[8, 8])),
            "input and output are [batch, height, width, channels] and differ in height and width only,"
            " which size says",
        ),
        (
            "arg_max",
            call_with([codes(2, 3)], [TensorType("int32", (3,))], given("arg_max", axis=1)),
            "the output has the input's shape without the axis",
        ),
        (
            "arg_max",
            call_with([codes(2, 3)], [codes(2)], given("arg_max", axis=1)),
            "element types are (int8|uint8|int16|int32|int64|float16|float32|bool -> int32|int64)",
        ),
        (
            "transpose",
            call_with([codes(2, 3)], [codes(2, 3)], given("transpose", perm=[1, 1])),
            "perm names each axis of the input once",
        ),
        (
            "slice",
            call_with([codes(4)], [codes(3)], given("slice", begin=[2], size=[3])),
            "begin, size and strides have an entry per axis of the input and choose elements that it has",
        ),
    ],
)
def test_rules(name: str, call: Call, message: str) -> None:
    assert operator(name).broken_rule(call) == message


@pytest.mark.parametrize("name", ["topk_v2", "detection_post_process"])
def test_operators_of_the_host_say_why(name: str) -> None:
    reason = operator(name).host_reason(call_with([codes(1)], [codes(1)]), EDGE).words
    assert reason.startswith("runs on the host: ")


# Work


@pytest.mark.parametrize(
    ("name", "call", "kind", "elements", "moved"),
    [
        ("softmax", call_with([codes(2, 10)], [codes(2, 10)], BETA), "elementwise", 20, (20, 20)),
        ("reshape", call_with([codes(6)], [codes(2, 3)], given("reshape", shape=[2, 3])), "free", 0, (0, 0)),
        (
            "split",
            call_with([reals(2, 2)], [reals(2, 1), reals(2, 1)], given("split", axis=1, sizes=[1, 1])),
            "move",
            0,
            (16, 16),
        ),
        (
            "arg_max",
            call_with([codes(2, 9)], [TensorType("int32", (2,))], given("arg_max", axis=1)),
            "elementwise",
            18,
            (18, 8),
        ),
        ("resize_bilinear", call_with([IMAGE], [codes(1, 8, 8, 2)]), "elementwise", 4 * 128, (32, 128)),
    ],
)
def test_work(name: str, call: Call, kind: str, elements: int, moved: tuple[int, int]) -> None:
    work = operator(name).workload(call)
    assert (work.kind, work.elements) == (kind, elements)
    assert (work.input_bytes, work.output_bytes) == moved


@pytest.mark.parametrize(
    ("name", "inputs", "output", "rescaled"),
    [
        ("mul", [codes(6), codes(6, scale=0.5)], codes(6, scale=0.5), 6),
        ("mul", [codes(6), codes(6)], codes(6), 0),
        ("quantize", [codes(6, dtype="uint8", zero_point=128)], codes(6), 0),
        ("quantize", [codes(6, scale=0.5)], codes(6), 6),
        ("quantize", [reals(6)], codes(6), 0),
        ("dequantize", [codes(6, scale=0.5)], reals(6), 0),
        ("mean", [codes(2, 3, scale=0.5)], codes(2), 2),
        ("transpose", [codes(2, 3, scale=0.5)], codes(3, 2, scale=0.5), 0),
    ],
)
def test_work_counts_results_at_another_scale(
    name: str, inputs: list[TensorType], output: TensorType, rescaled: int
) -> None:
    """Those that a processor multiplies, shifts and rounds: not where only the zero point differs, and no reals."""
    parameters = {"mean": {"axes": [1]}, "transpose": {"perm": [1, 0]}}.get(name, {})
    assert (
        operator(name).workload(call_with(inputs, [output], given(name, **parameters))).rescaled == rescaled
    )
