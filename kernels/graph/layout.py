"""Image layouts: a front end may store images in another order than NHWC, which operators take.

Operators take images as batch, height, width, channels and filters as output channel, height, width, input channel. The
builder inserts what a front end with another layout needs: constants are permuted, other operands get a transpose, and
an image stays in NHWC until an operator needs the front end's order. The tables in `npusim.kernels.graph.layouts` say
how operators treat layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import NHWC, UNKNOWN, UNRANKED, Graph, Layout, Node, Order, State, Tensor
from npusim.kernels.graph.inference import complete_results
from npusim.kernels.graph.layouts import BY_AXIS, POINTWISE, SPATIAL
from npusim.kernels.operator.parameters import NONE, Parameters
from npusim.kernels.table import operator

_REST = -1
"""The size that RESHAPE replaces by the number of remaining elements."""


class _Call(NamedTuple):
    """A call that is being added: the order that each operand needs, and whether its results are images.

    None as an order means the front end's.
    """

    orders: list[Order | None]
    parameters: Parameters
    images: bool


class LayoutBuilder(GraphBuilder):
    """A builder for a front end with another layout: its tensors are in its own order, the graph is NHWC inside.

    Parameters are those of the operators, with the front end's axes. Inputs, outputs and constants of the graph keep
    the front end's order.
    """

    def __init__(self, name: str, layout: Layout, sizes: Sizes | None = None) -> None:
        super().__init__(name, sizes)
        self._layout = layout
        self._turned: dict[tuple[int, Order], int] = {}
        self._only_turned: set[int] = set()
        self._flat: dict[int, Node] = {}
        """Images that a reshape made vectors of; it is added when somebody asks for them in the front end's order."""

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
        """Add a node as `GraphBuilder.add` does; in the returned node, operands that are images are in NHWC."""
        if self._waits(op, inputs, outputs, parameters):
            return self._flattened(inputs, outputs, parameters, name)
        if op == "fully_connected" and inputs[0] in self._flat:
            inputs = self._unflattened(inputs)
        if op == "transpose":
            node = self._without_moves(inputs, outputs, parameters, name)
            if node is not None:
                return node
        call = self._call(op, inputs, parameters)
        if call is None:
            for number in inputs:
                if number is not None:
                    self._write_in_file_order(number)
            return super().add(op, inputs, outputs, parameters, name=name, bodies=bodies)
        turned = [self._in_order(*operand) for operand in zip(inputs, call.orders, strict=True)]
        images = [self._image(number) for number in outputs] if call.images else list(outputs)
        node = super().add(op, turned, images, call.parameters, name=name, bodies=bodies)
        for number, image in zip(outputs, images, strict=True):
            if call.images and self._has_order(image):  # else a rule is broken, or the shape open
                permuted = permuted_tensor(self.tensors[image], _inverse(self._layout.image))
                self.tensors[number] = replace(self.tensors[number], type=permuted.type, data=permuted.data)
                if permuted.constant:  # folded: the constant needs no transpose into the front end's order
                    self._only_turned.discard(number)
        return node

    def rename(self, tensor: int, name: str) -> None:
        """Rename a tensor as `GraphBuilder.rename` does, and the image that was written in its place."""
        image = self._turned[tensor, self._layout.image] if tensor in self._only_turned else tensor
        if self.tensors[image].name == self.tensors[tensor].name:  # else a tensor of its own
            super().rename(image, name)
        super().rename(tensor, name)

    def graph(self, outputs: Sequence[int]) -> Graph:
        """Return the graph as `GraphBuilder.graph` does, with the outputs in the front end's order."""
        for number in (*outputs, *(state.after for state in self.states)):
            self._write_in_file_order(number)
        return without_strays(super().graph(outputs))

    # What becomes of a call

    def _call(self, op: str, inputs: Sequence[int | None], parameters: Parameters) -> _Call | None:
        """Return a call in NHWC; None for what the front end's order suits."""
        image = self._layout.image
        spatial = SPATIAL.get(op)
        if spatial is not None:
            orders: list[Order | None] = [
                getattr(self._layout, role) if role else None for role in spatial.operands
            ]
            return _Call((orders + [None] * len(inputs))[: len(inputs)], parameters, spatial.images)
        if not any(self._is_turned(number) for number in inputs if number is not None):
            return None
        if op in POINTWISE and all(self._may_turn(number) for number in inputs):
            return _Call([image] * len(inputs), parameters, images=True)
        if op == "transpose":
            return self._transposed(inputs, parameters)
        if op == "reshape":
            return self._renamed(inputs, parameters)
        return self._by_axis(op, inputs, parameters)

    def _renamed(self, inputs: Sequence[int | None], parameters: Parameters) -> _Call | None:
        """Return a reshape to the same shape, whose result only has another name or scale."""
        reshape: Any = parameters
        (source,) = inputs
        if source is None or reshape.shape != self.shape(source) or not self._has_order(source):
            return None
        image = self._layout.image
        return _Call(
            [image], reshape.changed(shape=tuple(reshape.shape[axis] for axis in image)), images=True
        )

    def _is_turned(self, number: int) -> bool:
        """Return True if a tensor that is computed, or an input, is there in NHWC."""
        return (number, self._layout.image) in self._turned and not self.tensors[number].constant

    def _by_axis(self, op: str, inputs: Sequence[int | None], parameters: Parameters) -> _Call | None:
        row, first = BY_AXIS.get(op), inputs[0]
        if row is None or first is None or not self._is_turned(first):
            return None
        others = [number for number in inputs[1:] if number is not None]
        if not row.alone and not all(self._has_order(number) for number in others):
            return None
        turned = row.turn(parameters, self._layout.image, self.shape(first))
        if turned is None or (turned.kept is not None and list(turned.kept) != sorted(turned.kept)):
            return None
        orders = [self._layout.image, *[None if row.alone else self._layout.image] * (len(inputs) - 1)]
        return _Call(orders, turned.parameters, turned.kept is None)

    def _transposed(self, inputs: Sequence[int | None], parameters: Parameters) -> _Call:
        """Return a transpose that reads the image in NHWC and writes the front end's order."""
        transpose: Any = parameters
        perm = tuple(self._layout.image.index(axis) for axis in transpose.perm)
        return _Call([self._layout.image], parameters.changed(perm=perm), images=False)

    def _without_moves(
        self, inputs: Sequence[int | None], outputs: Sequence[int], parameters: Parameters, name: str
    ) -> Node | None:
        """Return a transpose that moves nothing: of NHWC into an image, or of an image into NHWC; None for others.

        The first is only added when its result is needed in the front end's order; the second is a reshape.
        """
        transpose: Any = parameters
        image, (source,), (target,) = self._layout.image, inputs, outputs
        if source is None or self.tensors[source].constant or len(transpose.perm) != len(image):
            return None
        if tuple(transpose.perm[axis] for axis in image) == NHWC.image and source not in self._flat:
            node = Node(name or "transpose", "transpose", tuple(inputs), tuple(outputs), parameters)
            self._write_in_file_order(source)
            complete_results(self.tensors, node)
            if self.shape(target) == UNRANKED:
                return None
            self._turned[target, image] = source
            self._only_turned.add(target)
            return node
        turned = self._turned.get((source, image))
        if turned is not None and transpose.perm == image:
            shape = operator("reshape").parameters(shape=self.shape(turned))
            return super().add("reshape", (turned,), outputs, shape, name=name)
        return None

    def _may_turn(self, number: int | None) -> bool:
        """Return True if a tensor is, or broadcasts as, an image."""
        if number is None:
            return True
        shape = self.shape(number)
        return shape != UNRANKED and len(shape) <= len(self._layout.image) and number not in self._flat

    def _has_order(self, number: int) -> bool:
        shape = self.shape(number)
        return shape != UNRANKED and len(shape) == len(self._layout.image)

    # Tensors in another order

    def _image(self, number: int) -> int:
        """Return the tensor in NHWC that is written instead of one in the front end's order."""
        tensor = self.tensors[number]
        known = permuted(tensor.type, self._layout.image)
        image = self.tensor(tensor.name, known)
        self._turned[number, self._layout.image] = image
        self._only_turned.add(number)
        return image

    def _in_order(self, number: int | None, order: Order | None) -> int | None:
        """Return a tensor in another order: permuted once if it is constant, else through a transpose."""
        if number is None or order is None or self._broadcasts(number):
            if number is not None:
                self._write_in_file_order(number)
            return number
        if (number, order) not in self._turned:
            self._write_in_file_order(number)
            source = self._of_rank(number, len(order))
            tensor = permuted_tensor(self.tensors[source], order)
            self._turned[number, order] = turned = self.tensor(tensor.name, tensor.type, tensor.data)
            if not tensor.constant:
                self._transpose(source, turned, order)
        return self._turned[number, order]

    def _of_rank(self, number: int, rank: int) -> int:
        """Return a tensor with dimensions of one in front, as it broadcasts."""
        tensor, more = self.tensors[number], rank - len(self.shape(number))
        if not more:
            return number
        scaling = tensor.type.quantization
        if scaling is not None and scaling.axis is not None:
            scaling = replace(scaling, axis=scaling.axis + more)
        kind = replace(tensor.type, shape=(1,) * more + tensor.type.shape, quantization=scaling)
        data = tensor.data if tensor.array is None else tensor.array.reshape(kind.shape)
        added = self.tensor(tensor.name, kind, data)
        if not tensor.constant:
            super().add(
                "reshape",
                (number,),
                (added,),
                operator("reshape").parameters(shape=kind.shape),
                name=tensor.name,
            )
        return added

    def _broadcasts(self, number: int) -> bool:
        """Return True if a tensor is one element in any order."""
        return not self._has_order(number) and self.tensors[number].type.elements == 1

    def _write_in_file_order(self, number: int) -> None:
        """Write a tensor in the front end's order that so far exists in NHWC only, or as an image."""
        if number in self._flat:
            node = self._flat.pop(number)
            (source,) = node.inputs
            assert source is not None
            self._write_in_file_order(source)
            super().add("reshape", node.inputs, node.outputs, node.parameters, name=node.name)
        if number in self._only_turned:
            self._only_turned.discard(number)
            self._transpose(self._turned[number, self._layout.image], number, _inverse(self._layout.image))

    def _transpose(self, source: int, target: int, order: Order) -> None:
        """Bring a tensor into another order; nothing moves if only axes of size 1 change places."""
        name = f"{self.tensors[target].name}/{self._layout.name.lower()}"
        shape = self.shape(source)
        if _still(shape, order):
            parameters = operator("reshape").parameters(shape=tuple(shape[axis] for axis in order))
            super().add("reshape", (source,), (target,), parameters, name=name)
        else:
            super().add(
                "transpose", (source,), (target,), operator("transpose").parameters(perm=order), name=name
            )

    # Images that become vectors

    def _waits(
        self, op: str, inputs: Sequence[int | None], outputs: Sequence[int], parameters: Parameters
    ) -> bool:
        """Return True if a reshape makes vectors of images in NHWC, which a matrix product can take as they are."""
        first = inputs[0] if op == "reshape" else None
        if first is None or first not in self._only_turned:
            return False
        reshape: Any = parameters
        shape = self.shape(first)
        if min(shape) < 1 or _still(shape, self._layout.image):
            return False
        batch, length = shape[0], prod(shape[1:])
        return reshape.shape in ((batch, length), (batch, _REST), (_REST, length))

    def _flattened(
        self, inputs: Sequence[int | None], outputs: Sequence[int], parameters: Parameters, name: str
    ) -> Node:
        """Return the node of such a reshape, which is not added yet; its result has its shape."""
        node = Node(name or "reshape", "reshape", tuple(inputs), tuple(outputs), parameters)
        complete_results(self.tensors, node)
        self._flat[outputs[0]] = node
        return node

    def _unflattened(self, inputs: Sequence[int | None]) -> Sequence[int | None]:
        """Return the operands of a matrix product of such vectors.

        They in NHWC, constant weights with columns likewise.
        """
        vectors, weights = inputs[0], inputs[1]
        assert vectors is not None
        assert weights is not None
        (source,) = self._flat[vectors].inputs
        assert source is not None
        sizes = self.shape(source)[1:]
        kind = self.tensors[weights].type
        scaling = kind.quantization
        by_rows = scaling is None or scaling.axis in (None, 0)
        if not self.tensors[weights].constant or kind.shape[1:] != (prod(sizes),) or not by_rows:
            return inputs
        order = self._layout.image
        key = (vectors, order)
        if key not in self._turned:
            image = self._turned[source, order]
            parameters = operator("reshape").parameters(shape=self.shape(vectors))
            name = f"{self.tensors[vectors].name}/{self._layout.name.lower()}"
            self._turned[key] = self.tensor(name, replace(self.type(vectors)))
            super().add("reshape", (image,), (self._turned[key],), parameters, name=name)
        return [self._turned[key], self._by_columns(weights, sizes), *inputs[2:]]

    def _by_columns(self, weights: int, sizes: Sequence[int]) -> int:
        """Return constant weights [units, image] with their columns in NHWC."""
        key = (weights, (*self._layout.image, *sizes))
        if key not in self._turned:
            tensor = self.tensors[weights]
            data = tensor.data
            if tensor.array is not None:
                units = tensor.type.shape[0]
                columns = tensor.array.reshape(units, *sizes).transpose(self._layout.image)
                data = _frozen(columns.reshape(tensor.type.shape))
            self._turned[key] = self.tensor(tensor.name, tensor.type, data)
        return self._turned[key]


