"""Test whether an operator takes operands, before there is a node for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.layouts import SPATIAL
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import NONE, Parameters
from npusim.kernels.table import operator


def takes(
    op: str,
    inputs: Sequence[TensorType | None],
    results: Sequence[TensorType],
    parameters: Mapping[str, Any],
) -> bool:
    """Return True if an operator takes operands of these types and scales; results need no shapes.

    Of images, whose layout at a front end is not the operator's, the element types alone say. Parameters and shapes
    that are wrong are taken: whoever adds the node says what is wrong with them.
    """
    entry = operator(op)
    kinds = Call(
        Parameters(rescale=parameters.get("rescale", NONE.rescale)), tuple(inputs), tuple(results), {}
    )
    if entry.arithmetic(kinds) is None:
        return False
    if op in SPATIAL:
        return True
    try:
        call = Call(entry.parameters(**parameters), tuple(inputs), tuple(results), {})
        shapes = entry.infer(call)
    except (GraphError, LookupError, TypeError, ValueError, ArithmeticError):
        return True
    shaped = tuple(replace(kind, shape=shape) for kind, shape in zip(results, shapes, strict=True))
    return entry.broken_rule(replace(call, outputs=shaped)) is None
