"""Constant folding: compute a node whose operands are all constants while its graph is built."""

from __future__ import annotations

from math import prod

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Node, Tensors, call_of
from npusim.kernels.table import known, operator

MOST_ELEMENTS = 1 << 24
"""Maximum number of result elements of a node that is folded; a larger node is left to the run."""

MOST_TOTAL = 1 << 26
"""Maximum number of elements that folding computes for one model, because a few bytes of a file may ask for many."""

_MOST_WORK = 1 << 28
"""Maximum number of multiply-adds or elementwise operations of a folded node: about a second with numpy."""


def foldable(graph: Tensors, node: Node) -> bool:
    """Return True if every operand of a node is absent or a constant with data, and the node has no bodies."""
    return not node.bodies and all(
        number is None or graph.tensors[number].array is not None for number in node.inputs
    )


def folded(graph: Tensors, node: Node, most: int) -> list[Array] | None:
    """Compute the results of a foldable node, with the shapes and types that `graph` has for them.

    Return None for a node that breaks a rule or fails, so that the check or the run reports the fault, and for one with
    too much work or more than `most` elements of results.
    """
    results = [graph.tensors[number] for number in node.outputs]
    entry = operator(node.op) if known(node.op) else None
    if entry is None or type(node.parameters) is not entry.parameters:
        return None
    if not all(tensor.bound and tensor.data is None for tensor in results):
        return None
    if sum(prod(tensor.type.shape) for tensor in results) > most:
        return None
    call = call_of(graph, node)
    try:
        if entry.broken_rule(call) is not None:
            return None
        work = entry.workload(call)
        if work.macs > _MOST_WORK or work.elements > _MOST_WORK:
            return None
        operands = [None if number is None else graph.tensors[number].array for number in node.inputs]
        with np.errstate(all="ignore"):
            arrays = [np.asarray(array) for array in entry.compute(call, operands)]
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
    if any(array.size != tensor.type.elements for array, tensor in zip(arrays, results, strict=True)):
        return None
    return [
        np.ascontiguousarray(array, tensor.type.numpy_dtype).reshape(tensor.type.shape)
        for array, tensor in zip(arrays, results, strict=True)
    ]
