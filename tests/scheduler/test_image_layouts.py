"""A network in NCHW takes the cycles of its twin in NHWC, and those of the transposes of its inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.frontend import builder_for
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import NCHW, NHWC, Graph, Layout
from npusim.kernels.table import operator

EDGE = hardware("edge-256")
CODES = Quantization((0.05,), (0,))
OTHER_CODES = {
    **dict.fromkeys(("softmax", "logistic"), Quantization((1 / 256,), (-128,))),
    "tanh": Quantization((1 / 128,), (0,)),
}
"""Of functions whose scale is fixed."""
SIZE = 32
SAME = ((1, 1), (1, 1))


def stored(values: Array, layout: Layout, order: str = "image") -> Array:
    """An array of the canonical order as the door stores it."""
    axes = getattr(layout, order)
    return np.ascontiguousarray(values.transpose([axes.index(axis) for axis in range(4)]))


class Net:
    """A network under construction, said by a door of some layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.make = layout, builder_for("net", layout)
        self._rng = np.random.default_rng(3)

    def axis(self, canonical: int) -> int:
        return self.layout.image[canonical]

    def input(self, *shape: int) -> int:
        door = [0] * 4
        for axis, size in enumerate(shape):
            door[self.axis(axis)] = size
        return self.make.input("image", TensorType("int8", tuple(door), CODES))

    def filter(self, order: str, *shape: int) -> int:
        values = stored(self._rng.integers(-127, 128, shape, np.int8), self.layout, order)
        return self.make.constant("filter", values, Quantization((0.01,), (0,)))

    def constant(self, values: Array) -> int:
        return self.make.constant("constant", values, CODES)

    def node(self, op: str, *inputs: int | None, **parameters: Any) -> int:
        kind = operator(op).parameters(**parameters)
        return self.make.node(op, inputs, [unshaped("int8", OTHER_CODES.get(op, CODES))], kind, name=op)[0]

    def conv(self, x: int, depth: int, filters: int, kernel: int = 3, stride: int = 1) -> int:
        padding = SAME if kernel == 3 else ((0, 0), (0, 0))
        weights = self.filter("filter", filters, kernel, kernel, depth)
        return self.node(
            "conv_2d", x, weights, None, strides=(stride,) * 2, padding=padding, activation="relu"
        )

    def depthwise(self, x: int, depth: int) -> int:
        weights = self.filter("depthwise", 1, 3, 3, depth)
        return self.node("depthwise_conv_2d", x, weights, None, padding=SAME)

    def fully_connected(self, x: int, units: int, sizes: tuple[int, int, int]) -> int:
        """Behind a flattened image of height, width and channels: columns are in the order of the door."""
        weights = self._rng.integers(-127, 128, (units, *sizes), np.int8)
        columns = stored(weights, self.layout).reshape(units, -1)
        flat = self.node("reshape", x, shape=(1, columns.shape[1]))
        matrix = self.make.constant("matrix", columns, Quantization((0.01,), (0,)))
        return self.node("fully_connected", flat, matrix, None)


def classifier(layout: Layout) -> Graph:
    """Convolutions, sums, channels side by side and in half, a factor per channel, pools, a pad, a resize, a matrix."""
    net = Net(layout)
    channels = net.axis(3)
    x = net.conv(net.input(1, SIZE, SIZE, 3), 3, 16)
    y = net.conv(net.depthwise(x, 16), 16, 16, kernel=1)
    x = net.node("add", x, y)
    both = net.node("concatenation", x, net.node("leaky_relu", y, alpha=0.1), axis=channels)
    x = net.node("slice", both, **part(net, 8, 16))
    x = net.node("average_pool_2d", x, filter=(2, 2), strides=(2, 2))
    mean = net.node("mean", x, axes=tuple(sorted((net.axis(1), net.axis(2)))), keep_dims=True)
    x = net.node("mul", x, net.node("logistic", net.conv(mean, 16, 16, kernel=1)))
    vector = np.arange(16, dtype=np.int8).reshape(1, 1, 1, 16)
    low = stored(vector, layout) if layout == NHWC else vector.reshape(16, 1, 1)
    x = net.node("add", x, net.constant(low))
    padding = [(0, 0), (1, 1), (0, 2), (0, 0)]
    x = net.node("pad", x, paddings=tuple(padding[layout.image.index(axis)] for axis in range(4)))
    x = net.node("channel_shuffle", x, groups=4, axis=channels)
    x = net.node(
        "resize_nearest_neighbor", net.node("max_pool_2d", x, filter=(2, 2), strides=(2, 2)), size=(6, 6)
    )
    x = net.fully_connected(x, 10, (6, 6, 16))
    return check_bound(net.make.graph([net.node("softmax", x)]))


