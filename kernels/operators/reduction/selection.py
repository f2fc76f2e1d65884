"""Operators that give one of the elements along some dimensions, such as the largest, or whether any is true."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.lowering.reduction import real_reduction_lowering, selection_lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import REDUCTION_RULES, Reduction, all_read, reduced
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import code_range, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Values

NUMBERS = ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "bool")
TRUTHS = ("bool",)


def selecting_operator(name: str, select: np.ufunc, largest: bool, dtypes: tuple[str, ...]) -> Operator:
    """The operator that combines elements with `select`; of none the result is the end of the type that loses.

    largest: the largest element wins, not the smallest; of truths that is whether any is true.
    """

    function = "max" if largest else "min"

    def reference(call: Call[Reduction], values: Values) -> list[Array]:
        x: Any = input_value(values)
        neutral = _last_choice(input_type(call), largest)
        found = select.reduce(x, axis=call.parameters.axes, initial=neutral)
        return [np.asarray(found, x.dtype).reshape(call.outputs[0].shape)]

    return Operator(
        name=name,
        parameters=Reduction,
        types=alike(*dtypes),
        rules=(
            *REDUCTION_RULES,
            rules.same_quantization,
        ),
        infer=reduced,
        reference=reference,
        workload=all_read,
        lowerings=(
            selection_lowering(function),
            real_reduction_lowering(function),
            selection_lowering(function, rules.same_codes, rescale="float32"),
        ),
    )


def _last_choice(tensor: TensorType, largest: bool) -> Any:
    """What every other element of a type wins over."""
    if tensor.real:
        return -np.inf if largest else np.inf
    low, high = code_range(tensor.dtype)
    return tensor.numpy_dtype.type(low if largest else high)
