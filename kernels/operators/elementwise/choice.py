"""What select and select_v2 share: of two elements the first where a condition holds, otherwise the second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise import broadcast_on_npu, lower_choice
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.rescale import in_codes_of_output, keeps_codes, kept_in_32_bits, sound_scales


def choosing_operator(
    name: str, infer: Callable[[Call], Shapes], aligned: Callable[[Call], tuple[int, ...]]
) -> Operator:
    """The operator whose condition chooses; `aligned`: under which shape it broadcasts with the others."""

    def reference(call: Call[ByValue], values: Values) -> list[Array]:
        first, second = (in_codes_of_output(call, i, input_value(values, i)) for i in (1, 2))
        return [np.where(input_value(values).reshape(aligned(call)), first, second)]

    def shapes(call: Call) -> bool:
        try:
            return infer(call) == (call.outputs[0].shape,)
        except ValueError:
            return False

    def alike(call: Call) -> Call:
        """The call with a condition of the shape that broadcasts."""
        condition = replace(input_type(call), shape=aligned(call))
        return replace(call, inputs=(condition, *call.inputs[1:]))

    def on_npu(call: Call) -> bool:
        return broadcast_on_npu(alike(call))

    on_npu.__doc__ = broadcast_on_npu.__doc__
    shapes.__doc__ = "the shapes of the condition and of the two inputs fit each other and the output"
    return Operator(
        name=name,
        parameters=ByValue,
        types=tuple(f"bool, {dtype} -> {dtype}" for dtype in names()),
        rules=(rules.operands(3), rules.per_tensor, shapes, sound_scales, kept_in_32_bits),
        infer=infer,
        reference=reference,
        workload=elementwise,
        lowerings=(
            Lowering(
                "vector",
                (on_npu,),
                lambda call, hardware: lower_choice(alike(call), keeps_codes(call)),
            ),
        ),
    )
