"""Shape inference: the shapes of a node's results, merged with what is known of them."""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph import control
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED, Node, Tensor, Tensors, call_of, quoted
from npusim.kernels.operator.operator import Shapes
from npusim.kernels.table import infer, known, operator

Shape = tuple[int, ...]


def said_shapes(graph: Tensors, node: Node) -> Shapes | None:
    """Return the shapes of the results of a node as its operands say them.

    None while a shape of an operand is not known, for an operator that npusim does not have, and for a call that breaks
    its rules: when it is compiled, the rule says so.
    """
    if node.bodies:
        said = control.infer(graph, node)
    elif has_its_parameters(node) and all(
        number is None or graph.tensors[number].bound for number in node.inputs
    ):
        said = infer(call_of(graph, node), node.op)
    else:
        return None
    return said if said is not None and len(said) == len(node.outputs) else None


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
    said = said_shapes(_Typing(tensors), node)
    for number, shape in zip(node.outputs, said or (), strict=False):
        tensors[number] = completed(tensors[number], shape, node)


def completed(tensor: Tensor, said: Shape, node: Node) -> Tensor:
    """Return a result with the shape that its operands say. Raises GraphError where it says another one itself."""
    own = tensor.type.shape
    if own == said:
        return tensor
    if not fits(own, said):
        raise GraphError(
            f"{layer_name(node)}: output {quoted(tensor.name)} has shape {list(own)}, {list(said)} by its operands and "
            "parameters"
        )
    if min(said, default=0) < 0:
        raise GraphError(f"{layer_name(node)}: output {quoted(tensor.name)} would have shape {list(said)}")
    return replace(tensor, type=replace(tensor.type, shape=said))


def fits(own: Shape, said: Shape) -> bool:
    """Return True if a shape is what another says where it is known."""
    if own == UNRANKED:
        return True
    return len(own) == len(said) and all(
        mine in (UNKNOWN, size) for mine, size in zip(own, said, strict=True)
    )
