"""Multipliers, shifts and activation limits of each operator's requantization, from the scales of its operands.

Whether a step runs in float32 or float64 decides about single bytes. So each rule is written here once, for references
and lowerings alike. Pairs are those of `npusim.isa.arithmetic.integer.quantize_multiplier`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, inf, trunc
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import quantize_multiplier, quantize_multipliers, requantise
from npusim.isa.base.tensor import Array, Int64Array, TensorType
from npusim.kernels.operator.operands import code_range, input_type, quantization
from npusim.kernels.operator.operator import Call, Rule
from npusim.kernels.operator.parameters import Activated, Activation

Multiplier = tuple[int, int]
"""A real factor as (multiplier, shift)."""

ADD_LEFT_SHIFT = 20
"""Bits by which 8-bit addends are shifted left before they are requantized to a common scale."""


WIDE_LEFT_SHIFT = 15
"""Bits by which 16-bit addends are shifted left before they are requantized to a common scale."""


def sound_scales(call: Call) -> bool:
    """every scale is positive and finite, and every zero point of an 8-bit tensor is in the range of its type"""
    for tensor in (*call.inputs, *call.outputs):
        if tensor is None or tensor.quantization is None or tensor.dtype not in ("int8", "uint8"):
            continue
        low, high = code_range(tensor.dtype)
        scaling = tensor.quantization
        # The sum of many scales tells quickly that none is infinite or not a number.
        quick = min(scaling.scales, default=1.0) > 0 and sum(scaling.scales) < inf
        if not quick and not all(0 < scale < inf for scale in scaling.scales):
            return False
        if any(not low <= zero_point <= high for zero_point in set(scaling.zero_points)):
            return False
    return True


MOST_LEFT = 31
"""Places that 32 bits can move left; C leaves more undefined, and the kernels do what the processor happens to do."""


def scaled_only_down(call: Call) -> bool:
    """twice the larger input scale is less than 2**20 output scales: C leaves undefined how a sum is scaled up"""
    return not _coded(call) or sum_multipliers(call).output[1] <= 0


def _coded(call: Call) -> bool:
    """Return True if a call computes on 8-bit or 16-bit quantized values."""
    return input_type(call).quantized and input_type(call).element.bits <= 16


def moved_in_32_bits(factor: str, multipliers: Callable[[Call], tuple[Any, Any]]) -> Rule:
    """Return the rule that the shifts of an 8-bit call are defined; `factor` names the factors they represent.

    `multipliers` gives the call's multipliers and shifts: numbers or arrays.
    """

    def rule(call: Call) -> bool:
        return not _coded(call) or bool(np.max(multipliers(call)[1]) <= MOST_LEFT)

    rule.__doc__ = f"{factor} is less than 2**{MOST_LEFT}: C leaves shifts of larger factors undefined"
    return rule


def convolution_multipliers(
    ifm: TensorType, weights: TensorType, ofm: TensorType
) -> tuple[Int64Array, Int64Array]:
    """Return the multipliers and shifts of conv_2d and depthwise_conv_2d, one of each per scale of the weights.

    ifm scale * weight scale / ofm scale in float64; but for a uint8 feature map and weights with one scale
    the product of the two scales is rounded to float32 first, as the kernels do.
    """
    product = quantization(ifm).scale * np.array(quantization(weights).scales)
    if ifm.dtype == "uint8" and quantization(weights).axis is None:
        product = product.astype(np.float32).astype(np.float64)
    return quantize_multipliers(product / quantization(ofm).scale)


def fully_connected_multipliers(
    ifm: TensorType, weights: TensorType, ofm: TensorType
) -> tuple[Int64Array, Int64Array]:
    """Return the multipliers and shifts of fully_connected, one of each per scale of the weights.

    Float64 throughout.
    """
    product = quantization(ifm).scale * np.array(quantization(weights).scales)
    return quantize_multipliers(product / quantization(ofm).scale)


def products_of_scales(ifm: TensorType, weights: TensorType) -> NDArray[np.float32]:
    """Return the factors that turn integer sums of products into floats: scale times scale, in float32.

    There is one for each scale of the weights; if the feature map has several scales, there is a row for each.
    """
    of_maps, of_weights = (np.array(quantization(kind).scales, np.float32) for kind in (ifm, weights))
    with np.errstate(over="ignore", under="ignore"):
        products: NDArray[np.float32] = (of_maps[:, np.newaxis] if len(of_maps) > 1 else of_maps) * of_weights
    return products


def float32_scales(ifm: TensorType, weights: TensorType, ofm: TensorType) -> NDArray[np.float32]:
    """Return the factors that turn integer sums into quantized values for the rescale "float32", in float32."""
    with np.errstate(over="ignore", under="ignore"):
        scales: NDArray[np.float32] = products_of_scales(ifm, weights) / np.float32(quantization(ofm).scale)
    return scales


def batch_matmul_multiplier(first: TensorType, second: TensorType, ofm: TensorType) -> Multiplier:
    """Return the multiplier of a product of two activations: scale * scale in float32, / ofm scale in float64."""
    with np.errstate(over="ignore"):
        product = np.float32(quantization(first).scale) * np.float32(quantization(second).scale)
    return quantize_multiplier(float(product) / quantization(ofm).scale)


class AddMultipliers(NamedTuple):
    """The multipliers of a quantized add: of both addends to a common scale, and of the sum to the output's."""

    first: Multiplier
    second: Multiplier
    output: Multiplier


