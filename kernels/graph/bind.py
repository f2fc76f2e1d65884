"""Binding: a graph with unknown sizes becomes one whose shapes are all known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npusim.isa.base.errors import GraphError
from npusim.isa.base.nearest import nearest
from npusim.kernels.graph.control import body_operands
from npusim.kernels.graph.graph import UNKNOWN, Graph, Node, Tensor
from npusim.kernels.graph.inference import Shape, complete_results, fits, layer_name
from npusim.kernels.graph.names import quoted

Sizes = Mapping[str, int | Sequence[int]]
"""What binding is told: shapes by the names of inputs, single sizes by their own names."""


def bind(graph: Graph, sizes: Sizes | None = None) -> Graph:
    """The graph with all shapes, those of results and of the bodies of nodes inferred in order.

    sizes: {"image": (1, 224, 224, 3)} or, where the size has a name, {"batch": 1}.

    Raises GraphError for a name that the graph does not have, a shape that does not fit what is known, a size that
    nobody gives, and a result whose shape its operands do not say.
    """
    _check_names(graph, sizes or {})
    known = _with_named_sizes(graph, sizes or {})
    tensors = list(graph.tensors)
    for number in graph.inputs:
        tensors[number] = bound_tensor(tensors[number], known)
    for state in graph.states:
        if not tensors[state.before].bound:
            name = quoted(tensors[state.before].name)
            shape = list(tensors[state.before].type.shape)
            raise GraphError(
                f"state {name}: shape {shape} has an unknown size, and it must begin with a value"
            )
    nodes = []
    for open_node in graph.nodes:
        node = _with_bound_bodies(open_node, tensors)
        nodes.append(node)
        complete_results(tensors, node)
        for result in (tensors[number] for number in node.outputs):
            if not result.bound:
                raise GraphError(
                    f"{layer_name(node)}: output {quoted(result.name)} has shape {list(result.type.shape)}, and its "
                    "operands do not say it either"
                )
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def bound_tensor(tensor: Tensor, sizes: Sizes) -> Tensor:
    """An input with the shape that `sizes` give. Raises GraphError if they leave a size open or do not fit."""
    own, given = tensor.type.shape, sizes.get(tensor.name)
    where = f"input {quoted(tensor.name)}"
    if given is None or isinstance(given, int):
        shape = _named(tensor, sizes)
    else:
        shape = tuple(int(size) for size in given)
        if not fits(own, shape) or min(shape, default=0) < 0:
            raise GraphError(f"{where}: shape {list(own)} in the graph, {list(shape)} was given")
    if min(shape, default=0) < 0:
        names = f", named {', '.join(tensor.size_names)}" if tensor.size_names else ""
        raise GraphError(f"{where}: shape {list(own)} has an unknown size{names}; give every size, from 0 on")
    return tensor if shape == own else replace(tensor, type=replace(tensor.type, shape=shape), size_names=())


def _with_named_sizes(graph: Graph, sizes: Sizes) -> dict[str, int | Sequence[int]]:
    """`sizes` and the sizes with names that they contain. Raises GraphError for a name that gets two sizes."""
    known = dict(sizes)
    for tensor in (graph.tensors[number] for number in graph.inputs):
        shape = sizes.get(tensor.name)
        if shape is None or isinstance(shape, int) or len(shape) != len(tensor.type.shape):
            continue
        open_sizes = [size for own, size in zip(tensor.type.shape, shape, strict=True) if own == UNKNOWN]
        for name, size in zip(tensor.size_names, open_sizes, strict=False):
            if known.setdefault(name, size) != size:
                raise GraphError(f"input {quoted(tensor.name)}: {name} is {size}, elsewhere {known[name]}")
    return known


def _named(tensor: Tensor, sizes: Sizes) -> Shape:
    """The shape with the sizes that are given by their names."""
    names = iter(tensor.size_names)
    shape = []
    for size in tensor.type.shape:
        given = sizes.get(next(names, "")) if size == UNKNOWN else None
        shape.append(given if isinstance(given, int) else size)
    return tuple(shape)


def _check_names(graph: Graph, sizes: Sizes) -> None:
    tensors = [graph.tensors[number] for number in graph.inputs]
    known = [tensor.name for tensor in tensors] + [name for tensor in tensors for name in tensor.size_names]
    for name in sizes:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {quoted(near)}? " if near else ""
            raise GraphError(
                f"no input and no size is named {quoted(name)}; {hint}there are {', '.join(map(quoted, known))}"
            )


def _with_bound_bodies(node: Node, tensors: Sequence[Tensor]) -> Node:
    """The node with its bodies bound to the shapes of its operands."""
    if not node.bodies:
        return node
    shapes = [None if number is None else tensors[number].type.shape for number in body_operands(node)]
    return replace(node, bodies=tuple([_bound_body(node, body, shapes) for body in node.bodies]))


def _bound_body(node: Node, body: Graph, shapes: Sequence[Shape | None]) -> Graph:
    tensors = list(body.tensors)
    for number, shape in zip(body.inputs, shapes, strict=False):
        if shape is not None:
            tensors[number] = bound_tensor(tensors[number], {tensors[number].name: shape})
    try:
        return bind(replace(body, tensors=tuple(tensors)))
    except GraphError as error:
        raise GraphError(f"{layer_name(node)}, {body.name}: {error}") from None
