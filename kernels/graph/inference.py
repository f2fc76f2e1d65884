"""Shape inference: the shapes of a node's results, merged with what is known of them."""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph import control
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED, Node, Tensor, Tensors, call_of, quoted
from npusim.kernels.operator.operator import Shapes
from npusim.kernels.table import infer, known, operator

Shape = tuple[int, ...]


def inferred_shapes(graph: Tensors, node: Node) -> Shapes | None:
    """Return the shapes of the results of a node, inferred from its operands.

    None while a shape of an operand is not known, for an operator that npusim does not have, and for a call that breaks
    a rule, which is reported when the node is compiled.
    """
    if node.bodies:
        shapes = control.infer(graph, node)
    elif has_its_parameters(node) and all(
        number is None or graph.tensors[number].bound for number in node.inputs
    ):
        shapes = infer(call_of(graph, node), node.op)
    else:
        return None
    return shapes if shapes is not None and len(shapes) == len(node.outputs) else None


def has_its_parameters(node: Node) -> bool:
    """Return True if the parameters of a node are of the type that its operator has."""
    return not known(node.op) or type(node.parameters) is operator(node.op).parameters


def layer_name(node: Node) -> str:
    """Return a node for a message."""
    return f"layer {quoted(node.name)} ({node.op})"


class _Typing:
    """Tensors whose types are being completed."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors


def complete_results(tensors: list[Tensor], node: Node) -> None:
    """Give the results of a node, in `tensors`, the shapes that inference finds.

    Raises GraphError if a result already has another shape.
    """
    shapes = inferred_shapes(_Typing(tensors), node)
    for number, shape in zip(node.outputs, shapes or (), strict=False):
        tensors[number] = completed(tensors[number], shape, node)


def completed(tensor: Tensor, inferred: Shape, node: Node) -> Tensor:
    """Return a result with the inferred shape. Raises GraphError if its own shape contradicts that."""
    own = tensor.type.shape
    if own == inferred:
        return tensor
    if not fits(own, inferred):
        raise GraphError(
            f"{layer_name(node)}: output {quoted(tensor.name)} has shape {list(own)}, {list(inferred)} by its operands "
            "and parameters"
        )
    if min(inferred, default=0) < 0:
        raise GraphError(
            f"{layer_name(node)}: output {quoted(tensor.name)} would have shape {list(inferred)}"
        )
    return replace(tensor, type=replace(tensor.type, shape=inferred))


def fits(own: Shape, inferred: Shape) -> bool:
    """Return True if a shape equals the inferred one wherever its sizes are known."""
    if own == UNRANKED:
        return True
    return len(own) == len(inferred) and all(
        mine in (UNKNOWN, size) for mine, size in zip(own, inferred, strict=True)
    )
