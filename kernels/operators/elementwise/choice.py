"""What select and select_v2 share: of two elements the first where a condition holds, otherwise the second."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import elementwise, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.rescale import in_codes_of_output, kept_in_32_bits, sound_scales


def choosing_operator(
    name: str, infer: Callable[[Call], Shapes], aligned: Callable[[Call, Array], Array]
) -> Operator:
    """The operator whose condition, brought by `aligned` to a shape that broadcasts with the others', chooses."""

    def reference(call: Call[ByValue], values: Values) -> list[Array]:
        first, second = (in_codes_of_output(call, i, input_value(values, i)) for i in (1, 2))
        return [np.where(aligned(call, input_value(values)), first, second)]

    def shapes(call: Call) -> bool:
        try:
            return infer(call) == (call.outputs[0].shape,)
        except ValueError:
            return False

    shapes.__doc__ = "the shapes of the condition and of the two inputs fit each other and the output"
    return Operator(
        name=name,
        parameters=ByValue,
        types=tuple(f"bool, {dtype} -> {dtype}" for dtype in names()),
        rules=(rules.operands(3), rules.per_tensor, shapes, sound_scales, kept_in_32_bits),
        infer=infer,
        reference=reference,
        workload=elementwise,
        on_host="the NPU has no instruction for it",
    )
