"""Graphs in another format's terms: the same bytes by other operators, or other parameters.

What several formats have in common of it; a table of each format says which rewrite an operator takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from npusim.frontends.inexpressible import Refusals, for_every_node
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import known, operator

Rewrite = Callable[["Rewriting", Node], None]


class Rewriting(GraphBuilder):
    """A graph on its way into a format's terms: it keeps the numbers of its tensors, and gets more behind them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.tensors += graph.tensors
        self.inputs += graph.inputs
        self.states += graph.states

    def made(
        self, op: str, inputs: Sequence[int | None], result: TensorType, name: str, **values: Any
    ) -> int:
        """A new node with one new result."""
        return self.node(op, inputs, [result], operator(op).parameters(**values), name=name)[0]

    def keep_node(self, node: Node, **changes: Any) -> None:
        """The node itself, but for some of its fields."""
        node = replace(node, **changes)
        self.add(node.op, node.inputs, node.outputs, node.parameters, name=node.name, bodies=node.bodies)

    def image(self, node: Node, position: int = 0) -> TensorType:
        """The type of an operand."""
        return self.type(there(node, position))


def rewritten(graph: Graph, table: Mapping[str, Rewrite], refusals: Refusals) -> Graph:
    """The graph in the terms of a table; layers for which there are none stay, and are added to the refusals.

    Operators that the table does not have stay as they are, with axes counted from the front and all sizes written out.
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


def there(node: Node, position: int) -> int:
    number = node.inputs[position]
    if number is None:
        raise GraphError(f"its operand {position} is absent")
    return number


def changed(how: Parameters, **values: Any) -> Parameters:
    """Parameters with other values for those that they have."""
    return how.changed(**{name: value for name, value in values.items() if hasattr(how, name)})


def resolved(to: Rewriting, node: Node) -> None:
    """Axes counted from the front, all sizes written out: as readers give them."""
    how: Any = node.parameters
    rank = len(to.image(node).shape) if node.inputs and node.inputs[0] is not None else 0
    values: dict[str, Any] = {}
    if hasattr(how, "axis") and rank:
        values["axis"] = how.axis % (rank + (node.op == "pack"))
    if hasattr(how, "shape"):
        values["shape"] = to.shape(node.outputs[0])
    to.keep_node(node, parameters=changed(how, **values))


# What several formats have


def plain_slice(to: Rewriting, node: Node) -> None:
    """A slice with steps is a strided one."""
    how: Any = node.parameters
    if any(step != 1 for step in how.strides):
        strided = operator("strided_slice").parameters(
            begin=how.begin, size=how.size, strides=how.strides, shape=to.shape(node.outputs[0])
        )
        to.keep_node(node, op="strided_slice", parameters=strided)
    else:
        to.keep_node(node, parameters=how.changed(strides=()))


def strided_slice(to: Rewriting, node: Node) -> None:
    """One entry per axis; where the result has other axes than the slice without some of one, a reshape follows."""
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
    """The axes of one element without which sizes are a shape; None where they are not."""
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
