"""scatter_nd: a tensor with updates at the places that indices say.

Inputs: data, indices [..., k], of each tuple one place along the first k axes of the data, updates [..., *rest].
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import input_type, input_value, like_input, move
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operators.movement.indices import checked, known_indices


class Parameters(parameters.Parameters):
    """reduction: how an update and what is there combine; "none": the update takes its place, of several the last."""

    reduction: Literal["none", "add", "mul", "max", "min"] = "none"


_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _limits(call: Call) -> tuple[int, ...]:
    return input_type(call).shape[: input_type(call, 1).shape[-1]]


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    """One update after the other, in their order."""
    result: Any = input_value(values).copy()
    updates: Any = input_value(values, 2)
    places = tuple(np.moveaxis(checked(call, values, 1, _limits(call)), -1, 0))
    combine = _COMBINE.get(call.parameters.reduction)
    with np.errstate(all="ignore"):
        if combine is None:
            result[places] = updates
        else:
            combine.at(result, places, updates)
    return [result]


def _tuples(call: Call) -> bool:
    """indices have an axis or more, the last of 1 to as many entries as the data have axes"""
    shape = input_type(call, 1).shape
    return len(shape) > 0 and 1 <= shape[-1] <= len(input_type(call).shape)


def _updates(call: Call) -> bool:
    """updates have the axes of the indices but the last, then those of the data that no index counts along"""
    data, indices = input_type(call).shape, input_type(call, 1).shape
    return input_type(call, 2).shape == (*indices[:-1], *data[indices[-1] :])


def _numbers(call: Call[Parameters]) -> bool:
    """truths are not combined"""
    return call.parameters.reduction == "none" or call.outputs[0].dtype != "bool"


OPERATOR = Operator(
    name="scatter_nd",
    parameters=Parameters,
    types=tuple(f"{name}, int32|int64, {name} -> {name}" for name in names()),
    rules=(rules.operands(3), rules.same_shape, _tuples, _updates, _numbers, known_indices(1, _limits)),
    infer=like_input,
    reference=_reference,
    workload=move,
    on_host="where it writes depends on values",
)