def sum_multipliers(call: Call) -> AddMultipliers:
    """Return the multipliers of add and sub for a call's 8-bit or 16-bit values."""
    return add_multipliers(input_type(call), input_type(call, 1), call.outputs[0], sum_left_shift(call))


def sum_left_shift(call: Call) -> int:
    """Return by how many bits add and sub shift a call's addends left."""
    return ADD_LEFT_SHIFT if input_type(call).quantized8 else WIDE_LEFT_SHIFT


def add_multipliers(
    first: TensorType, second: TensorType, ofm: TensorType, left_shift: int = ADD_LEFT_SHIFT
) -> AddMultipliers:
    """Return the multipliers of add and sub; addends are shifted left by so many bits first.

    The common scale is twice the larger input scale, so that the sum of two addends cannot overflow.
    """
    scales = quantization(first).scale, quantization(second).scale
    common = 2 * max(scales)
    return AddMultipliers(
        quantize_multiplier(scales[0] / common),
        quantize_multiplier(scales[1] / common),
        quantize_multiplier(common / ((1 << left_shift) * quantization(ofm).scale)),
    )


SQUARE_LEFT_SHIFT = 7
"""Bits by which 8-bit operands of squared_difference are shifted left: few, as the square must fit 32 bits."""


def square_multipliers(call: Call) -> AddMultipliers:
    """Return the multipliers of squared_difference: of a difference, and of its square to the output's scale."""
    first, second, ofm = input_type(call), input_type(call, 1), call.outputs[0]
    scales = quantization(first).scale, quantization(second).scale
    common = 2 * max(scales)
    return AddMultipliers(
        quantize_multiplier(scales[0] / common),
        quantize_multiplier(scales[1] / common),
        quantize_multiplier(common * common / ((1 << 2 * SQUARE_LEFT_SHIFT) * quantization(ofm).scale)),
    )


def prelu_multipliers(call: Call) -> tuple[Multiplier, Multiplier]:
    """Return the multipliers of prelu for positive values, and for products of negative ones with alpha; in float32."""
    x, alpha, ofm = (
        np.float32(quantization(tensor).scale)
        for tensor in (input_type(call), input_type(call, 1), call.outputs[0])
    )
    with np.errstate(over="ignore", under="ignore"):
        return quantize_multiplier(float(x / ofm)), quantize_multiplier(float(x * alpha / ofm))


def div_multiplier(call: Call) -> Multiplier:
    """Return the multiplier of a quotient: input scale / (input scale * output scale), in float32."""
    first, second, ofm = (
        np.float32(quantization(tensor).scale)
        for tensor in (input_type(call), input_type(call, 1), call.outputs[0])
    )
    with np.errstate(all="ignore"):
        return quantize_multiplier(float(first / (second * ofm)))


def mul_multiplier(first: TensorType, second: TensorType, ofm: TensorType) -> Multiplier:
    """Return the multiplier of a product: scale * scale / ofm scale, both steps in float32."""
    with np.errstate(over="ignore"):
        product = np.float32(quantization(first).scale) * np.float32(quantization(second).scale)
        return quantize_multiplier(float(product / np.float32(quantization(ofm).scale)))


def quantize_multiplier_of(ifm: TensorType, ofm: TensorType) -> Multiplier:
    """Return the multiplier of a requantization to another scale: ifm scale / ofm scale in float64."""
    return quantize_multiplier(quantization(ifm).scale / quantization(ofm).scale)


def mean_multiplier(ifm: TensorType, ofm: TensorType, count: int) -> Multiplier:
    """Return the multiplier from a sum of `count` values to their mean: a multiplier divided by the count.

    To lose no precision, the multiplier first moves left by floor(log2 count) bits, as far as the shift allows; the
    shift makes up for it.
    """
    multiplier, shift = quantize_multiplier_of(ifm, ofm)
    headroom = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << headroom) // count, shift - headroom


class ExactFactors(NamedTuple):
    """Integer factors for two operands: the products (value - zero point) * factor compare as the floats do."""

    first: Multiplier
    second: Multiplier


