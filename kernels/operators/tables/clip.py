"""clip: x limited to least..most, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator import parameters
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operators.tables.lookup import Float32Array, tabulate_by_value, unary_operator


class Parameters(parameters.Parameters):
    """least, most: what results lie between, real numbers of codes too; None: no limit. most wins over least."""

    least: float | None = None
    most: float | None = None


def _clip(call: Call[Parameters], x: Float32Array) -> Float32Array:
    least, most = call.parameters.least, call.parameters.most
    above: Float32Array = x if least is None else np.maximum(x, np.float32(least))
    return above if most is None else np.minimum(above, np.float32(most))


def _expand(call: Call[Parameters]) -> Expansion | None:
    least, most = call.parameters.least, call.parameters.most
    if least is None and most is None:
        return None
    steps = RealSteps(call)
    above = 0 if least is None else steps.pair("maximum", 0, steps.number(least))
    return steps.result(above if most is None else steps.pair("minimum", above, steps.number(most)))


table = tabulate_by_value(_clip)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("clip", table, parameters=Parameters, on_host=_clip, expand=_expand)
