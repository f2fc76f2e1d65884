"""slice: size[i] elements of each axis i, from begin[i] on."""

from __future__ import annotations

from npusim.kernels.lowering.move import lower_slice
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import ANY_ALIKE
from npusim.kernels.operator.operands import move
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes
from npusim.kernels.operators.movement.strided_slice import Box, chosen_elements, inside, reference

Parameters = Box


def _infer(call: Call[Parameters]) -> Shapes:
    return (call.parameters.size,)


OPERATOR = Operator(
    name="slice",
    parameters=Parameters,
    types=ANY_ALIKE,
    rules=(rules.operands(1), inside, chosen_elements),
    infer=_infer,
    reference=reference,
    workload=move,
    lowerings=(Lowering("dma", (), lower_slice),),
)