def exact_factors(first: TensorType, second: TensorType) -> ExactFactors:
    """Return integer multipliers below 2**24 and left shifts, one of which is 0 and the other at most 16.

    A float32 scale is an integer of 24 bits times a power of two. If one power is larger by more than 16, the products
    of 33 bits are so far apart that 16 orders them as well.
    """
    mantissas, exponents = np.frexp([quantization(first).scale, quantization(second).scale])
    apart = int(np.clip(exponents[0] - exponents[1], -16, 16))
    a, b = (round(float(mantissa) * (1 << 24)) for mantissa in mantissas)
    return ExactFactors((a, max(apart, 0)), (b, max(-apart, 0)))


def in_codes_of_output(call: Call, position: int, codes: Array) -> Array:
    """Requantize an operand to the output's scale if the parameters `ByValue` ask for it."""
    ifm, ofm = input_type(call, position), call.outputs[0]
    if not _rescaled_by_value(call, ifm):
        return codes
    every = np.arange(256, dtype=np.uint8).view(ifm.numpy_dtype).astype(np.int32)
    table = requantise(
        every - quantization(ifm).zero_point,
        *quantize_multiplier_of(ifm, ofm),
        quantization(ofm).zero_point,
        *code_range(ofm.dtype),
        ofm.numpy_dtype,
    )
    return np.asarray(table[np.asarray(codes, order="C").view(np.uint8)])


def _rescaled_by_value(call: Call, ifm: TensorType) -> bool:
    ofm = call.outputs[0]
    coded = ifm.quantized8 and ofm.quantized8 and ifm.quantization != ofm.quantization
    return coded and bool(call.parameters.by_value)


def keeps_codes(call: Call) -> bool:
    """Return True if no input needs requantization to the output's scale."""
    return not any(tensor is not None and _rescaled_by_value(call, tensor) for tensor in call.inputs)


def kept_in_32_bits(call: Call) -> bool:
    """an input scale / output scale is less than 2**31: C leaves shifts of larger factors undefined"""
    rescaled = [tensor for tensor in call.inputs if tensor is not None and _rescaled_by_value(call, tensor)]
    return all(quantize_multiplier_of(tensor, call.outputs[0])[1] <= MOST_LEFT for tensor in rescaled)


REAL_RANGES: dict[Activation, tuple[float, float]] = {
    "none": (-inf, inf),
    "relu": (0.0, inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
}
"""The range to which each activation limits float values."""


def activation_of(call: Call) -> Activation:
    """Return the activation of a call; "none" for an operator that has none."""
    activation: Activation = getattr(call.parameters, "activation", "none")
    return activation


def activation_in_32_bits(call: Call[Activated]) -> bool:
    """the bounds of the fused activation, divided by the output's scale, fit 32 bits"""
    ofm, bounds = call.outputs[0], REAL_RANGES[call.parameters.activation]
    if not ofm.quantized or ofm.element.bits > 16:
        return True
    return all(abs(bound) == inf or abs(_steps(bound, ofm)) < 1 << 31 for bound in bounds)


def act_range(activation: Activation, ofm: TensorType) -> tuple[int, int]:
    """Return the smallest and largest quantized value that `activation` lets through to an 8-bit or 16-bit output.

    A finite bound b is zero_point + b / scale, divided in float32 and rounded half away from zero, within the element
    type.
    """
    low, high = code_range(ofm.dtype)
    smallest, largest = REAL_RANGES[activation]
    if smallest > -inf:
        low = max(low, _code(smallest, ofm))
    if largest < inf:
        high = min(high, _code(largest, ofm))
    return low, high


def _code(real: float, ofm: TensorType) -> int:
    steps = _steps(real, ofm)
    if abs(steps) == inf:
        return int(copysign(1 << 31, steps))
    return quantization(ofm).zero_point + trunc(steps + copysign(0.5, steps))


def _steps(real: float, ofm: TensorType) -> float:
    """Return real / output scale, divided in float32; infinite if float32 cannot hold the quotient."""
    with np.errstate(over="ignore"):
        return float(np.float32(real) / np.float32(quantization(ofm).scale))


def float32_bounds(activation: Activation, ofm: TensorType) -> tuple[int, int]:
    """Return the smallest and largest quantized value that `activation` lets through for the rescale "float32".

    Bounds are divided by the output's scale in float32 and rounded half to even.
    """
    low, high = code_range(ofm.dtype)
    zero = quantization(ofm).zero_point
    smallest, largest = (
        _steps(bound, ofm) if abs(bound) < inf else bound for bound in REAL_RANGES[activation]
    )
    first = low if smallest < low - zero else round(smallest) + zero
    last = high if largest > high - zero else round(largest) + zero
    return min(max(first, low), high), min(max(last, low), high)


def limited(activation: Activation, values: NDArray[Any]) -> NDArray[Any]:
    """Apply `activation` in place to values without scale, floats or integers."""
    if activation == "none":
        return values
    smallest, largest = REAL_RANGES[activation]
    if values.dtype.kind != "f":
        limits = np.iinfo(values.dtype)
        smallest, largest = int(max(limits.min, smallest)), int(min(limits.max, largest))
    return np.clip(values, smallest, largest, out=values)
