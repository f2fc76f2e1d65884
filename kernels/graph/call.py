"""How a graph calls an operator."""

from __future__ import annotations

from npusim.kernels.graph.graph import Node, Tensors
from npusim.kernels.operator.operator import Call


def call_of(graph: Tensors, node: Node) -> Call:
    """One use of an operator as its rules and reference see it: types and constants instead of indices."""
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
