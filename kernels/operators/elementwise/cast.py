"""cast: the same numbers in another element type; codes are the numbers that they are, without their scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_value, like_input
from npusim.kernels.operator.operator import Call, Operator, Values


class Parameters(parameters.Parameters):
    """saturating: whole numbers beyond the output's type become its nearest one (NNAPI); otherwise they wrap."""

    saturating: bool = False


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    output = call.outputs[0]
    whole = output.element.kind in ("signed", "unsigned")
    with np.errstate(all="ignore"):
        if whole and x.dtype.kind == "f":
            return [_whole(x.astype(np.float64), output.dtype)]
        if whole and call.parameters.saturating and x.dtype.kind in "iu":
            limits = np.iinfo(output.dtype)
            least, most = max(limits.min, np.iinfo(x.dtype).min), min(limits.max, np.iinfo(x.dtype).max)
            x = np.clip(x, least, most)
        return [x.astype(output.numpy_dtype)]


def _whole(reals: Any, dtype: str) -> Array:
    """Toward zero; what the type does not hold becomes its nearest number, and what is no number its largest."""
    limits = np.iinfo(dtype)
    inside = np.where((reals > limits.min) & (reals < limits.max), reals, 0).astype(dtype)
    outside = np.where(reals <= limits.min, np.array(limits.min, dtype), np.array(limits.max, dtype))
    result: Array = np.where((reals > limits.min) & (reals < limits.max), inside, outside)
    return result


_TYPES = "|".join(name for name in names() if not name.startswith("complex"))

OPERATOR = Operator(
    name="cast",
    parameters=Parameters,
    types=(f"{_TYPES} -> {_TYPES}",),
    rules=(rules.operands(1), rules.same_shape),
    infer=like_input,
    reference=_reference,
    workload=elementwise,
    on_host="the NPU has no instruction for it",
)
