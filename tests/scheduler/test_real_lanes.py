"""Real numbers on the lanes of the vector unit: what the machine computes is what the host would, and it is timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.instructions.elementwise import RELATIONS
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator

LANES = ["vector.float16_lanes=4", "vector.float32_lanes=2", "scratchpad.size_kib=32"]
WITH = npusim.hardware("edge-128", LANES)
WITHOUT = npusim.hardware("edge-128", LANES[2:])
TYPES = ("float32", "float16")
ALLOWED = 2e-6
"""Relative, of float32 sums and softmax: lanes sum in float64, the host as LiteRT does in float32."""


def one(op: str, dtype: str, *shapes: tuple[int, ...], result: str = "", **parameters: Any) -> Graph:
    """A graph of one operator."""
    builder = GraphBuilder(op)
    inputs = [builder.input(f"x{n}", TensorType(dtype, shape)) for n, shape in enumerate(shapes)]
    row = operator(op)
    kind = row.parameters(**parameters)
    return builder.graph(builder.node(op, inputs, [unshaped(result or dtype)], kind))


def check(graph: Graph, dtype: str, *, positive: bool = False, sums: bool = False) -> None:
    """The NPU with lanes gives the bytes that the host gives, float32 `sums` nearly, all of it on the vector unit."""
    rng = np.random.default_rng(0)
    values = [
        rng.uniform(0.1 if positive else -4, 4, graph.tensors[number].type.shape).astype(dtype)
        for number in graph.inputs
    ]
    fast = npusim.simulate(npusim.compile(graph, WITH), values)
    slow = npusim.simulate(npusim.compile(graph, WITHOUT), values)
    assert {layer.unit for layer in fast.layers} == {"vector"}
    assert {layer.unit for layer in slow.layers} == {"host"}
    assert "vector.float16_lanes" in slow.layers[0].reason
    for one_, other in zip(fast.outputs, slow.outputs, strict=True):
        assert one_.dtype == other.dtype
        if sums and dtype == "float32":
            np.testing.assert_allclose(one_, other, rtol=ALLOWED, atol=ALLOWED)
        else:
            assert one_.tobytes() == other.tobytes()


UNARY = (
    "abs", "neg", "exp", "sin", "cos", "floor", "ceil", "round", "sign", "square", "relu", "relu6",
    "relu_n1_to_1", "relu_0_to_1", "logistic", "tanh", "hard_swish",
)  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_operand(op: str, dtype: str) -> None:
    check(one(op, dtype, (3, 50, 7)), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["log", "sqrt", "rsqrt"])
def test_functions_of_positive_numbers(op: str, dtype: str) -> None:
    check(one(op, dtype, (64, 9)), dtype, positive=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("op", "parameters"),
    [
        ("leaky_relu", {"alpha": 0.3}),
        ("elu", {"alpha": 1.5}),
        ("gelu", {"approximate": False}),
        ("gelu", {"approximate": True}),
        ("softmax", {"beta": 0.5}),
        ("log_softmax", {"beta": 0.5}),
    ],
)
def test_functions_with_parameters(op: str, parameters: dict[str, Any], dtype: str) -> None:
    check(one(op, dtype, (5, 40), **parameters), dtype, sums="softmax" in op)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", ["mean", "sum", "reduce_max", "reduce_min"])
def test_reductions(op: str, axes: tuple[int, ...], dtype: str) -> None:
    check(one(op, dtype, (4, 9, 6), axes=axes), dtype, sums=True)


@pytest.mark.parametrize("op", ["average_pool_2d", "max_pool_2d", "l2_pool_2d"])
@pytest.mark.parametrize("dtype", TYPES)
def test_pools(op: str, dtype: str) -> None:
    window = {"filter": (3, 2), "strides": (2, 1), "padding": ((1, 1), (0, 1))}
    check(one(op, dtype, (2, 9, 8, 5), activation="relu6", **window), dtype, sums=True)


@pytest.mark.parametrize("op", ["adaptive_average_pool_2d", "adaptive_max_pool_2d"])
@pytest.mark.parametrize("size", [(3, 5), (12, 3), (2, 2), (1, 11)])
@pytest.mark.parametrize("dtype", TYPES)
def test_pools_into_bins(op: str, size: tuple[int, int], dtype: str) -> None:
    check(one(op, dtype, (2, 9, 8, 5), activation="relu6", size=size), dtype, sums=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_padding_that_counts_is_a_pad_in_front(dtype: str) -> None:
    window = {"filter": (3, 2), "strides": (2, 1), "padding": ((1, 2), (0, 1)), "counted": ((1, 1), (0, 1))}
    graph = one("average_pool_2d", dtype, (2, 9, 8, 5), **window)
    values = [np.random.default_rng(0).uniform(-4, 4, (2, 9, 8, 5)).astype(dtype)]
    fast, slow = (npusim.simulate(npusim.compile(graph, machine), values) for machine in (WITH, WITHOUT))
    assert [layer.unit for layer in fast.layers] == ["dma", "vector"]
    assert [layer.unit for layer in slow.layers] == ["host"]
    allowed = 1e-3 if dtype == "float16" else ALLOWED
    np.testing.assert_allclose(fast.outputs[0], slow.outputs[0], rtol=allowed, atol=allowed)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("op", "others", "parameters"),
    [
        ("swish", [], {}),
        ("softplus", [], {"beta": 1.5}),
        ("hard_sigmoid", [], {"alpha": 0.2, "beta": 0.4}),
        ("hard_swish", [], {"alpha": 0.2, "beta": 0.4}),
        ("clip", [], {"least": -1.0, "most": 2.0}),
        ("clip", [], {"most": 2.0}),
        ("batch_normalization", [(6,)] * 4, {"axis": 1}),
        ("group_normalization", [(6,)] * 2, {"axis": 1, "groups": 3}),
        ("group_normalization", [(8,)] * 2, {"axis": 3, "groups": 4}),
        ("layer_normalization", [(5, 8)] * 2, {"begin_axis": 2}),
        ("layer_normalization", [(8,)] * 2, {"begin_axis": 3}),
        ("lp_normalization", [], {"axes": (1,), "p": 1}),
        ("lp_normalization", [], {"axes": (3,), "p": 2}),
        ("lp_normalization", [], {"axes": (0, 2), "p": 2}),
    ],
)
def test_what_lanes_do_step_by_step(
    op: str, others: list[tuple[int, ...]], parameters: dict[str, Any], dtype: str
) -> None:
    """Nearly what the host gives in one; steps of halves are rounded one by one."""
    graph = one(op, dtype, (2, 6, 5, 8), *others, **parameters)
    rng = np.random.default_rng(0)
    values = [rng.uniform(0.1, 4, graph.tensors[number].type.shape).astype(dtype) for number in graph.inputs]
    values[0] -= values[0].dtype.type(2)
    fast = npusim.simulate(npusim.compile(graph, WITH), values)
    slow = npusim.simulate(npusim.compile(graph, WITHOUT), values)
    assert "host" not in {layer.unit for layer in fast.layers}
    assert {layer.unit for layer in slow.layers} == {"host"}
    near = 2e-5 if dtype == "float32" else 2e-2
    np.testing.assert_allclose(fast.outputs[0], slow.outputs[0], rtol=near, atol=near)


def test_saturating_quantize_on_lanes() -> None:
    values = np.array([0.3, -0.25, 1e30, -1e30, np.inf, -np.inf], np.float32)
    builder = GraphBuilder("quantize")
    kind = unshaped("int8", Quantization((0.5,), (0,)))
    x = builder.input("x", TensorType("float32", values.shape))
    graph = builder.graph(
        builder.node("quantize", [x], [kind], operator("quantize").parameters(saturating=True))
    )
    run = npusim.simulate(npusim.compile(graph, WITH), [values])
    assert {layer.unit for layer in run.layers} == {"vector"}
    assert run.outputs[0].tolist() == [1, -1, 127, -128, 127, -128]


BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "squared_difference",
    "prelu",
    "floor_div",
    "floor_mod",
)
SHAPES = [
    ((3, 4, 5), (3, 4, 5)),
    ((3, 4, 5), (5,)),
    ((3, 4, 5), (1,)),
    ((3, 1, 5), (4, 1)),
    ((2, 3, 1, 5), (1, 4, 1)),
]


@pytest.mark.cases(40)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("op", BINARY)
def test_functions_of_two_operands(op: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    check(one(op, dtype, *shapes), dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_powers(dtype: str) -> None:
    check(one("pow", dtype, (3, 4), (4,)), dtype, positive=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_an_activation_of_a_sum(dtype: str) -> None:
    check(one("add", dtype, (6, 7), (6, 7), activation="relu_n1_to_1"), dtype)


@pytest.mark.cases(24)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("op", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_comparisons_give_truths(op: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    check(one(op, dtype, *shapes, result="bool"), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("codes", ["int8", "uint8"])
def test_reals_become_codes(codes: str, dtype: str) -> None:
    builder = GraphBuilder("quantize")
    x = builder.input("x", TensorType(dtype, (40, 30)))
    result = TensorType(codes, (40, 30), Quantization((0.03125,), (3,)))
    graph = builder.graph(builder.node("quantize", [x], [result], operator("quantize").parameters()))
    values = [np.random.default_rng(0).normal(size=(40, 30)).astype(dtype)]
    fast, slow = (npusim.simulate(npusim.compile(graph, machine), values) for machine in (WITH, WITHOUT))
    assert fast.layers[0].unit == "vector"
    np.testing.assert_array_equal(fast.outputs[0], slow.outputs[0])


def test_what_does_not_fit_is_cut() -> None:
    """64 KiB in and out, a scratchpad of 32 KiB."""
    check(one("relu", "float32", (128, 128)), "float32")


@pytest.mark.parametrize(
    ("dtype", "elements", "cycles"),
    [
        ("float32", 7, 8 + 4 * 1),  # 4 groups of 2 lanes
        ("float16", 7, 8 + 2 * 1),  # 2 groups of 4 lanes
    ],
)
def test_cycles_by_hand(dtype: str, elements: int, cycles: int) -> None:
    from npusim.isa.instructions.instruction import Context
    from npusim.isa.instructions.lanes import format_of
    from npusim.isa.instructions.vector import Unary

    relu = Unary(format=format_of(dtype), function=8, size=elements)
    assert relu.cost(Context(WITH)).cycles == cycles


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "maximum", "minimum", "floor_mod", "less", "equal", "greater_equal"]
)
def test_integers_without_scale_use_the_lanes_of_float32(op: str, dtype: str) -> None:
    """Sums and products wrap; a scalar and a row broadcast."""
    rng = np.random.default_rng(1)
    for shapes in (((7, 30), (7, 30)), ((7, 30), (30,)), ((), (7, 30))):
        graph = one(op, dtype, *shapes, result="bool" if op in RELATIONS else "")
        ends = np.iinfo(dtype)
        values = [np.asarray(rng.integers(ends.min, ends.max, shape, dtype)) for shape in shapes]
        values[0].flat[0] = np.broadcast_to(values[1], values[0].shape).flat[0] if shapes[0] else 0
        fast, slow = (npusim.simulate(npusim.compile(graph, machine), values) for machine in (WITH, WITHOUT))
        assert ([layer.unit for layer in fast.layers], [layer.unit for layer in slow.layers]) == (
            ["vector"],
            ["host"],
        )
        assert fast.outputs[0].tobytes() == slow.outputs[0].tobytes()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_numbers_become_the_nearest_float32(dtype: str) -> None:
    graph = one("cast", dtype, (300,), result="float32")
    ends = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(ends.min, ends.max, 300, dtype)
    values[:4] = (1 << 24) + 1, (1 << 24) + 3, ends.min, ends.max
    run = npusim.simulate(npusim.compile(graph, WITH), [values])
    assert [layer.unit for layer in run.layers] == ["vector"]
    assert run.outputs[0].tobytes() == values.astype(np.float32).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_float64_that_lanes_round_alike(dtype: str) -> None:
    check(one("erf", dtype, (64, 9)), dtype)
    values = [np.random.default_rng(0).normal(size=(64, 9)).astype(dtype)]
    graph = one("reciprocal", dtype, (64, 9))
    fast, slow = (npusim.simulate(npusim.compile(graph, machine), values) for machine in (WITH, WITHOUT))
    assert ([layer.unit for layer in fast.layers], [layer.unit for layer in slow.layers]) == (
        ["vector"],
        ["host"],
    )
    assert fast.outputs[0].tobytes() == slow.outputs[0].tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "units"), [((3, 8, 5), {"dma", "vector"}), ((3, 8, 1), {"none", "vector"})]
)
def test_a_softmax_along_another_axis(shape: tuple[int, ...], units: set[str], dtype: str) -> None:
    graph = one("softmax", dtype, shape, axis=1)
    values = [np.random.default_rng(0).uniform(-4, 4, shape).astype(dtype)]
    fast, slow = (npusim.simulate(npusim.compile(graph, machine), values) for machine in (WITH, WITHOUT))
    assert {layer.unit for layer in fast.layers} == units
    allowed = 1e-3 if dtype == "float16" else ALLOWED
    np.testing.assert_allclose(fast.outputs[0], slow.outputs[0], rtol=allowed, atol=allowed)


def test_quantized_values_beside_floats_go_by_way_of_float32() -> None:
    """As ONNX defines it: dequantized, added to a float per column, limited, quantized; the bytes of the reference."""
    scales = Quantization((0.05,), (134,)), Quantization((0.04,), (120,))
    builder = GraphBuilder("linear")
    x = builder.input("x", TensorType("uint8", (40, 16), scales[0]))
    bias = builder.constant("bias", np.linspace(-2, 2, 16, dtype=np.float32))
    how = operator("add").parameters(rescale="float32", activation="relu6")
    graph = builder.graph(builder.node("add", [x, bias], [unshaped("uint8", scales[1])], how))
    values = [np.arange(640).reshape(40, 16).astype(np.uint8)]
    fast, slow = (npusim.simulate(npusim.compile(graph, machine), values) for machine in (WITH, WITHOUT))
    assert {layer.unit for layer in fast.layers} <= {"vector", "none"}
    assert {layer.unit for layer in slow.layers} == {"host"}
    assert fast.outputs[0].tobytes() == slow.outputs[0].tobytes()
