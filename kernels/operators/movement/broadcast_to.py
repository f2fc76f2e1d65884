"""broadcast_to: the input repeated along axes that it has not, or has one element of."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import broadcast_loops, few_copies, lower_broadcast
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes


class Parameters(parameters.Parameters):
    """shape: that of the output."""

    shape: Sizes


def reference(call: Call[Parameters], values: Values) -> list[Array]:
    """The input under the output's shape."""
    return [np.ascontiguousarray(np.broadcast_to(input_value(values), call.parameters.shape))]


def _fits(call: Call[Parameters]) -> bool:
    """the sizes of the input, counted from the last, are 1 or those of the shape"""
    own, shape = input_type(call).shape, call.parameters.shape
    return len(own) <= len(shape) and all(
        size in (1, wanted) for size, wanted in zip(reversed(own), reversed(shape), strict=False)
    )


def infer(call: Call[Parameters]) -> Shapes:
    """The shape that the parameters say."""
    return (call.parameters.shape,)


def said_shape(call: Call[Parameters]) -> bool:
    """the output has the shape that the parameters say"""
    return infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="broadcast_to",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _fits, said_shape),
    infer=infer,
    reference=reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(broadcast_loops),), lower_broadcast),),
)
