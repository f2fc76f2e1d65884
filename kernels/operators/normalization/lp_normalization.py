"""lp_normalization: elements divided by the sum of magnitudes along axes, or by the root of the sum of squares."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.axes import ascending_axes
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import by_type, elementwise, input_value, like_input, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.parameters import Sizes
from npusim.kernels.operator.real_steps import RealSteps

_PASSES = 2
"""Over the elements: for the sum, for the result."""


class Parameters(parameters.Parameters):
    """axes: along which one adds, counted from the front; p: 1 of magnitudes, 2 of squares.

    epsilon: what is added to the divisor.
    """

    axes: Sizes
    p: Annotated[int, Between(1, 2)] = 2
    epsilon: float = 1e-5


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    x, how = input_value(values).astype(np.float64), call.parameters
    with np.errstate(all="ignore"):
        terms = np.abs(x) if how.p == 1 else x * x
        sums = terms.sum(axis=how.axes, keepdims=True)
        norms = sums if how.p == 1 else np.sqrt(sums)
        return [(x / (norms + how.epsilon)).astype(np.float32)]


def _expand(call: Call[Parameters]) -> Expansion:
    steps, how = RealSteps(call), call.parameters
    terms = steps.function("abs" if how.p == 1 else "square", 0)
    sums = steps.reduction("sum", terms, how.axes)
    norms = sums if how.p == 1 else steps.function("sqrt", sums)
    return steps.result(steps.pair("div", 0, steps.pair("add", norms, steps.number(how.epsilon))))


def _workload(call: Call) -> Workload:
    return elementwise(call, _PASSES * call.outputs[0].elements)


REFERENCES = with_halves({"float32": _reals})

OPERATOR = Operator(
    name="lp_normalization",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(1), rules.same_shape, ascending_axes),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=_workload,
    expand=_expand,
    on_host="no unit does it as a whole, and its parts need lanes for reals",
)
