"""Nodes that decide: `if` and `while`, whose bodies are graphs.

    if      inputs: condition, operands...   bodies: then and otherwise, either operands -> results
    while   inputs: operands...              bodies: test, operands -> condition, and turn, operands -> next operands;
                                             the results are the operands with which the condition does not hold

The condition is one bool. A body sees its inputs and constants only, in the order of the operands, and keeps no state.
"""

from __future__ import annotations

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Graph, Node, Tensor, Tensors
from npusim.kernels.operator.operator import Shapes

IF = "if"
WHILE = "while"

_BODIES = {IF: ("then", "otherwise"), WHILE: ("test", "turn")}


def body_names(op: str) -> tuple[str, ...]:
    """Return what the bodies of an operator are called; none for one that does not decide."""
    return _BODIES.get(op, ())


def body_operands(node: Node) -> tuple[int | None, ...]:
    """Return the inputs of a node that its bodies take."""
    return node.inputs[1:] if node.op == IF else node.inputs


def result_bodies(node: Node) -> tuple[Graph, ...]:
    """Return the bodies whose outputs are the results of a node that decides."""
    return node.bodies if node.op == IF else node.bodies[1:]


def infer(graph: Tensors, node: Node) -> Shapes | None:
    """Return the shapes of the results; None as long as the bodies do not know them."""
    shapes = {
        tuple(body.tensors[number].type.shape for number in body.outputs) for body in result_bodies(node)
    }
    return next(iter(shapes)) if len(shapes) == 1 else None


def check_control(graph: Tensors, node: Node, where: str) -> None:
    """Raise GraphError for a node whose bodies do not fit its operands and results.

    Without bodies it is an operator that npusim does not have: the compiler says so.
    """
    if not node.bodies:
        return
    names = body_names(node.op)
    if len(node.bodies) != len(names):
        wanted = f"must have {', '.join(names)}" if names else "may have none"
        raise GraphError(f"{where}: has {len(node.bodies)} bodies, {wanted}")
    operands = [None if number is None else graph.tensors[number] for number in body_operands(node)]
    for name, body in zip(names, node.bodies, strict=True):
        if body.states:
            raise GraphError(f"{where}, {name}: keeps a state; what lasts is an operand and a result")
        _check_ends(f"{where}, {name}: input", body, body.inputs, operands)
    results = [graph.tensors[number] for number in node.outputs]
    for name, body in zip(names, node.bodies, strict=True):
        if node.op == WHILE and name == "test":
            _check_condition(f"{where}, {name}", [body.tensors[number] for number in body.outputs])
        else:
            _check_ends(f"{where}, {name}: output", body, body.outputs, results)
    if node.op == WHILE:
        _check_ends(f"{where}, turn: output", node.bodies[1], node.bodies[1].outputs, operands)
    else:
        number = node.inputs[0] if node.inputs else None
        _check_condition(where, [] if number is None else [graph.tensors[number]])


def _check_ends(
    where: str, body: Graph, numbers: tuple[int, ...], wanted: list[Tensor | None] | list[Tensor]
) -> None:
    """Raise GraphError unless inputs or results of a body match what the node has outside."""
    if len(numbers) != len(wanted):
        raise GraphError(f"{where}s: {len(numbers)}, the layer has {len(wanted)}")
    for position, (number, other) in enumerate(zip(numbers, wanted, strict=True)):
        if other is None:
            raise GraphError(f"{where} {position}: the layer's operand is absent")
        mine = body.tensors[number]
        if not _alike(mine.type, other.type) or (mine.bound and other.bound and mine.type != other.type):
            raise GraphError(f"{where} {position}: is {shown(mine.type)}, the layer has {shown(other.type)}")


def _alike(mine: TensorType, other: TensorType) -> bool:
    return mine.dtype == other.dtype and mine.quantization == other.quantization


def _check_condition(where: str, tensors: list[Tensor]) -> None:
    kinds = [tensor.type for tensor in tensors]
    sound = len(kinds) == 1 and kinds[0].dtype == "bool" and (kinds[0].elements == 1 or not tensors[0].bound)
    if not sound:
        kind_names = ", ".join(map(shown, kinds)) or "absent"
        raise GraphError(f"{where}: the condition is {kind_names}, must be one bool")


def shown(kind: TensorType) -> str:
    """Return a type for a message."""
    scaled = "" if kind.quantization is None else " with scales"
    return f"{kind.dtype}{list(kind.shape)}{scaled}"
