"""Layouts of images: a door may have another than NHWC, operators do not know of it.

Operators take images as batch, height, width, channels and filters as output channel, height, width, input channel.
The graph of a door with another layout gets there what stands between: constants are permuted, other operands go
through a transpose, and what is computed element by element stays in NHWC as long as nobody asks for the door's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import UNRANKED, Graph, Node, State, Tensor
from npusim.kernels.operator.parameters import NONE, Parameters
from npusim.kernels.operators.movement import transpose

Order = tuple[int, ...]
"""Axis i of the result is axis order[i] of the operand, as TRANSPOSE has it."""


class Layout(NamedTuple):
    """How a door stores what slides over images and what they slide over.

    image:     its images to batch, height, width, channels.
    filter:    its filters of convolutions to output channel, height, width, input channel.
    depthwise: its filters of depthwise convolutions to 1, height, width, output channel.
    """

    name: str
    image: Order
    filter: Order
    depthwise: Order


NHWC = Layout("NHWC", (0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))
"""TensorFlow Lite, NNAPI; and the operators here."""

NCHW = Layout("NCHW", (0, 2, 3, 1), (0, 2, 3, 1), (1, 2, 3, 0))
"""ONNX, PyTorch, NNEF: filters are output channel, input channel (1 of depthwise ones), height, width."""

SPATIAL: Mapping[str, tuple[str, ...]] = {
    "conv_2d": ("image", "filter"),
    "depthwise_conv_2d": ("image", "depthwise"),
    "average_pool_2d": ("image",),
    "max_pool_2d": ("image",),
    "resize_bilinear": ("image",),
    "resize_nearest_neighbor": ("image",),
}
"""The operators that know height from width, and what their leading operands are; their results are images."""

POINTWISE = frozenset(
    {
        *("add", "sub", "mul", "maximum", "minimum", "relu", "relu6", "leaky_relu", "hard_swish"),
        *("logistic", "tanh", "quantize", "dequantize"),
    }
)
"""The operators that compute element by element, in whatever order the elements are."""


class LayoutBuilder(GraphBuilder):
    """A builder for a door with another layout: the door names tensors in its own order, the graph has NHWC inside.

    Parameters are those of the operators. Inputs, outputs and constants of the graph keep the door's order.
    """

    def __init__(self, name: str, layout: Layout, sizes: Sizes | None = None) -> None:
        super().__init__(name, sizes)
        self._layout = layout
        self._turned: dict[tuple[int, Order], int] = {}
        self._only_turned: set[int] = set()

    def add(
        self,
        op: str,
        inputs: Sequence[int | None],
        outputs: Sequence[int],
        parameters: Parameters = NONE,
        *,
        name: str = "",
        bodies: Sequence[Graph] = (),
    ) -> Node:
        """As `GraphBuilder.add`; the node that is returned is in NHWC."""
        orders = self._orders(op, inputs)
        if orders is None:
            for number in inputs:
                if number is not None:
                    self._in_order_of_the_door(number)
            return super().add(op, inputs, outputs, parameters, name=name, bodies=bodies)
        turned = [self._in_order(*each) for each in zip(inputs, orders, strict=True)]
        images = [self._image(number) for number in outputs]
        node = super().add(op, turned, images, parameters, name=name, bodies=bodies)
        for number, image in zip(outputs, images, strict=True):
            said = permuted(self.type(image), _inverse(self._layout.image))
            self.tensors[number] = replace(self.tensors[number], type=said)
        return node

    def graph(self, outputs: Sequence[int]) -> Graph:
        """As `GraphBuilder.graph`, with the outputs in the door's order."""
        for number in (*outputs, *(state.after for state in self.states)):
            self._in_order_of_the_door(number)
        return without_strays(super().graph(outputs))

    def _orders(self, op: str, inputs: Sequence[int | None]) -> list[Order | None] | None:
        """In which order each operand must be, None where it stays; None altogether for what the door's order suits."""
        roles = SPATIAL.get(op)
        if roles is not None:
            orders: list[Order | None] = [getattr(self._layout, role) for role in roles]
            return orders + [None] * (len(inputs) - len(roles))
        there = [number for number in inputs if number is not None]
        image = self._layout.image
        any_turned = any((number, image) in self._turned for number in there)
        if op in POINTWISE and any_turned and all(self._may_turn(number) for number in there):
            return [image] * len(inputs)
        return None

    def _may_turn(self, number: int) -> bool:
        """Whether a tensor in NHWC costs nothing: it is there, or a constant of four dimensions or of one element."""
        tensor = self.tensors[number]
        if (number, self._layout.image) in self._turned:
            return True
        return tensor.constant and (self._has_order(number, self._layout.image) or tensor.type.elements == 1)

    def _has_order(self, number: int, order: Order) -> bool:
        return len(self.shape(number)) == len(order)

    def _image(self, number: int) -> int:
        """The tensor in NHWC that is written instead of one in the door's order."""
        tensor = self.tensors[number]
        known = tensor.type if tensor.type.shape == UNRANKED else permuted(tensor.type, self._layout.image)
        image = self.tensor(tensor.name, known)
        self._turned[number, self._layout.image] = image
        self._only_turned.add(number)
        return image

    def _in_order(self, number: int | None, order: Order | None) -> int | None:
        """A tensor in another order: permuted once if it is constant, else through a transpose."""
        if number is None or order is None or not self._has_order(number, order):
            return number
        if (number, order) not in self._turned:
            self._in_order_of_the_door(number)
            tensor = permuted_tensor(self.tensors[number], order)
            self._turned[number, order] = turned = self.tensor(tensor.name, tensor.type, tensor.data)
            if not tensor.constant:
                self._transpose(number, turned, order)
        return self._turned[number, order]

    def _in_order_of_the_door(self, number: int) -> None:
        """Lets a tensor be written that so far there is in NHWC only."""
        if number in self._only_turned:
            self._only_turned.discard(number)
            self._transpose(self._turned[number, self._layout.image], number, _inverse(self._layout.image))

    def _transpose(self, source: int, target: int, order: Order) -> None:
        name = f"{self.tensors[target].name}/{self._layout.name.lower()}"
        super().add("transpose", (source,), (target,), transpose.Parameters(perm=order), name=name)


