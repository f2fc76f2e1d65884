"""What equal, less and their relatives share: two operands that broadcast, a truth for each pair."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import Int64Array, multiply_by_quantized_multiplier, quantize_multiplier
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import operands, rules
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Operator, Reference, Values
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.rescale import Multiplier, exact_factors, sound_scales

LEFT_SHIFT = 8
"""Fractional bits that codes gain before TFLite's kernels bring them to reals, which they round to whole numbers."""

NUMBERS = ("int16", "int32", "int64", "float16", "float32")


def comparing_operator(name: str, relation: np.ufunc) -> Operator:
    """The operator that applies `relation` (np.less, ...)."""

    def codes(call: Call[ByValue], values: Values) -> list[Array]:
        return [np.asarray(relation(*_on_one_scale(call, values)))]

    def numbers(call: Call, values: Values) -> list[Array]:
        with np.errstate(invalid="ignore"):
            return [np.asarray(relation(input_value(values), input_value(values, 1)))]

    references: dict[str, Reference] = {"int8": codes, "uint8": codes}
    references |= dict.fromkeys((*NUMBERS, "bool"), numbers)
    return Operator(
        name=name,
        parameters=ByValue,
        types=tuple(f"{dtype} -> bool" for dtype in references),
        rules=(rules.operands(2), rules.per_tensor, rules.broadcast_shapes, sound_scales),
        infer=operands.broadcast,
        reference=by_type(references),
        workload=elementwise,
        on_host="the NPU has no instruction for it",
    )


def rounded(call: Call[ByValue]) -> bool:
    """Whether TFLite's kernels define the comparison: scales below 1. Others, and real numbers, compare exactly."""
    return not call.parameters.by_value and all(shift <= 0 for _, shift in rounded_multipliers(call))


def rounded_multipliers(call: Call) -> tuple[Multiplier, Multiplier]:
    """The scales of both operands."""
    first, second = (quantize_multiplier(quantization(input_type(call, i)).scale) for i in (0, 1))
    return first, second


def _on_one_scale(call: Call[ByValue], values: Values) -> list[Int64Array]:
    """Both operands as numbers that compare as the kernel has them compare."""
    centred = [
        input_value(values, i).astype(np.int64) - quantization(input_type(call, i)).zero_point for i in (0, 1)
    ]
    if rounded(call):
        return [
            multiply_by_quantized_multiplier(codes << LEFT_SHIFT, *multiplier).astype(np.int64)
            for codes, multiplier in zip(centred, rounded_multipliers(call), strict=True)
        ]
    factors = exact_factors(input_type(call), input_type(call, 1))
    return [codes * multiplier << shift for codes, (multiplier, shift) in zip(centred, factors, strict=True)]
