"""Operators of two operands whose elements stand for themselves: whole numbers and reals, no scales."""

from __future__ import annotations

from collections.abc import Mapping

from npusim.kernels.lowering.real import real_binary_lowering
from npusim.kernels.operator import operands, rules
from npusim.kernels.operator.broadcast import Combine, of_numbers
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, with_halves
from npusim.kernels.operator.operator import Operator


def numeric_operator(name: str, functions: Mapping[str, Combine]) -> Operator:
    """The operator with a function for each element type; float16 is that of float32."""
    references = with_halves({dtype: of_numbers(function) for dtype, function in functions.items()})
    return Operator(
        name=name,
        types=alike(*references),
        rules=(rules.operands(2), rules.broadcast_shapes),
        infer=operands.broadcast,
        reference=by_type(references),
        workload=elementwise,
        lowerings=(real_binary_lowering(name),),
    )
