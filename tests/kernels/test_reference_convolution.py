"""Grouped and transposed convolutions, empty batches, float16, products that wrap: by hand, equal ways, LiteRT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.tflite.reader import parse
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .calls import call_with, codes, given, reals, results

ONE = {"strides": [1, 1], "padding": [[0, 0], [0, 0]]}
INT32 = TensorType("int32", (1,))


def of(op: str, call: Call, *values: Array | None) -> Array:
    """The output of an operator for arrays."""
    assert operator(op).broken_rule(call) is None
    [found] = operator(op).reference(call, values)
    assert (found.dtype, found.shape) == (call.outputs[0].numpy_dtype, call.outputs[0].shape)
    return found


def some(shape: tuple[int, ...], dtype: str = "int8", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_transpose_conv_gives_the_bytes_of_litert(shared: Path, dtype: str) -> None:
    stem = shared / "ops_litert_ref" / f"TRANSPOSE_CONV.{dtype}"
    entries = json.loads(Path(f"{stem}.json").read_text())["cases"]
    assert len(entries) == 40
    with np.load(f"{stem}.npz") as arrays:
        for entry in entries:
            graph = parse(arrays[f"c{entry['case']}_model"].tobytes(), stem.name)
            tensors = entry["tensors"]
            inputs = [arrays[tensors[i]["key"]] for i in entry["inputs"] if tensors[i]["role"] == "input"]
            found = evaluate(graph, inputs)[graph.outputs[0]]
            expected = arrays[tensors[entry["outputs"][0]]["key"]]
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert np.array_equal(found, expected), entry["case"]


# Groups


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_groups_are_convolutions_side_by_side(dtype: str) -> None:
    """Equal to one convolution whose filters have zeros where they see nothing."""
    ifm, filters = some((2, 4, 5, 6), dtype), some((9, 2, 3, 2), dtype, 1)
    coded = dtype != "float32"
    zero = 7 if dtype == "uint8" else 0
    dense = np.full((9, 2, 3, 6), zero, dtype)
    for group in range(3):
        rows, columns = slice(3 * group, 3 * group + 3), slice(2 * group, 2 * group + 2)
        dense[rows, :, :, columns] = filters[rows]
    window = given("conv_2d", strides=[1, 2], padding=[[1, 0], [0, 1]], dilations=[2, 1])

    def convolved(weights: Array) -> Array:
        types = [
            codes(*array.shape, dtype=dtype, scale=scale, zero_point=point) if coded else reals(*array.shape)
            for array, scale, point in ((ifm, 0.5, 3), (weights, 0.01, zero))
        ]
        result = codes(2, 3, 2, 9, dtype=dtype, scale=2.0, zero_point=5) if coded else reals(2, 3, 2, 9)
        return of("conv_2d", call_with(types, [result], window), ifm, weights)

    assert np.allclose(convolved(filters), convolved(dense), 1e-6, 0)


def test_a_group_of_one_channel_is_a_depthwise_convolution() -> None:
    ifm, filters = some((1, 3, 3, 4)), some((8, 2, 2, 1), seed=2)
    scales = tuple(0.01 * (1 + k) for k in range(8))
    result = codes(1, 2, 2, 8, scale=3.0)

    def with_axis(axis: int, *shape: int) -> TensorType:
        return TensorType("int8", shape, Quantization(scales, (0,) * 8, axis))

    grouped = call_with([codes(1, 3, 3, 4), with_axis(0, 8, 2, 2, 1)], [result], given("conv_2d", **ONE))
    by_channel = call_with(
        [codes(1, 3, 3, 4), with_axis(3, 1, 2, 2, 8)],
        [result],
        given("depthwise_conv_2d", **ONE, depth_multiplier=2),
    )
    assert np.array_equal(
        of("conv_2d", grouped, ifm, filters),
        of("depthwise_conv_2d", by_channel, ifm, filters.transpose(3, 1, 2, 0)),
    )


def test_groups_must_have_as_many_filters_each() -> None:
    call = call_with([codes(1, 1, 1, 4), codes(3, 1, 1, 2)], [codes(1, 1, 1, 3)], given("conv_2d", **ONE))
    assert str(operator("conv_2d").broken_rule(call)).startswith(
        "weights are [output channels, height, width, "
    )


# Transposed convolutions


def test_transposed_windows_add_up_where_they_overlap() -> None:
    # a pixel x gives x, 2x, 3x from twice its place on: 1 2 3+10 20 30, and the bias 100 on all
    window = given("transpose_conv", strides=[1, 2])
    call = call_with([codes(1, 1, 2, 1), codes(1, 1, 3, 1), INT32], [codes(1, 1, 5, 1)], window)
    [[[[found]]]] = [results(operator("transpose_conv"), call, [1, 10], [1, 2, 3], [100])]
    assert np.ravel(found).tolist() == [101, 102, 113, 120, 127]  # 130 is beyond the codes


@pytest.mark.parametrize(
    ("padding", "size", "expected"),
    [
        ([1, 0], None, [2, 13, 20, 30]),
        ([1, 1], None, [2, 13, 20]),
        # the size rules; where no window ends there is the bias, here none
        ([1, 1], (1, 6), [2, 13, 20, 30, 0, 0]),
        ([4, 0], (1, 2), [30, 0]),
        ([9, 0], (1, 2), [0, 0]),
    ],
)
def test_padding_of_a_transposed_convolution_is_dropped(
    padding: list[int], size: tuple[int, int] | None, expected: list[int]
) -> None:
    window = given("transpose_conv", strides=[1, 2], padding=[[0, 0], padding], size=size)
    call = call_with([codes(1, 1, 2, 1), codes(1, 1, 3, 1)], [codes(1, 1, len(expected), 1)], window)
    [found] = results(operator("transpose_conv"), call, [1, 10], [1, 2, 3])
    assert np.ravel(found).tolist() == expected


def test_a_transposed_convolution_is_the_transpose_of_one() -> None:
    """<conv(y), x> = <y, transposed(x)> for all images x and y, with the same weights."""
    window: dict[str, Any] = {"strides": [2, 3], "padding": [[1, 0], [2, 1]]}
    large, small = some((1, 6, 9, 2), "float32"), some((1, 3, 4, 5), "float32", 1)
    weights = some((2, 3, 2, 5), "float32", 2)  # [o, h, w, i] of the transposed one
    forward = call_with(
        [reals(1, 6, 9, 2), reals(5, 3, 2, 2)], [reals(1, 3, 4, 5)], given("conv_2d", **window)
    )
    back = call_with(
        [reals(1, 3, 4, 5), reals(2, 3, 2, 5)],
        [reals(1, 6, 9, 2)],
        given("transpose_conv", **window, size=(6, 9)),
    )
    one = (of("conv_2d", forward, large, weights.transpose(3, 1, 2, 0)) * small).sum()
    other = (of("transpose_conv", back, small, weights) * large).sum()
    assert one == pytest.approx(other, rel=1e-5)


def test_the_shape_of_a_transposed_convolution_follows_from_its_window() -> None:
    # (3 - 1) * 2 + 3 - 1 - 0 = 6 rows, (4 - 1) * 1 + 1 - 0 - 2 = 2 columns
    window = given("transpose_conv", strides=[2, 1], padding=[[1, 0], [0, 2]])
    call = call_with([reals(5, 3, 4, 2), reals(7, 3, 1, 2)], [reals(5, 6, 2, 7)], window)
    assert operator("transpose_conv").infer(call) == ((5, 6, 2, 7),)
    wrong = call_with(call.inputs, [reals(5, 6, 3, 7)], window)
    assert operator("transpose_conv").broken_rule(wrong) == (
        "the output has the shape that size, or kernel, strides and padding give, a channel per filter"
    )


# Empty batches, reals, integers


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize(
    ("op", "ifm", "weights", "ofm"),
    [
        ("conv_2d", (0, 4, 4, 2), (3, 2, 2, 2), (0, 3, 3, 3)),
        ("conv_2d", (0, 4, 4, 2), (2, 2, 2, 1), (0, 3, 3, 2)),
        ("depthwise_conv_2d", (0, 4, 4, 2), (1, 2, 2, 2), (0, 3, 3, 2)),
        ("transpose_conv", (0, 4, 4, 2), (3, 2, 2, 2), (0, 5, 5, 3)),
        ("fully_connected", (0, 4), (3, 4), (0, 3)),
        ("fully_connected", (0, 2, 2), (3, 4), (0, 3)),
        ("batch_matmul", (0, 2, 3), (0, 3, 4), (0, 2, 4)),
        ("batch_matmul", (2, 0, 3), (2, 3, 4), (2, 0, 4)),
    ],
)
def test_nothing_in_nothing_out(
    op: str, ifm: tuple[int, ...], weights: tuple[int, ...], ofm: tuple[int, ...], dtype: str
) -> None:
    types = [codes(*shape) if dtype == "int8" else TensorType(dtype, shape) for shape in (ifm, weights, ofm)]
    call = call_with(types[:2], types[2:], given(op))
    assert operator(op).infer(call) == (ofm,)
    of(op, call, some(ifm, dtype), some(weights, dtype))
    assert operator(op).workload(call).macs == 0


@pytest.mark.parametrize(
    ("op", "shapes", "ofm"),
    [
        ("conv_2d", [(1, 4, 4, 2), (3, 2, 2, 2), (3,)], (1, 3, 3, 3)),
        ("depthwise_conv_2d", [(1, 4, 4, 2), (1, 2, 2, 2), (2,)], (1, 3, 3, 2)),
        ("transpose_conv", [(1, 4, 4, 2), (3, 2, 2, 2), (3,)], (1, 5, 5, 3)),
        ("fully_connected", [(5, 4), (3, 4), (3,)], (5, 3)),
        ("batch_matmul", [(5, 4), (4, 3)], (5, 3)),
    ],
)
def test_halves_are_summed_in_wide_and_rounded_once(
    op: str, shapes: list[tuple[int, ...]], ofm: tuple[int, ...]
) -> None:
    values = [some(shape, "float16", seed) for seed, shape in enumerate(shapes)]
    halves = call_with(
        [TensorType("float16", shape) for shape in shapes], [TensorType("float16", ofm)], given(op)
    )
    wide = call_with([reals(*shape) for shape in shapes], [reals(*ofm)], given(op))
    expected = of(op, wide, *(value.astype(np.float32) for value in values)).astype(np.float16)
    assert np.array_equal(of(op, halves, *values), expected)


def test_small_terms_survive_beside_large_ones() -> None:
    """In float32, 2**24 + 1 - 2**24 is 0; accelerators of NNAPI may err by 1e-5."""
    row = [float(1 << 24), 1.0, -float(1 << 24)]
    for op, ifm, weights, ofm in (
        ("conv_2d", (1, 1, 1, 3), (1, 1, 1, 3), (1, 1, 1, 1)),
        ("depthwise_conv_2d", (1, 1, 3, 1), (1, 1, 3, 1), (1, 1, 1, 1)),
        ("transpose_conv", (1, 1, 1, 3), (1, 1, 1, 3), (1, 1, 1, 1)),
        ("fully_connected", (1, 3), (1, 3), (1, 1)),
        ("batch_matmul", (1, 3), (3, 1), (1, 1)),
    ):
        call = call_with([reals(*ifm), reals(*weights)], [reals(*ofm)], given(op))
        assert np.ravel(results(operator(op), call, row, [1.0] * 3)).tolist() == [1.0], op


def test_products_of_int32_wrap() -> None:
    kinds = [TensorType("int32", shape) for shape in ((1, 2), (1, 2), (1, 1))]
    call = call_with(kinds[:2], kinds[2:], given("batch_matmul", adj_y=True))
    assert results(operator("batch_matmul"), call, [1 << 16, 3], [1 << 16, 5]) == [[[15]]]
    assert results(operator("batch_matmul"), call, [1 << 30, 0], [2, 5]) == [[[-(1 << 31)]]]


def test_uint8_maps_take_int8_weights_with_a_scale_per_channel() -> None:
    weights = TensorType("int8", (2, 1, 1, 1), Quantization((0.5, 0.25), (0, 0), 0))
    ifm = codes(1, 1, 1, 1, dtype="uint8", zero_point=128)
    for op in ("conv_2d", "transpose_conv"):
        call = call_with([ifm, weights], [codes(1, 1, 1, 2, dtype="uint8", zero_point=128)], given(op))
        assert results(operator(op), call, [148], [-3, 8]) == [[[[[128 - 30, 128 + 40]]]]]
