"""Operators of two operands that broadcast with a boolean result: comparisons and logic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.isa.base.tensor import Array, Int64Array
from npusim.kernels.lowering.elementwise_work import broadcast_on_npu, lower_comparison, lower_truths
from npusim.kernels.lowering.float_lanes import float_binary_lowering, whole_binary_lowering
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import operands, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    broadcast,
    by_type,
    elementwise,
    input_type,
    input_value,
    quantization,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Reference, Values
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.rescale import Multiplier, exact_factors, sound_scales

LEFT_SHIFT = 8
"""Fraction bits that quantized values gain before TFLite's kernels multiply them by their scale and round."""

NUMBERS = ("int16", "int32", "int64", "float16", "float32")


def comparing_operator(name: str, relation: np.ufunc, scaled_16: bool = False) -> Operator:
    """Return the operator that applies `relation` (np.less, ...).

    scaled_16: LiteRT brings 16-bit values to floats as it does those of 8; otherwise it compares them as they are.
    """

    def codes(call: Call[ByValue], values: Values) -> list[Array]:
        return [np.asarray(relation(*_on_one_scale(call, values)))]

    def numbers(call: Call, values: Values) -> list[Array]:
        with np.errstate(invalid="ignore"):
            return [np.asarray(relation(input_value(values), input_value(values, 1)))]

    def wide_codes(call: Call, values: Values) -> list[Array]:
        coded = input_type(call).quantized and input_type(call, 1).quantized
        return (codes if coded and rounded(call) else numbers)(call, values)

    references: dict[str, Reference] = {"int8": codes, "uint8": codes}
    references |= dict.fromkeys((*NUMBERS, "bool"), numbers)
    if scaled_16:
        references["int16"] = wide_codes
    return Operator(
        name=name,
        parameters=ByValue,
        types=tuple(f"{dtype} -> bool" for dtype in references),
        rules=(rules.operands(2), rules.per_tensor, rules.broadcast_shapes, sound_scales),
        infer=operands.broadcast,
        reference=by_type(references),
        workload=elementwise,
        lowerings=(
            Lowering(
                "vector", (_codes_or_truths, broadcast_on_npu), lambda call, hardware: _lower(call, name)
            ),
            float_binary_lowering(name),
            whole_binary_lowering(name),
        ),
    )


def _codes_or_truths(call: Call) -> bool:
    """the NPU compares int8 and uint8 tensors with one scale and zero point, and booleans"""
    return rules.eight_bit(call) or all(
        tensor is not None and tensor.dtype == "bool" for tensor in call.inputs
    )


def _lower(call: Call[ByValue], name: str) -> Parts:
    first, second = input_type(call), input_type(call, 1)
    if not first.quantized8 or (first.quantization == second.quantization and not rounded(call)):
        return lower_comparison(call, name, "codes", {})
    zeros = {
        "a_zero": quantization(first).zero_point,
        "b_zero": quantization(second).zero_point,
    }
    if rounded(call):
        scale, factors = "rounded", rounded_multipliers(call)
        zeros["left_shift"] = LEFT_SHIFT
    else:
        scale, factors = "exact", exact_factors(first, second)
    (a_multiplier, a_shift), (b_multiplier, b_shift) = factors
    fields = {
        "a_multiplier": a_multiplier,
        "a_shift": a_shift,
        "b_multiplier": b_multiplier,
        "b_shift": b_shift,
    }
    return lower_comparison(call, name, scale, zeros | fields)


def rounded(call: Call[ByValue]) -> bool:
    """Return True if TFLite's kernels define the comparison, for scales below 1; others and floats compare exactly."""
    return not call.parameters.by_value and all(shift <= 0 for _, shift in rounded_multipliers(call))


def rounded_multipliers(call: Call) -> tuple[Multiplier, Multiplier]:
    """Return the scales of both operands."""
    first, second = (quantize_multiplier(quantization(input_type(call, i)).scale) for i in (0, 1))
    return first, second


def _on_one_scale(call: Call[ByValue], values: Values) -> list[Int64Array]:
    """Return both operands as integers that compare as the kernel compares them."""
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


EQUAL = comparing_operator("equal", np.equal, scaled_16=True)
"""True where two elements are equal; operands broadcast."""


NOT_EQUAL = comparing_operator("not_equal", np.not_equal, scaled_16=True)
"""True where two elements differ; operands broadcast."""


GREATER = comparing_operator("greater", np.greater)
"""True where the first element is larger; operands broadcast."""


GREATER_EQUAL = comparing_operator("greater_equal", np.greater_equal)
"""True where the first element is larger or equal; operands broadcast."""


LESS = comparing_operator("less", np.less)
"""True where the first element is smaller; operands broadcast."""


LESS_EQUAL = comparing_operator("less_equal", np.less_equal)
"""True where the first element is smaller or equal; operands broadcast."""


def logical_operator(name: str, combine: np.ufunc, lower: Callable[[Call], Parts]) -> Operator:
    """Return the operator that applies `combine` (np.logical_and, ...); `lower`: what that is for bytes of 0 or 1."""

    def reference(call: Call, values: Values) -> list[Array]:
        return [np.asarray(combine(input_value(values), input_value(values, 1)))]

    return Operator(
        name=name,
        types=alike("bool"),
        rules=(rules.operands(2), rules.broadcast_shapes),
        infer=broadcast,
        reference=reference,
        workload=elementwise,
        lowerings=(Lowering("vector", (broadcast_on_npu,), lambda call, hardware: lower(call)),),
    )


LOGICAL_AND = logical_operator("logical_and", np.logical_and, lambda call: lower_truths(call, "min"))
"""True where both booleans are true; operands broadcast."""


LOGICAL_OR = logical_operator("logical_or", np.logical_or, lambda call: lower_truths(call, "max"))
"""True where at least one boolean is true; operands broadcast."""


LOGICAL_XOR = logical_operator(
    "logical_xor", np.logical_xor, lambda call: lower_comparison(call, "not_equal", "codes", {})
)
"""True where exactly one boolean is true; operands broadcast."""


OPERATORS = (
    EQUAL,
    NOT_EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOGICAL_AND,
    LOGICAL_OR,
    LOGICAL_XOR,
)
