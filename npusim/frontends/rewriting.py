"""Rewrites of a graph into the operators of another format, with the same bytes as results.

The rewrites here serve several formats. A table per format says which operator takes which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from npusim.frontends.inexpressible import Refusals, for_every_node
from npusim.frontends.written_layers import there
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import known, operator

Rewrite = Callable[["Rewriting", Node], None]

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

    def keep_node(self, node: Node, **changes: Any) -> None:
        """Copy a node with some fields changed."""
        node = replace(node, **changes)
        self.add(node.op, node.inputs, node.outputs, node.parameters, name=node.name, bodies=node.bodies)

    def image(self, node: Node, position: int = 0) -> TensorType:
        """Return the type of a tensor that the rewritten graph has."""
        return self.type(there(node, position))


def rewritten(graph: Graph, table: Mapping[str, Rewrite], refusals: Refusals) -> Graph:
    """Return the graph in the operators of a table; layers that have none stay, and are added to the refusals.

    Operators that the table does not list stay as they are. Their axes are counted from the front, and all sizes are
    written out.
    """
    to = Rewriting(graph)

    def rewrite(node: Node) -> None:
        if node.bodies:
            to.keep_node(node, bodies=tuple(rewritten(body, table, refusals) for body in node.bodies))
        elif not known(node.op) or type(node.parameters) is not operator(node.op).parameters:
            to.nodes.append(node)
            raise GraphError(
                f"npusim does not know the operator {node.op}, or its parameters are not its own"
            )
        else:
            before = len(to.nodes)
            try:
                table.get(node.op, resolved)(to, node)
            except GraphError:
                to.nodes[before:] = [node]
                raise

    for_every_node(graph, rewrite, refusals)
    return to.graph(graph.outputs)


def changed(how: Parameters, **values: Any) -> Parameters:
    """Return parameters with some values changed, as far as they have these names."""
    return how.changed(**{name: value for name, value in values.items() if hasattr(how, name)})


def resolved(to: Rewriting, node: Node) -> None:
    """Return a node with axes counted from the front and all sizes written out, as readers produce them."""
    how: Any = node.parameters
    rank = len(to.image(node).shape) if node.inputs and node.inputs[0] is not None else 0
    values: dict[str, Any] = {}
    if hasattr(how, "axis") and rank:
        values["axis"] = how.axis % (rank + (node.op == "pack"))
    if hasattr(how, "shape"):
        values["shape"] = to.shape(node.outputs[0])
    to.keep_node(node, parameters=changed(how, **values))


# Rewrites that several formats need


def plain_slice(to: Rewriting, node: Node) -> None:
    """Rewrite a slice: with steps it becomes a strided slice."""
    how: Any = node.parameters
    if any(step != 1 for step in how.strides):
        strided = operator("strided_slice").parameters(
            begin=how.begin, size=how.size, strides=how.strides, shape=to.shape(node.outputs[0])
        )
        to.keep_node(node, op="strided_slice", parameters=strided)
    else:
        to.keep_node(node, parameters=how.changed(strides=()))


def strided_slice(to: Rewriting, node: Node) -> None:
    """Give a strided slice one entry per axis; a reshape follows if that changes the shape of the result."""
    how: Any = node.parameters
    result = to.type(node.outputs[0])
    steps = how.strides or (1,) * len(how.begin)
    gone = dropped_axes(how.size, result.shape)
    if gone is not None:
        steps = tuple(1 if axis in gone else step for axis, step in enumerate(steps))
        to.keep_node(node, parameters=how.changed(strides=steps, shape=result.shape))
        return
    part = replace(result, shape=how.size)
    [cut] = to.node(
        node.op, node.inputs, [part], how.changed(strides=steps, shape=how.size), name=f"{node.name}/part"
    )
    shape = operator("reshape").parameters(shape=result.shape)
    to.add("reshape", [cut], node.outputs, shape, name=node.name)


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


def squeeze(to: Rewriting, node: Node) -> None:
    shape = to.image(node).shape
    how: Any = node.parameters
    gone = sorted({axis % len(shape) for axis in how.axes}) if shape else []
    to.keep_node(node, parameters=how.changed(axes=tuple(gone)))


def reduction(to: Rewriting, node: Node) -> None:
    how: Any = node.parameters
    rank = len(to.image(node).shape)
    axes = sorted({axis % rank for axis in how.axes}) if rank else []
    to.keep_node(node, parameters=how.changed(axes=tuple(axes)))


def exclusive_or(to: Rewriting, node: Node) -> None:
    to.keep_node(node, op="not_equal", parameters=operator("not_equal").parameters())