def builder(name: str, layout: Layout = NHWC, sizes: Sizes | None = None) -> GraphBuilder:
    """A builder for a door with this layout."""
    return GraphBuilder(name, sizes) if layout == NHWC else LayoutBuilder(name, layout, sizes)


def permuted(kind: TensorType, order: Order) -> TensorType:
    """The type of a tensor whose axes are brought into an order, that of its scales, too."""
    scaling = kind.quantization
    if scaling is not None and scaling.axis is not None:
        scaling = replace(scaling, axis=order.index(scaling.axis))
    return replace(kind, shape=tuple(kind.shape[axis] for axis in order), quantization=scaling)


def permuted_tensor(tensor: Tensor, order: Order) -> Tensor:
    """A tensor whose axes are brought into an order; the elements of a constant come along."""
    data = tensor.data
    if tensor.array is not None:
        turned: Array = np.ascontiguousarray(tensor.array.transpose(order))
        turned.setflags(write=False)
        data = turned
    return replace(tensor, type=permuted(tensor.type, order), data=data)


def without_strays(graph: Graph) -> Graph:
    """The graph without tensors that nobody reads or writes: constants of which only the permuted ones are read."""
    used = {*graph.inputs, *graph.outputs, *(number for state in graph.states for number in state)}
    used |= {number for node in graph.nodes for number in (*node.inputs, *node.outputs) if number is not None}
    kept = sorted(used)
    place = {number: position for position, number in enumerate(kept)}

    def moved(node: Node) -> Node:
        inputs = tuple([None if number is None else place[number] for number in node.inputs])
        return replace(node, inputs=inputs, outputs=tuple([place[number] for number in node.outputs]))

    return Graph(
        graph.name,
        tuple([graph.tensors[number] for number in kept]),
        tuple([moved(node) for node in graph.nodes]),
        tuple([place[number] for number in graph.inputs]),
        tuple([place[number] for number in graph.outputs]),
        tuple([State(place[before], place[after]) for before, after in graph.states]),
    )


def _inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))
