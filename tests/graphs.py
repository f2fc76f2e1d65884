"""Small graphs with seeded weights and sane scales, made by hand node by node, and what they should compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.operators.movement import transpose
from npusim.kernels.table import known, operator

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]

NO_PADDING: Padding = ((0, 0), (0, 0))
CODE_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}
_SPREAD = 40
"""Standard deviation, in codes, that weighted sums are scaled to: most codes occur, few are clamped."""


def windows(size: int, kernel: int, stride: int = 1, dilation: int = 1, padding: Pair = (0, 0)) -> int:
    """How many windows fit along one axis."""
    return (size + sum(padding) - (kernel - 1) * dilation - 1) // stride + 1


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> Pair:
    """Padding that gives ceil(size / stride) windows, the smaller half first."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


class Sketch:
    """A graph under construction; every method that adds a node returns the tensor it gives.

    Weights, zero points and scales come from `seed`.
    """

    def __init__(self, name: str = "sketch", dtype: str = "int8", seed: int = 0) -> None:
        self.name = name
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.inputs: list[int] = []

    # Tensors.

    def type_of(self, tensor: int) -> TensorType:
        """The type of a tensor."""
        return self.tensors[tensor].type

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.type_of(tensor).shape

    def quantization(self, scale: float | None = None, dtype: str | None = None) -> Quantization:
        """A scale, drawn unless given, and a zero point in the middle half of the codes."""
        low, high = CODE_RANGES[dtype or self.dtype]
        drawn = float(self.rng.uniform(0.01, 0.1)) if scale is None else scale
        zero_point = int(self.rng.integers(low + 64, high - 63))
        return Quantization((float(np.float32(drawn)),), (zero_point,))

    def add_tensor(self, tensor_type: TensorType, data: Array | None = None, name: str = "") -> int:
        """A new tensor; returns its index."""
        number = len(self.tensors)
        if data is not None:
            data.setflags(write=False)
        self.tensors.append(Tensor(name or f"t{number}", tensor_type, data))
        return number

    def input(self, *shape: int) -> int:
        """An input of the graph."""
        tensor = self.add_tensor(TensorType(self.dtype, shape, self.quantization()))
        self.inputs.append(tensor)
        return tensor

    def codes(self, shape: Sequence[int], dtype: str | None = None) -> Array:
        """Random codes over the whole range of an 8-bit type."""
        low, high = CODE_RANGES[dtype or self.dtype]
        return self.rng.integers(low, high + 1, shape).astype(dtype or self.dtype)

    def constant(self, *shape: int) -> int:
        """A constant with random codes."""
        return self.add_tensor(TensorType(self.dtype, shape, self.quantization()), self.codes(shape))

    # Nodes.

    def node(
        self,
        op: str,
        inputs: Sequence[int | None],
        output: TensorType | Sequence[TensorType],
        **parameters: Any,
    ) -> int:
        """A node with outputs of the given types; returns the first of them."""
        types = [output] if isinstance(output, TensorType) else list(output)
        results = tuple(self.add_tensor(each) for each in types)
        kind = operator(op).parameters if known(op) else Parameters
        self.nodes.append(Node(f"n{len(self.nodes)}", op, tuple(inputs), results, kind(**parameters)))
        return results[0]

    def _like(self, tensor: int, shape: Sequence[int]) -> TensorType:
        """The type of a tensor with another shape: for operators that keep the codes."""
        old = self.type_of(tensor)
        return TensorType(old.dtype, tuple(shape), old.quantization)

    def _weights(self, shape: tuple[int, ...], axis: int, per_channel: bool) -> int:
        """Constant weights; `axis` holds the output channels. Scales per channel need int8."""
        dtype = "int8" if per_channel else self.dtype
        count = shape[axis] if per_channel else 1
        scales = tuple(float(np.float32(s)) for s in self.rng.uniform(0.002, 0.02, count))
        zero_point = 0 if dtype == "int8" else int(self.rng.integers(64, 192))
        scaling = Quantization(scales, (zero_point,) * count, axis if per_channel else None)
        return self.add_tensor(TensorType(dtype, shape, scaling), self.codes(shape, dtype))

    def _weighted(
        self,
        op: str,
        source: int,
        weights: int,
        shape: Sequence[int],
        terms: int,
        bias: bool,
        **parameters: Any,
    ) -> int:
        """A node of weighted sums of `terms` products, with output codes that spread."""
        ifm, scaling = self.type_of(source), self.type_of(weights).quantization
        assert ifm.quantization is not None
        assert scaling is not None
        deviation = 74.0 * 74.0 * terms**0.5
        mean_scale = float(np.mean(scaling.scales))
        ofm_scale = ifm.quantization.scale * mean_scale * deviation / _SPREAD
        values = None
        if bias:
            size = shape[-1]
            codes = (self.rng.standard_normal(size) * deviation / 4).astype(np.int32)
            values = self.add_tensor(TensorType("int32", (size,)), codes)
        output = TensorType(ifm.dtype, tuple(shape), self.quantization(ofm_scale, ifm.dtype))
        return self.node(op, (source, weights, values), output, **parameters)

    def conv(
        self,
        source: int,
        channels: int,
        kernel: Pair = (3, 3),
        *,
        strides: Pair = (1, 1),
        dilations: Pair = (1, 1),
        padding: Padding = NO_PADDING,
        activation: str = "none",
        per_channel: bool = False,
        bias: bool = True,
    ) -> int:
        """conv_2d."""
        n, height, width, depth = self.shape(source)
        rows = windows(height, kernel[0], strides[0], dilations[0], padding[0])
        columns = windows(width, kernel[1], strides[1], dilations[1], padding[1])
        weights = self._weights((channels, *kernel, depth), 0, per_channel)
        return self._weighted(
            "conv_2d", source, weights, (n, rows, columns, channels), prod(kernel) * depth, bias,
            strides=list(strides), dilations=list(dilations), padding=_lists(padding), activation=activation,
        )  # fmt: skip

    def depthwise(
        self,
        source: int,
        kernel: Pair = (3, 3),
        *,
        multiplier: int = 1,
        strides: Pair = (1, 1),
        dilations: Pair = (1, 1),
        padding: Padding = NO_PADDING,
        activation: str = "none",
        per_channel: bool = False,
        bias: bool = True,
    ) -> int:
        """depthwise_conv_2d."""
        n, height, width, depth = self.shape(source)
        rows = windows(height, kernel[0], strides[0], dilations[0], padding[0])
        columns = windows(width, kernel[1], strides[1], dilations[1], padding[1])
        channels = depth * multiplier
        weights = self._weights((1, *kernel, channels), 3, per_channel)
        return self._weighted(
            "depthwise_conv_2d", source, weights, (n, rows, columns, channels), prod(kernel), bias,
            strides=list(strides), dilations=list(dilations), padding=_lists(padding), activation=activation,
            depth_multiplier=multiplier,
        )  # fmt: skip

    def fully_connected(
        self,
        source: int,
        units: int,
        *,
        activation: str = "none",
        per_channel: bool = False,
        bias: bool = True,
    ) -> int:
        """fully_connected over everything but the first dimension."""
        shape = self.shape(source)
        terms = prod(shape[1:])
        weights = self._weights((units, terms), 0, per_channel)
        return self._weighted(
            "fully_connected", source, weights, (shape[0], units), terms, bias,
            activation=activation, keep_num_dims=False,
        )  # fmt: skip

    def binary(self, op: str, first: int, second: int, *, activation: str = "none") -> int:
        """add, sub or mul with broadcasting."""
        shape = np.broadcast_shapes(self.shape(first), self.shape(second))
        a, b = self.type_of(first).quantization, self.type_of(second).quantization
        assert a is not None
        assert b is not None
        scale = a.scale * b.scale * 60 if op == "mul" else (a.scale + b.scale) * 0.8
        output = TensorType(
            self.type_of(first).dtype, shape, self.quantization(scale, self.type_of(first).dtype)
        )
        return self.node(op, (first, second), output, activation=activation)

    def add(self, first: int, second: int, *, activation: str = "none") -> int:
        """add."""
        return self.binary("add", first, second, activation=activation)

    def pool(
        self,
        op: str,
        source: int,
        size: Pair,
        *,
        strides: Pair = (1, 1),
        padding: Padding = NO_PADDING,
        activation: str = "none",
    ) -> int:
        """average_pool_2d or max_pool_2d."""
        n, height, width, depth = self.shape(source)
        rows = windows(height, size[0], strides[0], 1, padding[0])
        columns = windows(width, size[1], strides[1], 1, padding[1])
        return self.node(
            op, (source,), self._like(source, (n, rows, columns, depth)),
            filter=list(size), strides=list(strides), padding=_lists(padding), activation=activation,
        )  # fmt: skip

    def mean(self, source: int, axes: Sequence[int], *, keep_dims: bool = False) -> int:
        """mean."""
        kept = [1 if axis in axes else size for axis, size in enumerate(self.shape(source))]
        shape = kept if keep_dims else [s for axis, s in enumerate(self.shape(source)) if axis not in axes]
        old = self.type_of(source).quantization
        assert old is not None
        dtype = self.type_of(source).dtype
        output = TensorType(dtype, tuple(shape), self.quantization(old.scale / 2, dtype))
        return self.node("mean", (source,), output, axes=list(axes), keep_dims=keep_dims)

    def quantize(self, source: int, dtype: str | None = None) -> int:
        """quantize to another scale, and to another 8-bit type if given."""
        old = self.type_of(source)
        assert old.quantization is not None
        target = dtype or old.dtype
        scale = old.quantization.scale * float(self.rng.uniform(0.5, 2))
        return self.node(
            "quantize", (source,), TensorType(target, old.shape, self.quantization(scale, target))
        )

    def softmax(self, source: int) -> int:
        """softmax over the last axis."""
        old = self.type_of(source)
        output = TensorType(old.dtype, old.shape, Quantization((1 / 256,), (CODE_RANGES[old.dtype][0],)))
        return self.node("softmax", (source,), output, beta=1.0)

    def logistic(self, source: int) -> int:
        """logistic, a look-up table."""
        old = self.type_of(source)
        output = TensorType(old.dtype, old.shape, Quantization((1 / 256,), (CODE_RANGES[old.dtype][0],)))
        return self.node("logistic", (source,), output)

    def concat(self, sources: Sequence[int], axis: int) -> int:
        """concatenation of tensors with one scale."""
        shape = list(self.shape(sources[0]))
        shape[axis] = sum(self.shape(each)[axis] for each in sources)
        return self.node(
            "concatenation", sources, self._like(sources[0], shape), axis=axis, activation="none"
        )

    def concat_rescaled(self, sources: Sequence[int], axis: int) -> int:
        """concatenation of uint8 tensors into a scale of its own."""
        shape = list(self.shape(sources[0]))
        shape[axis] = sum(self.shape(each)[axis] for each in sources)
        output = TensorType("uint8", tuple(shape), self.quantization(0.05, "uint8"))
        return self.node("concatenation", sources, output, axis=axis, activation="none")

    def split(self, source: int, axis: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """split into pieces of the given sizes."""
        shape = self.shape(source)
        types = [self._like(source, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
        first = self.node("split", (source,), types, axis=axis, sizes=sizes)
        return tuple(range(first, first + len(sizes)))

    def pad(self, source: int, paddings: Sequence[Pair]) -> int:
        """pad."""
        shape = [size + sum(pair) for size, pair in zip(self.shape(source), paddings, strict=True)]
        return self.node("pad", (source,), self._like(source, shape), paddings=_lists(paddings))

    def transpose(self, source: int, perm: Sequence[int]) -> int:
        """transpose: output axis i is input axis perm[i]."""
        shape = [self.shape(source)[axis] for axis in perm]
        return self.node("transpose", (source,), self._like(source, shape), perm=list(perm))

    def reshape(self, source: int, *shape: int) -> int:
        """reshape."""
        return self.node("reshape", (source,), self._like(source, shape), shape=shape)

    def resize(self, source: int, height: int, width: int) -> int:
        """resize_bilinear, which runs on the host."""
        n, _, _, depth = self.shape(source)
        output = self._like(source, (n, height, width, depth))
        return self.node("resize_bilinear", (source,), output, size=(height, width))

    def graph(self, outputs: Sequence[int] | None = None) -> Graph:
        """The graph; without `outputs` every tensor that nobody reads is one."""
        if outputs is None:
            read = {each for node in self.nodes for each in node.inputs}
            outputs = [each for node in self.nodes for each in node.outputs if each not in read]
        return Graph(self.name, tuple(self.tensors), tuple(self.nodes), tuple(self.inputs), tuple(outputs))


def _lists(pairs: Sequence[Pair]) -> list[list[int]]:
    return [list(pair) for pair in pairs]


def with_all_outputs(graph: Graph) -> Graph:
    """The same graph with every computed tensor as an output."""
    computed = tuple(each for node in graph.nodes for each in node.outputs)
    return Graph(graph.name, graph.tensors, graph.nodes, graph.inputs, computed, graph.states)


def with_leading_transpose(graph: Graph) -> Graph:
    """The same graph with its first input as channels, rows, columns: what exporters of PyTorch models give."""
    first, *others = graph.inputs
    kind = graph.tensors[first].type
    n, height, width, depth = kind.shape
    image = Tensor("nchw", replace(kind, shape=(n, depth, height, width)))
    source = len(graph.tensors)
    turn = Node("to_nhwc", "transpose", (source,), (first,), transpose.Parameters(perm=(0, 2, 3, 1)))
    return replace(
        graph, tensors=(*graph.tensors, image), nodes=(turn, *graph.nodes), inputs=(source, *others)
    )


def random_inputs(graph: Graph, seed: int = 0) -> list[Array]:
    """Values over the whole range of each input's type."""
    rng = np.random.default_rng(seed)
    values: list[Array] = []
    for each in graph.inputs:
        kind = graph.tensors[each].type
        if kind.dtype == "float32":
            values.append(rng.uniform(-1, 1, kind.shape).astype(np.float32))
        else:
            limits = np.iinfo(kind.dtype)
            values.append(rng.integers(limits.min, limits.max + 1, kind.shape).astype(kind.dtype))
    return values
