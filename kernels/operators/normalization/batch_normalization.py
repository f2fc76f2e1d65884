"""batch_normalization: every channel shifted and scaled by a mean and a variance that are operands."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, an_axis
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import by_type, elementwise, input_value, like_input, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.normalization.channels import along_channels, per_channel
from npusim.kernels.operators.normalization.moments import reshaped


class Parameters(Along):
    """Of x, scale, bias, mean and variance: scale * (x - mean) / sqrt(variance + epsilon) + bias.

    axis: that of the channels.
    """

    epsilon: float = 1e-5


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    x = input_value(values).astype(np.float64)
    scale, bias, mean, variance = (
        input_value(values, i).astype(np.float64).reshape(along_channels(call)) for i in range(1, 5)
    )
    with np.errstate(all="ignore"):
        normal = (x - mean) / np.sqrt(variance + call.parameters.epsilon)
        return [(scale * normal + bias).astype(np.float32)]


def _expand(call: Call[Parameters]) -> Expansion:
    """The factor of each channel first, which is short, then three steps over all elements."""
    steps = RealSteps(call)
    scale, bias, mean, variance = (reshaped(steps, i, along_channels(call)) for i in range(1, 5))
    root = steps.function("rsqrt", steps.pair("add", variance, steps.number(call.parameters.epsilon)))
    centred = steps.pair("sub", 0, mean)
    scaled = steps.pair("mul", centred, steps.pair("mul", scale, root))
    return steps.result(steps.pair("add", scaled, bias))


REFERENCES = with_halves({"float32": _reals})

OPERATOR = Operator(
    name="batch_normalization",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(5), rules.same_shape, an_axis, per_channel),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    expand=_expand,
    on_host="no unit does it as a whole, and its parts need lanes for reals",
)
