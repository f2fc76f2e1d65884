"""Graphs of doors whose images are batch, channels, height, width: the same network in NHWC inside."""

from __future__ import annotations

import numpy as np
import pytest

import npusim
from npusim.frontends.frontend import builder_for
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import NCHW, NHWC, Graph, Layout
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operators.convolution import conv_2d, depthwise_conv_2d
from npusim.kernels.operators.movement.joining import ConcatenationParameters
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters
from npusim.kernels.operators.pooling.window_pools import MaxPool2dParameters

CODES = Quantization((0.05,), (3,))
SAME = ((1, 1), (1, 1))
IMAGE = np.random.default_rng(5).integers(-128, 128, (1, 6, 5, 3), np.int8)


def stored(values: Array, layout: Layout, order: str) -> Array:
    """A constant of the canonical order as the door stores it."""
    axes = getattr(layout, order)
    return np.ascontiguousarray(values.transpose([axes.index(axis) for axis in range(4)]))


def network(layout: Layout) -> Graph:
    """conv -> relu -> + constant -> depthwise -> pool -> concatenated with itself, as a door of a layout says it."""
    rng = np.random.default_rng(1)
    make = builder_for("net", layout)

    def filters(name: str, *shape: int, order: str, axis: int) -> int:
        values = rng.integers(-127, 128, shape, np.int8)
        scales = tuple(float(np.float32(scale)) for scale in rng.uniform(0.01, 0.02, shape[axis]))
        at = getattr(layout, order)[axis]
        return make.constant(
            name, stored(values, layout, order), Quantization(scales, (0,) * shape[axis], at)
        )

    image = make.input("image", TensorType("int8", stored(IMAGE, layout, "image").shape, CODES))
    weights = filters("weights", 4, 3, 3, 3, order="filter", axis=0)
    bias = make.constant("bias", rng.integers(-500, 500, 4, np.int32))
    (x,) = make.node(
        "conv_2d", (image, weights, bias), [unshaped("int8", CODES)], conv_2d.Parameters(padding=SAME)
    )
    (x,) = make.node("relu", (x,), [unshaped("int8", CODES)], name="relu")
    moved = make.constant(
        "moved", stored(rng.integers(-128, 128, (1, 1, 1, 4), np.int8), layout, "image"), CODES
    )
    (x,) = make.node("add", (x, moved), [unshaped("int8", CODES)], Activated())
    weights = filters("depthwise", 1, 3, 3, 4, order="depthwise", axis=3)
    (x,) = make.node(
        "depthwise_conv_2d",
        (x, weights, None),
        [unshaped("int8", CODES)],
        depthwise_conv_2d.Parameters(padding=SAME, depth_multiplier=1),
    )
    (y,) = make.node("max_pool_2d", (x,), [unshaped("int8", CODES)], MaxPool2dParameters(filter=(2, 2)))
    channels = layout.image[3]
    (both,) = make.node(
        "concatenation",
        (y, y),
        [unshaped("int8", CODES)],
        ConcatenationParameters(axis=channels),
        name="both",
    )
    return make.graph([both, x])


def test_a_door_of_another_layout_computes_the_same() -> None:
    ours, theirs = check_bound(network(NHWC)), check_bound(network(NCHW))
    expected = evaluate(ours, [IMAGE])
    found = evaluate(theirs, [stored(IMAGE, NCHW, "image")])
    for mine, other in zip(ours.outputs, theirs.outputs, strict=True):
        assert np.array_equal(stored(expected[mine], NCHW, "image"), found[other])
    result = npusim.simulate(npusim.compile(theirs), [stored(IMAGE, NCHW, "image")])
    assert all(
        np.array_equal(output, found[number])
        for output, number in zip(result.outputs, theirs.outputs, strict=True)
    )


def test_only_ends_are_transposed() -> None:
    graph = network(NCHW)
    assert [node.op for node in graph.nodes] == [
        *("transpose", "conv_2d", "relu", "add", "depthwise_conv_2d", "max_pool_2d", "concatenation"),
        *("transpose", "transpose"),
    ]
    shapes = [(tensor.name, tensor.type.shape) for tensor in graph.tensors if tensor.constant]
    assert sorted(shapes) == [
        ("bias", (4,)), ("depthwise", (1, 3, 3, 4)), ("moved", (1, 1, 1, 4)), ("weights", (4, 3, 3, 3))
    ]  # fmt: skip
    assert [graph.tensors[number].type.shape for number in graph.outputs] == [(1, 8, 5, 4), (1, 4, 6, 5)]


def test_codes_of_another_scale_stay_where_they_are() -> None:
    """A reshape to the same shape gives the same bytes another meaning: no image goes through the door's order."""
    make = builder_for("net", NCHW)
    (x,) = make.node(
        "max_pool_2d",
        (make.input("image", TensorType("int8", stored(IMAGE, NCHW, "image").shape, CODES)),),
        [unshaped("int8", CODES)],
        MaxPool2dParameters(filter=(2, 2)),
    )
    other = Quantization((0.5,), (0,))
    (y,) = make.node("reshape", (x,), [unshaped("int8", other)], ReshapeParameters(shape=make.shape(x)))
    (z,) = make.node("max_pool_2d", (y,), [unshaped("int8", other)], MaxPool2dParameters(filter=(2, 2)))
    graph = check_bound(make.graph([z]))
    assert [node.op for node in graph.nodes] == [
        *("transpose", "max_pool_2d", "reshape", "max_pool_2d", "transpose")
    ]
    found = evaluate(graph, [stored(IMAGE, NCHW, "image")])[graph.outputs[0]]
    wanted = IMAGE[:, :4, :3].copy()
    for row, column in np.ndindex(4, 3):
        wanted[:, row, column] = IMAGE[:, row : row + 3, column : column + 3].max((1, 2))
    np.testing.assert_array_equal(found, stored(wanted, NCHW, "image"))


def test_scales_follow_their_axis() -> None:
    graph = network(NCHW)
    axes = {
        tensor.name: tensor.type.quantization.axis
        for tensor in graph.tensors
        if tensor.constant and tensor.type.quantization is not None
    }
    assert (axes["weights"], axes["depthwise"]) == (0, 3)


@pytest.mark.parametrize("layout", [NHWC, NCHW])
def test_builders_of_doors(layout: Layout) -> None:
    make = builder_for("net", layout, {"x": (2, 3)})
    x = make.input("x", TensorType("int8", (-1, 3), CODES))
    (first,) = make.node("relu", (x,), [unshaped("int8", CODES)])
    (second,) = make.node("relu", (first,), [unshaped("int8", CODES)], name="relu_0")
    graph = check_bound(make.graph([second]))
    assert [node.name for node in graph.nodes] == ["relu_0", "relu_0_1"]
    assert graph.tensors[second].type.shape == (2, 3)
    assert isinstance(make, GraphBuilder)