def part(net: Net, first: int, count: int) -> dict[str, tuple[int, ...]]:
    """The parameters of a slice of channels."""
    begin, size = [0] * 4, [0] * 4
    for axis, (at, many) in enumerate(((0, 1), (0, SIZE), (0, SIZE), (first, count))):
        begin[net.axis(axis)], size[net.axis(axis)] = at, many
    return {"begin": tuple(begin), "size": tuple(size)}


def upscaler(layout: Layout) -> Graph:
    """An image in, an image out: down by space to depth, up by a transposed convolution and depth to space."""
    net = Net(layout)
    x = net.node("space_to_depth", net.input(1, SIZE, SIZE, 3), block_size=2)
    x = net.conv(x, 12, 24)
    x = net.node("transpose_conv", x, net.filter("transposed", 12, 2, 2, 24), None, strides=(2, 2))
    x = net.node("tanh", net.node("depth_to_space", x, block_size=2))
    return check_bound(
        net.make.graph([net.node("resize_bilinear", x, size=(48, 48), half_pixel_centers=True)])
    )


def turned(*shape: int, back: bool = False) -> Graph:
    """A transpose of an image by itself."""
    make = builder_for("turn", NHWC)
    x = make.input("image", TensorType("int8", shape, CODES))
    perm = (0, 3, 1, 2) if back else (0, 2, 3, 1)
    return check_bound(make.graph(make.node("transpose", [x], [unshaped("int8", CODES)], _perm(perm))))


def _perm(perm: tuple[int, ...]) -> Any:
    return operator("transpose").parameters(perm=perm)


@pytest.mark.parametrize("network", [classifier, upscaler])
def test_both_twins_give_the_same_bytes(network: Any) -> None:
    image = np.random.default_rng(4).integers(-128, 128, (1, SIZE, SIZE, 3), np.int8)
    ours = npusim.simulate(npusim.compile(network(NHWC), EDGE), [image]).outputs[0]
    theirs = npusim.simulate(npusim.compile(network(NCHW), EDGE), [stored(image, NCHW)]).outputs[0]
    wanted = stored(ours, NCHW) if ours.ndim == 4 else ours
    assert np.array_equal(theirs, wanted)


@pytest.mark.parametrize(("network", "ends"), [(classifier, ["input"]), (upscaler, ["input", "output"])])
def test_only_the_ends_take_time_to_turn(network: Any, ends: list[str]) -> None:
    """Of 132,987 cycles the classifier takes 979 more in NCHW; turning its input, a program by itself, takes 6515."""
    graphs = {layout.name: network(layout) for layout in (NHWC, NCHW)}
    added = [node.op for node in graphs["NCHW"].nodes if node.op == "transpose"]
    assert len(added) == len(ends)
    assert not [node for node in graphs["NHWC"].nodes if node.op == "transpose"]
    cycles = {
        name: npusim.simulate(npusim.compile(graph, EDGE), timing_only=True).cycles
        for name, graph in graphs.items()
    }
    sides = {"input": turned(1, 3, SIZE, SIZE), "output": turned(1, 48, 48, 3, back=True)}
    alone = sum(npusim.simulate(npusim.compile(sides[end], EDGE), timing_only=True).cycles for end in ends)
    assert 0 < cycles["NCHW"] - cycles["NHWC"] <= alone
