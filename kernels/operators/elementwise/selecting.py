"""Operators that keep one of two elements: the larger or smaller one, or the one that a condition chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.elementwise_work import (
    broadcast_on_npu,
    int16_lowering,
    lower_choice,
    lower_selection,
)
from npusim.kernels.lowering.float_lanes import float_binary_lowering, whole_binary_lowering
from npusim.kernels.lowering.quantized_in_float32 import literal_binary_lowering, literal_table_lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.broadcast import NUMBERS
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import broadcast, elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values, literal
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.rescale import in_codes_of_output, keeps_codes, kept_in_32_bits, sound_scales


def _codes_alike(name: str) -> Lowering:
    """Return the lowering for equal scales, where quantized values compare as they are."""
    rows = (rules.eight_bit, rules.same_codes, broadcast_on_npu)
    return Lowering("vector", rows, lambda call, hardware: lower_selection(call, name))


def selecting_operator(name: str, select: np.ufunc) -> Operator:
    """Return the operator that applies `select` (np.maximum or np.minimum) to quantized values or numbers as they are.

    By value, quantized values of other scales than the output's are brought to it first.
    """

    def reference(call: Call[ByValue], values: Values) -> list[Array]:
        first, second = (in_codes_of_output(call, i, input_value(values, i)) for i in (0, 1))
        return [np.asarray(select(first, second))]

    on_vector_unit = Lowering(
        "vector",
        (rules.eight_bit, broadcast_on_npu),
        lambda call, hardware: lower_selection(call, name, keeps_codes(call)),
    )
    return Operator(
        name=name,
        parameters=ByValue,
        types=alike("int8", "uint8", "int16", *NUMBERS),
        rules=(rules.operands(2), rules.per_tensor, rules.broadcast_shapes, sound_scales, kept_in_32_bits),
        infer=broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(
            on_vector_unit,
            int16_lowering(on_vector_unit.lower),
            float_binary_lowering(name[:3]),
            whole_binary_lowering(name[:3]),
        ),
        arithmetics=(
            literal(literal_table_lowering(reference), _codes_alike(name), literal_binary_lowering(name[:3])),
        ),
    )


MAXIMUM = selecting_operator("maximum", np.maximum)
"""The larger of two elements; operands broadcast."""


MINIMUM = selecting_operator("minimum", np.minimum)
"""The smaller of two elements; operands broadcast."""


def choosing_operator(
    name: str, infer: Callable[[Call], Shapes], aligned: Callable[[Call], tuple[int, ...]]
) -> Operator:
    """Return the operator whose condition chooses; `aligned`: under which shape it broadcasts with the others."""

    def reference(call: Call[ByValue], values: Values) -> list[Array]:
        first, second = (in_codes_of_output(call, i, input_value(values, i)) for i in (1, 2))
        return [np.where(input_value(values).reshape(aligned(call)), first, second)]

    def shapes(call: Call) -> bool:
        try:
            return infer(call) == (call.outputs[0].shape,)
        except ValueError:
            return False

    def alike(call: Call) -> Call:
        """Return the call with a condition of the shape that broadcasts."""
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


def _select_infer(call: Call) -> Shapes:
    condition, first, second = (input_type(call, i).shape for i in range(3))
    if first != second or condition not in (first, first[:1], ()):
        raise ValueError("a condition is of the inputs' shape, of their first axis, or one for all")
    return (first,)


def _select_aligned(call: Call) -> tuple[int, ...]:
    """Return the shape of the condition in which a condition per row broadcasts over the row."""
    condition, rank = input_type(call).shape, len(input_type(call, 1).shape)
    return condition + (1,) * (rank - 1) if len(condition) == 1 else condition


SELECT = choosing_operator("select", _select_infer, _select_aligned)
"""One of two tensors of one shape, by a condition per element, per row, or one for all."""


def _select_v2_infer(call: Call) -> Shapes:
    return (np.broadcast_shapes(*(input_type(call, i).shape for i in range(3))),)


def _select_v2_aligned(call: Call) -> tuple[int, ...]:
    return input_type(call).shape


SELECT_V2 = choosing_operator("select_v2", _select_v2_infer, _select_v2_aligned)
"""One of two elements by a condition; the condition and both tensors broadcast."""


OPERATORS = (
    MAXIMUM,
    MINIMUM,
    SELECT,
    SELECT_V2,
)
