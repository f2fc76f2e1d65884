"""Nodes on constants, computed while a file is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.graph import Tensor
from npusim.kernels.graph.layouts import SPATIAL
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

_MOST = 1 << 24
"""Elements that are computed here; more are left to the machine."""


def folded(
    op: str,
    operands: Sequence[Tensor | None],
    results: Sequence[TensorType],
    parameters: Mapping[str, Any],
    afford: Callable[[int], bool],
) -> list[tuple[Array, TensorType]] | None:
    """The results of an operator, with their types; None where an operand is no constant, or there are too many.

    Operators of images want them in another order than their door has. Raises GraphError for what it does not take.
    """
    if op in SPATIAL or any(tensor is not None and tensor.array is None for tensor in operands):
        return None
    values = [None if tensor is None else tensor.array for tensor in operands]
    entry = operator(op)
    kinds = tuple([None if tensor is None else tensor.type for tensor in operands])
    constants = {place: value for place, value in enumerate(values) if value is not None}
    try:
        call = Call(entry.parameters(**parameters), kinds, tuple(results), constants)
        shapes = entry.infer(call)
        count = sum(map(prod, shapes))
        if count > _MOST or not afford(count):
            return None
        shaped = tuple([replace(kind, shape=shape) for kind, shape in zip(results, shapes, strict=True)])
        call = replace(call, outputs=shaped)
        broken = entry.broken_rule(call)
        if broken is not None:
            raise GraphError(f"{op}: {broken}")
        with np.errstate(all="ignore"):
            made = entry.compute(call, values)
    except GraphError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError):
        said = ", ".join("-" if kind is None else str(list(kind.shape)) for kind in kinds)
        raise GraphError(f"{op} does not take operands of shapes {said}") from None
    return [
        (np.ascontiguousarray(data).reshape(kind.shape), kind)
        for data, kind in zip(made, shaped, strict=True)
    ]
