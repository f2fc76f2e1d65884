"""Indices in tensors: whether they are in range, where they are known and where they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import names
from npusim.isa.base.errors import OperandFault
from npusim.isa.base.workload import Workload
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Rule, Values

VALUES_THEN_INDICES = tuple(f"{name}, int32|int64 -> {name}" for name in names())
"""Element types of operators that choose among the elements of their first input."""

Limits = Callable[[Call], tuple[int, ...]]
"""How many there are to choose from: one number for all indices, or one for each entry of the last axis."""


def checked(call: Call, values: Values, position: int, limits: tuple[int, ...]) -> NDArray[np.int64]:
    """The indices at an input. Raises OperandFault, saying which, for one outside the limits."""
    found: NDArray[np.int64] = input_value(values, position).astype(np.int64)
    if not found.size:
        return found
    wrong = (found < 0) | (found >= np.array(limits))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        limit = limits[place[-1] if len(limits) > 1 else 0]
        said = f"may be 0..{limit - 1}" if limit else "there is nothing to choose from"
        raise OperandFault(f"index {found[place]} at {list(place)} of input {position}: {said}")
    return found


def known_indices(position: int, limits: Limits) -> Rule:
    """The rule that constant indices are in range."""

    def rule(call: Call) -> bool:
        data = call.constants.get(position)
        if not isinstance(data, np.ndarray) or not data.size:
            return True
        wide: NDArray[np.int64] = data.astype(np.int64)
        return bool(np.all((wide >= 0) & (wide < np.array(limits(call)))))

    rule.__doc__ = (
        f"constant indices (input {position}) are 0 or more, and less than the size of what they choose from"
    )
    return rule


def chosen(call: Call, position: int) -> Workload:
    """Work of an operator that copies what the indices at an input choose: it reads no more than that."""
    indices = 0 if position in call.constants else input_type(call, position).size_bytes
    written = sum(output.size_bytes for output in call.outputs)
    return replace(move(call), input_bytes=indices + written)
