"""The call of an operator that a node of a graph makes."""

from __future__ import annotations

from npusim.kernels.graph.graph import Node, Tensors
from npusim.kernels.operator.operator import Call


def call_of(graph: Tensors, node: Node) -> Call:
    """Return a node's call as rules and references see it: types and constants instead of indices."""
    operands = [None if index is None else graph.tensors[index] for index in node.inputs]
    return Call(
        parameters=node.parameters,
        inputs=tuple(None if tensor is None else tensor.type for tensor in operands),
        outputs=tuple(graph.tensors[index].type for index in node.outputs),
        constants={
            position: tensor.data
            for position, tensor in enumerate(operands)
            if tensor is not None and tensor.data is not None
        },
    )