def _still(shape: Sequence[int], order: Order) -> bool:
    """Return True if no element moves when a tensor is brought into an order.

    Only axes of one element change places.
    """
    if UNKNOWN in shape or len(shape) != len(order):
        return False
    long = [axis for axis in order if shape[axis] != 1]
    return long == sorted(long)


def permuted(kind: TensorType, order: Order) -> TensorType:
    """Return the type of a tensor whose axes are brought into an order, that of its scales, too.

    Its shape may be open.
    """
    scaling = kind.quantization
    if scaling is not None and scaling.axis is not None:
        scaling = replace(scaling, axis=order.index(scaling.axis))
    shape = kind.shape if kind.shape == UNRANKED else tuple(kind.shape[axis] for axis in order)
    return replace(kind, shape=shape, quantization=scaling)


def permuted_tensor(tensor: Tensor, order: Order) -> Tensor:
    """Return a tensor whose axes are brought into an order; the elements of a constant come along."""
    data = tensor.data
    if tensor.array is not None:
        data = _frozen(tensor.array.transpose(order))
    return replace(tensor, type=permuted(tensor.type, order), data=data)


def _frozen(array: Array) -> Array:
    dense: Array = np.ascontiguousarray(array)
    dense.setflags(write=False)
    return dense


def without_strays(graph: Graph) -> Graph:
    """Return the graph without tensors that nobody reads or writes.

    Constants of which only the permuted ones are read.
    """
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
        graph.notes,
    )


def _inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))
