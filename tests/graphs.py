"""Small graphs with seeded weights and sane scales, made by hand node by node, and what they should compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.operators.movement.permuting import TransposeParameters
from npusim.kernels.table import known, operator

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]

NO_PADDING: Padding = ((0, 0), (0, 0))
CODE_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}
_SPREAD = 40
"""Standard deviation, in codes, that weighted sums are scaled to: most codes occur, few are clamped."""


class Sketch:
    """A graph under construction; every method that adds a node returns the tensor it gives.

    Weights, zero points and scales come from `seed`.
    """

    def __init__(self, name: str = "sketch", dtype: str = "int8", seed: int = 0) -> None:
        self.builder = GraphBuilder(name)
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)

    # Tensors.

    def type_of(self, tensor: int) -> TensorType:
        """The type of a tensor."""
        return self.builder.type(tensor)

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.builder.shape(tensor)

    def quantization(self, scale: float | None = None, dtype: str | None = None) -> Quantization:
        """A scale, drawn unless given, and a zero point in the middle half of the codes."""
        low, high = CODE_RANGES[dtype or self.dtype]
        drawn = float(self.rng.uniform(0.01, 0.1)) if scale is None else scale
        zero_point = int(self.rng.integers(low + 64, high - 63))
        return Quantization((float(np.float32(drawn)),), (zero_point,))

    def add_tensor(self, tensor_type: TensorType, data: Array | None = None, name: str = "") -> int:
        """A new tensor; returns its index."""
        return self.builder.tensor(name or f"t{len(self.builder.tensors)}", tensor_type, data)

    def input(self, *shape: int) -> int:
        """An input of the graph."""
        return self.builder.as_input(self.add_tensor(TensorType(self.dtype, shape, self.quantization())))

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
        """A node with outputs of the given types, shapes inferred where they have none; returns the first of them."""
        types = [output] if isinstance(output, TensorType) else list(output)
        results = [self.add_tensor(kind) for kind in types]
        kind = operator(op).parameters if known(op) else Parameters
        name = f"n{len(self.builder.nodes)}"
        self.builder.add(op, inputs, results, kind(**parameters), name=name)
        return results[0]

    def _like(self, tensor: int) -> TensorType:
        """The codes of a tensor in another shape."""
        return unshaped(self.type_of(tensor).dtype, self.type_of(tensor).quantization)

    def weights(self, shape: tuple[int, ...], axis: int, per_channel: bool, constant: bool = True) -> int:
        """Weights, constant or an input; `axis` holds the output channels. Scales per channel need int8."""
        dtype = "int8" if per_channel else self.dtype
        count = shape[axis] if per_channel else 1
        scales = tuple(float(np.float32(s)) for s in self.rng.uniform(0.002, 0.02, count))
        zero_point = 0 if dtype == "int8" else int(self.rng.integers(64, 192))
        kind = TensorType(
            dtype, shape, Quantization(scales, (zero_point,) * count, axis if per_channel else None)
        )
        if not constant:
            return self.builder.as_input(self.add_tensor(kind))
        return self.add_tensor(kind, self.codes(shape, dtype))

    def weighted(
        self,
        op: str,
        source: int,
        weights: int,
        channels: int,
        terms: int,
        bias: bool | int,
        **parameters: Any,
    ) -> int:
        """Weighted sums of `terms` products, with output codes that spread; `bias`: drawn, none, or a tensor."""
        ifm, scaling = self.type_of(source), self.type_of(weights).quantization
        assert ifm.quantization is not None
        assert scaling is not None
        deviation = 74.0 * 74.0 * terms**0.5
        mean_scale = float(np.mean(scaling.scales))
        ofm_scale = ifm.quantization.scale * mean_scale * deviation / _SPREAD
        values = None if isinstance(bias, bool) else bias
        if bias is True:
            codes = (self.rng.standard_normal(channels) * deviation / 4).astype(np.int32)
            values = self.add_tensor(TensorType("int32", (channels,)), codes)
        output = unshaped(ifm.dtype, self.quantization(ofm_scale, ifm.dtype))
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
        depth = self.shape(source)[3]
        weights = self.weights((channels, *kernel, depth), 0, per_channel)
        return self.weighted(
            "conv_2d", source, weights, channels, prod(kernel) * depth, bias,
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
        channels = self.shape(source)[3] * multiplier
        weights = self.weights((1, *kernel, channels), 3, per_channel)
        return self.weighted(
            "depthwise_conv_2d", source, weights, channels, prod(kernel), bias,
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
        weights = self.weights((units, terms), 0, per_channel)
        return self.weighted(
            "fully_connected", source, weights, units, terms, bias,
            activation=activation, keep_num_dims=False,
        )  # fmt: skip

    def product(self, x: int, y: int, *, adj_x: bool = False, adj_y: bool = False) -> int:
        """batch_matmul; batches broadcast."""
        inner = self.shape(x)[-2 if adj_x else -1]
        a, b = self.type_of(x).quantization, self.type_of(y).quantization
        assert a is not None
        assert b is not None
        output = unshaped("int8", self.quantization(a.scale * b.scale * 120 * inner**0.5))
        return self.node("batch_matmul", (x, y), output, adj_x=adj_x, adj_y=adj_y)

    def binary(self, op: str, first: int, second: int, *, activation: str = "none") -> int:
        """add, sub or mul with broadcasting."""
        a, b = self.type_of(first).quantization, self.type_of(second).quantization
        assert a is not None
        assert b is not None
        scale = a.scale * b.scale * 60 if op == "mul" else (a.scale + b.scale) * 0.8
        dtype = self.type_of(first).dtype
        output = unshaped(dtype, self.quantization(scale, dtype))
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
        return self.node(
            op, (source,), self._like(source),
            filter=list(size), strides=list(strides), padding=_lists(padding), activation=activation,
        )  # fmt: skip

    def mean(self, source: int, axes: Sequence[int], *, keep_dims: bool = False) -> int:
        """mean."""
        old = self.type_of(source).quantization
        assert old is not None
        dtype = self.type_of(source).dtype
        output = unshaped(dtype, self.quantization(old.scale / 2, dtype))
        return self.node("mean", (source,), output, axes=list(axes), keep_dims=keep_dims)

    def quantize(self, source: int, dtype: str | None = None) -> int:
        """quantize to another scale, and to another 8-bit type if given."""
        old = self.type_of(source)
        assert old.quantization is not None
        target = dtype or old.dtype
        scale = old.quantization.scale * float(self.rng.uniform(0.5, 2))
        return self.node("quantize", (source,), unshaped(target, self.quantization(scale, target)))

    def softmax(self, source: int) -> int:
        """softmax over the last axis."""
        old = self.type_of(source)
        output = unshaped(old.dtype, Quantization((1 / 256,), (CODE_RANGES[old.dtype][0],)))
        return self.node("softmax", (source,), output, beta=1.0)

    def logistic(self, source: int) -> int:
        """logistic, a look-up table."""
        old = self.type_of(source)
        output = unshaped(old.dtype, Quantization((1 / 256,), (CODE_RANGES[old.dtype][0],)))
        return self.node("logistic", (source,), output)

    def concat(self, sources: Sequence[int], axis: int) -> int:
        """concatenation of tensors with one scale."""
        return self.node("concatenation", sources, self._like(sources[0]), axis=axis, activation="none")

    def concat_rescaled(self, sources: Sequence[int], axis: int) -> int:
        """concatenation of uint8 tensors into a scale of its own."""
        output = unshaped("uint8", self.quantization(0.05, "uint8"))
        return self.node("concatenation", sources, output, axis=axis, activation="none")

    def split(self, source: int, axis: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """split into pieces of the given sizes."""
        types = [self._like(source)] * len(sizes)
        first = self.node("split", (source,), types, axis=axis, sizes=sizes)
        return tuple(range(first, first + len(sizes)))

    def pad(self, source: int, paddings: Sequence[Pair]) -> int:
        """pad."""
        return self.node("pad", (source,), self._like(source), paddings=_lists(paddings))

    def transpose(self, source: int, perm: Sequence[int]) -> int:
        """transpose: output axis i is input axis perm[i]."""
        return self.node("transpose", (source,), self._like(source), perm=list(perm))

    def reshape(self, source: int, *shape: int) -> int:
        """reshape."""
        return self.node("reshape", (source,), self._like(source), shape=shape)

    def resize(self, source: int, height: int, width: int) -> int:
        """resize_bilinear, which runs on the host."""
        return self.node("resize_bilinear", (source,), self._like(source), size=(height, width))

    def graph(self, outputs: Sequence[int] | None = None) -> Graph:
        """The graph; without `outputs` every tensor that nobody reads is one."""
        nodes = self.builder.nodes
        if outputs is None:
            read = {number for node in nodes for number in node.inputs}
            outputs = [number for node in nodes for number in node.outputs if number not in read]
        return self.builder.graph(outputs)


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
    turn = Node("to_nhwc", "transpose", (source,), (first,), TransposeParameters(perm=(0, 2, 3, 1)))
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
        elif (
            kind.dtype == "int32"
        ):  # of the size of sums of products of codes, beside which both must be seen
            values.append(rng.integers(-(1 << 15), 1 << 15, kind.shape, np.int32))
        else:
            limits = np.iinfo(kind.dtype)
            values.append(rng.integers(limits.min, limits.max + 1, kind.shape).astype(kind.dtype))
    return values
