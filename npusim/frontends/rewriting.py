"""Rewrites of a graph into the operators of another format, with the same bytes as results.

The rewrites here serve several formats. A table per format says which operator takes which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from npusim.frontends.inexpressible import Refusals, for_every_node
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import known, operator

Rewrite = Callable[["Rewriting", Layer], None]

COMPARING = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
"""The operators that compare two tensors."""

LIMITS = {(0.0, 6.0): "relu6", (0.0, None): "relu", (-1.0, 1.0): "relu_n1_to_1"}
"""The operators that clip to fixed limits, by these."""


class Rewriting(GraphBuilder):
    """A graph that is being rewritten: tensors keep their numbers, and new tensors get numbers behind them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.tensors += graph.tensors
        self.inputs += graph.inputs
        self.states += graph.states

    def made(
        self, op: str, inputs: Sequence[int | None], result: TensorType, name: str, **values: Any
    ) -> int:
        """Add a node with one new result."""
        return self.node(op, inputs, [result], operator(op).parameters(**values), name=name)[0]

    def keep_node(self, layer: Layer, **changes: Any) -> None:
        """Copy a node with some fields changed."""
        node = replace(layer.node, **changes)
        self.add(node.op, node.inputs, node.outputs, node.parameters, name=node.name, bodies=node.bodies)

    def changed(self, layer: Layer, inputs: Sequence[int | None] | None = None, **values: Any) -> None:
        """Copy a node with some parameters changed, and other operands if these are given."""
        operands = layer.inputs if inputs is None else tuple(inputs)
        self.keep_node(layer, inputs=operands, parameters=layer.params.changed(**values))

    def become(
        self,
        layer: Layer,
        op: str,
        inputs: Sequence[int | None] | None = None,
        outputs: Sequence[int] | None = None,
        **values: Any,
    ) -> None:
        """Add a node of another operator with these parameters; its ends are those of the layer if not stated."""
        ends = layer.inputs if inputs is None else inputs, layer.outputs if outputs is None else outputs
        self.add(op, *ends, operator(op).parameters(**values), name=layer.name)


def rewritten(graph: Graph, table: Mapping[str, Rewrite], refusals: Refusals) -> Graph:
    """Return the graph in the operators of a table; layers that have none stay, and are added to the refusals.

    Operators that the table does not list stay as they are. Their axes are counted from the front, and all sizes are
    written out.
    """
    to = Rewriting(graph)

    def rewrite(node: Node) -> None:
        if node.bodies:
            to.keep_node(
                Layer(to, node), bodies=tuple(rewritten(body, table, refusals) for body in node.bodies)
            )
        elif not known(node.op) or type(node.parameters) is not operator(node.op).parameters:
            to.nodes.append(node)
            raise GraphError(
                f"npusim does not know the operator {node.op}, or its parameters are not its own"
            )
        else:
            before = len(to.nodes)
            try:
                table.get(node.op, resolved)(to, Layer(to, node))
            except GraphError:
                to.nodes[before:] = [node]
                raise

    for_every_node(graph, rewrite, refusals)
    return to.graph(graph.outputs)


def changed(params: Parameters, **values: Any) -> Parameters:
    """Return parameters with some values changed, as far as they have these names."""
    return params.changed(**{name: value for name, value in values.items() if hasattr(params, name)})


def resolved(to: Rewriting, n: Layer) -> None:
    """Return a node with axes counted from the front and all sizes written out, as readers produce them."""
    rank = len(n.shape) if n.inputs and n.inputs[0] is not None else 0
    values: dict[str, Any] = {}
    if hasattr(n.params, "axis") and rank:
        values["axis"] = n.params.axis % (rank + (n.op == "pack"))
    if hasattr(n.params, "shape"):
        values["shape"] = n.wanted.shape
    to.keep_node(n, parameters=changed(n.params, **values))


# Rewrites that several formats need


def plain_slice(to: Rewriting, n: Layer) -> None:
    """Rewrite a slice: with steps it becomes a strided slice."""
    if any(step != 1 for step in n.params.strides):
        box = {"begin": n.params.begin, "size": n.params.size, "strides": n.params.strides}
        to.become(n, "strided_slice", **box, shape=n.wanted.shape)
    else:
        to.changed(n, strides=())


def strided_slice(to: Rewriting, n: Layer) -> None:
    """Give a strided slice one entry per axis; a reshape follows if that changes the shape of the result."""
    result = n.wanted
    steps = n.params.strides or (1,) * len(n.params.begin)
    gone = dropped_axes(n.params.size, result.shape)
    if gone is not None:
        steps = tuple(1 if axis in gone else step for axis, step in enumerate(steps))
        to.changed(n, strides=steps, shape=result.shape)
        return
    part = replace(result, shape=n.params.size)
    [cut] = to.node(
        n.op, n.inputs, [part], n.params.changed(strides=steps, shape=n.params.size), name=f"{n.name}/part"
    )
    to.become(n, "reshape", [cut], n.outputs, shape=result.shape)


def dropped_axes(sizes: Sequence[int], shape: Sequence[int]) -> set[int] | None:
    """Return which axes of extent 1 to drop from sizes to get a shape; None if that is not possible."""
    gone, position = set(), 0
    for axis, size in enumerate(sizes):
        if position < len(shape) and shape[position] == size:
            position += 1
        elif size == 1:
            gone.add(axis)
        else:
            return None
    return gone if position == len(shape) else None


def axes_from_front(to: Rewriting, n: Layer) -> None:
    """Count the axes of a reduction, or of axes to drop, from the front."""
    rank = len(n.shape)
    to.changed(n, axes=tuple(sorted({axis % rank for axis in n.params.axes}) if rank else ()))


def last_axis(to: Rewriting, n: Layer) -> None:
    """Write the last axis as -1, as readers give it."""
    is_last = n.params.axis % len(n.shape) == len(n.shape) - 1
    to.changed(n, axis=-1 if is_last else n.params.axis)


def ends_of_slice(params: Any, shape: Sequence[int]) -> tuple[list[int], int, int]:
    """Return the ends of a strided slice, and its masks of ends and of dropped axes, for a result of this shape.

    An end before the first element has no number, so it has a bit in the mask.
    """
    ends = [
        first + size * step
        for first, size, step in zip(params.begin, params.size, params.strides, strict=True)
    ]
    masked = sum(1 << axis for axis, end in enumerate(ends) if end < 0)
    shrunk = sum(1 << axis for axis in dropped_axes(params.size, shape) or ())
    return [max(end, 0) for end in ends], masked, shrunk


def exclusive_or(to: Rewriting, n: Layer) -> None:
    to.become(n, "not_equal")
