"""Quantized operators of com.microsoft, which fuse steps that ONNX writes one after the other (`rescale` "fused").

The formulas are those of ONNX Runtime's kernels for processors with a fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from npusim.isa.arithmetic.float_codes import Codes, clamped, multiply_add
from npusim.isa.base.tensor import Array, Float32Array, TensorType
from npusim.kernels.operator.element_types import quantize_results
from npusim.kernels.operator.operands import code_range, input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Rule, Values
from npusim.kernels.operator.rescale import REAL_RANGES, activation_of


class SumFactors(NamedTuple):
    """Numbers of a fused sum: the factors of both operands, and the addend."""

    first: np.float32
    second: np.float32
    addend: np.float32


@np.errstate(all="ignore")
def sum_factors(call: Call) -> SumFactors:
    """Return f32(scale / output scale) of both operands, and the addend of their zero points.

    The addend is f32(zero - fma(first, first zero, f32(second * second zero))).
    """
    a, b, output = (quantization(kind) for kind in (input_type(call), input_type(call, 1), call.outputs[0]))
    first, second = (np.float32(quantized.scale) / np.float32(output.scale) for quantized in (a, b))
    worth = np.full(1, second * np.float32(b.zero_point), np.float32)
    zeros = multiply_add(first, np.full(1, a.zero_point), worth)[0]
    return SumFactors(first, second, np.float32(output.zero_point) - zeros)


def fused_sum(call: Call, values: Values) -> list[Array]:
    """Compute QLinearAdd: rint(fma(first, a, fma(second, b, addend))). The order of operands decides ties.

    ONNX Runtime takes the first operand last, unless it alone is one number along the innermost axis of the result that
    has more than one element. A reader of models gives operands in that order.
    """
    factors = sum_factors(call)
    a, b = np.broadcast_arrays(*_codes(values))
    addend = np.full(a.shape, factors.addend, np.float32)
    steps = multiply_add(factors.first, a, multiply_add(factors.second, b, addend))
    return [finish_steps(call, np.rint(steps))]


@np.errstate(all="ignore")
def product_factor(call: Call) -> np.float32:
    """Return f32(f32(scale * scale) / output scale)."""
    a, b, output = (quantization(kind) for kind in (input_type(call), input_type(call, 1), call.outputs[0]))
    return np.float32(a.scale) * np.float32(b.scale) / np.float32(output.scale)


@np.errstate(all="ignore")
def fused_product(call: Call, values: Values) -> list[Array]:
    """Compute QLinearMul: rint(f32(f32(f32((a - zero) * (b - zero)) * factor) + output zero))."""
    zeros = (quantization(input_type(call, position)).zero_point for position in (0, 1))
    a, b = (codes.astype(np.int32) - zero for codes, zero in zip(_codes(values), zeros, strict=True))
    steps = (a * b).astype(np.float32) * product_factor(call)
    return [finish_steps(call, np.rint(steps + np.float32(quantization(call.outputs[0]).zero_point)))]


@np.errstate(all="ignore")
def mean_factor(call: Call) -> np.float32:
    """Return f32(scale / f32(output scale * number of elements)) of a mean over axes."""
    source, output = quantization(input_type(call)), quantization(call.outputs[0])
    divisor = np.float32(output.scale) * np.float32(input_type(call).elements // call.outputs[0].elements)
    return np.float32(source.scale) / divisor


@np.errstate(all="ignore")
def fused_mean(call: Call, values: Values) -> list[Array]:
    """Compute QLinearGlobalAveragePool: rint(f32(f32(sum of (value - zero)) * factor)) + output zero."""
    codes = np.asarray(input_value(values)).astype(np.int64)
    terms = input_type(call).elements // call.outputs[0].elements
    sums = codes.sum(axis=call.parameters.axes) - terms * quantization(input_type(call)).zero_point
    steps = np.rint(sums.astype(np.float32) * mean_factor(call))
    output = call.outputs[0]
    return [finish_steps(call, steps + np.float32(quantization(output).zero_point)).reshape(output.shape)]


@np.errstate(all="ignore")
def fused_average(call: Call, averages: Float32Array) -> list[Array]:
    """Compute QLinearAveragePool: float32 averages become rint(f32(f32(average / scale) + zero))."""
    output = quantization(call.outputs[0])
    steps = averages / np.float32(output.scale) + np.float32(output.zero_point)
    return [finish_steps(call, np.rint(steps))]


def _codes(values: Values) -> list[Codes]:
    return [np.asarray(input_value(values, position)) for position in (0, 1)]


def finish_steps(call: Call, steps: Float32Array) -> Array:
    """Return rounded steps, zero point included, as quantized values limited by the activation."""
    output = call.outputs[0]
    return np.asarray(clamped(steps, *bounds(call), output.numpy_dtype))


def bounds(call: Call) -> tuple[int, int]:
    """Return the smallest and largest quantized output that the activation lets through, in float32."""
    limits = REAL_RANGES[activation_of(call)]
    low, high = quantize_results(np.array(limits, np.float32), call.outputs[0]).tolist()
    return low, high


def only_codes(call: Call) -> bool:
    """fused, operands and result are int8 or uint8 tensors with one scale and zero point"""
    kinds: list[TensorType | None] = [*call.inputs, *call.outputs]
    return all(kind is not None and one_scale(kind) for kind in kinds)


def in_32_bits(combine: Callable[[Iterable[float]], float]) -> Rule:
    """Return the rule that fused results fit 32-bit integers; `combine` (sum, prod) gives their largest magnitude."""

    def rule(call: Call) -> bool:
        """fused, the largest result is less than 2**31 output scales: ONNX Runtime leaves more to the processor"""
        kinds = [kind for kind in call.inputs if kind is not None]
        return combine(map(_largest, kinds)) < 2.0**31 * quantization(call.outputs[0]).scale

    return rule


def _largest(kind: TensorType) -> float:
    """Return the largest absolute value that a quantized tensor with one scale can represent."""
    scaling = quantization(kind)
    return float(scaling.scale) * max(abs(code - scaling.zero_point) for code in code_range(kind.dtype))


def one_scale(kind: TensorType) -> bool:
    """Return True if elements are 8-bit values with one scale and zero point."""
    return kind.quantized8 and kind.quantization is not None and kind.quantization.axis is None
