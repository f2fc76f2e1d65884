"""What normalizations by mean and variance share: reals brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_type,
    input_value,
    like_input,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Rule, Values
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.movement import reshape

PASSES = 3
"""Over the elements: for their mean, for their variance, for the result."""

Shape = tuple[int, ...]
Sizes = Callable[[Call], tuple[Shape, tuple[int, ...]]]
"""The shape under which a call is normalized, and the axes of it that have a mean and a variance."""
Aligned = Callable[[Call], Shape]
"""The shape under which scale and bias broadcast with the input."""


def moments_operator(
    name: str, parameters: type[Parameters], rules: tuple[Rule, ...], sizes: Sizes, aligned: Aligned
) -> Operator:
    """The operator on x, scale and bias; `parameters` has `epsilon`, which is added to the variance."""

    def reals(call: Call, values: Values) -> list[Array]:
        shape, axes = sizes(call)
        x: NDArray[Any] = input_value(values).astype(np.float64)
        if not x.size:
            return [input_value(values)]
        scale, bias = (input_value(values, i).astype(np.float64).reshape(aligned(call)) for i in (1, 2))
        with np.errstate(all="ignore"):
            centred = x.reshape(shape) - x.reshape(shape).mean(axis=axes, keepdims=True)
            variance = (centred * centred).mean(axis=axes, keepdims=True)
            normal = (centred / np.sqrt(variance + call.parameters.epsilon)).reshape(x.shape)
            return [(normal * scale + bias).astype(np.float32)]

    def expand(call: Call) -> Expansion | None:
        shape, axes = sizes(call)
        steps = RealSteps(call)
        x = reshaped(steps, 0, shape)
        centred = steps.pair("sub", x, steps.reduction("mean", x, axes))
        variance = steps.reduction("mean", steps.pair("mul", centred, centred), axes)
        root = steps.function("rsqrt", steps.pair("add", variance, steps.number(call.parameters.epsilon)))
        normal = reshaped(steps, steps.pair("mul", centred, root), input_type(call).shape)
        scaled = steps.pair("mul", normal, reshaped(steps, 1, aligned(call)))
        return steps.result(steps.pair("add", scaled, reshaped(steps, 2, aligned(call))))

    references = with_halves({"float32": reals})
    return Operator(
        name=name,
        parameters=parameters,
        types=alike(*references),
        rules=rules,
        infer=like_input,
        reference=by_type(references),
        workload=three_passes,
        expand=expand,
        on_host="no unit does it as a whole, and its parts need lanes for reals",
    )


def three_passes(call: Call) -> Workload:
    """Every element is looked at three times."""
    return elementwise(call, PASSES * call.outputs[0].elements)


def reshaped(steps: RealSteps, x: int, shape: Shape) -> int:
    """The same elements under another shape."""
    if steps.shapes[x] == shape:
        return x
    return steps.step("reshape", [x], shape, reshape.Parameters(shape=shape))
