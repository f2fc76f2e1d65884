"""transpose: axes in another order; output axis i is input axis perm[i]."""

from __future__ import annotations

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.move import few_copies, lower_transpose, transpose_loops
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes


class Parameters(parameters.Parameters):
    """perm: for each axis of the output that of the input."""

    perm: Sizes


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    return [np.ascontiguousarray(np.transpose(input_value(values), call.parameters.perm))]


def _permutation(call: Call[Parameters]) -> bool:
    """perm names each axis of the input once"""
    return sorted(call.parameters.perm) == list(range(len(input_type(call).shape)))


def _infer(call: Call[Parameters]) -> Shapes:
    return (tuple(input_type(call).shape[axis] for axis in call.parameters.perm),)


def _permuted_shape(call: Call[Parameters]) -> bool:
    """the output has the input's sizes in the order of perm"""
    return _infer(call) == (call.outputs[0].shape,)


OPERATOR = Operator(
    name="transpose",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), _permutation, _permuted_shape),
    infer=_infer,
    reference=_reference,
    workload=move,
    lowerings=(Lowering("dma", (few_copies(transpose_loops),), lower_transpose),),
)
