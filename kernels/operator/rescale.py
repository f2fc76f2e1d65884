"""From scales to multipliers: the (multiplier, shift) pairs of each operator's output stage.

Which steps run in float32 and which in float64 decides about single bytes, so each rule is written out here,
once, for references and lowerings alike. Pairs are those of `npusim.isa.arithmetic.integer.quantize_multiplier`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import Int64Array, quantize_multiplier, quantize_multipliers, requantise
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.operands import code_range, input_type, quantization
from npusim.kernels.operator.operator import Call, Rule

Multiplier = tuple[int, int]
"""A real factor as (multiplier, shift)."""

ADD_LEFT_SHIFT = 20
"""Fractional bits that addends gain before they are brought to a common scale."""


WIDE_LEFT_SHIFT = 15
"""The same for addends of 16 bits."""


def sound_scales(call: Call) -> bool:
    """every scale is positive and finite, and every zero point of an 8-bit tensor is one of its codes"""
    for tensor in (*call.inputs, *call.outputs):
        if tensor is None or tensor.quantization is None or tensor.dtype not in ("int8", "uint8"):
            continue
        low, high = code_range(tensor.dtype)
        scaling = tensor.quantization
        if not all(0 < scale < inf for scale in scaling.scales):
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
    """Return True if a call computes on quantized values of 8 or 16 bits."""
    return input_type(call).quantized and input_type(call).element.bits <= 16


def moved_in_32_bits(factor: str, multipliers: Callable[[Call], tuple[Any, Any]]) -> Rule:
    """The rule that the shifts of an 8-bit call are defined; `factor` says in words which real numbers they write.

    `multipliers` gives the call's multipliers and shifts: numbers or arrays.
    """

    def rule(call: Call) -> bool:
        return not _coded(call) or bool(np.max(multipliers(call)[1]) <= MOST_LEFT)

    rule.__doc__ = (
        f"{factor} is less than 2**{MOST_LEFT}: C leaves undefined what a larger factor makes of 32 bits"
    )
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
    """Return what sums of products of quantized values are multiplied by to be floats: scale times scale, in float32.

    One for each scale of the weights; where the feature map has several, rows of them, one for each.
    """
    of_maps, of_weights = (np.array(quantization(each).scales, np.float32) for each in (ifm, weights))
    with np.errstate(over="ignore", under="ignore"):
        found: NDArray[np.float32] = (of_maps[:, np.newaxis] if len(of_maps) > 1 else of_maps) * of_weights
    return found


def float32_scales(ifm: TensorType, weights: TensorType, ofm: TensorType) -> NDArray[np.float32]:
    """Return what they are multiplied by to be quantized values, with the rescale "float32".

    That over the output's scale, in float32.
    """
    with np.errstate(over="ignore", under="ignore"):
        found: NDArray[np.float32] = products_of_scales(ifm, weights) / np.float32(quantization(ofm).scale)
    return found


def batch_matmul_multiplier(first: TensorType, second: TensorType, ofm: TensorType) -> Multiplier:
    """Return the multiplier and shift of a product of two activations.

    Scale * scale in float32, / ofm scale in float64.
    """
    with np.errstate(over="ignore"):
        product = np.float32(quantization(first).scale) * np.float32(quantization(second).scale)
    return quantize_multiplier(float(product) / quantization(ofm).scale)


class AddMultipliers(NamedTuple):
    """The three rescales of a quantised add: both addends to a common scale, the sum to the output's."""

    first: Multiplier
    second: Multiplier
    output: Multiplier


def sum_multipliers(call: Call) -> AddMultipliers:
    """Return the multipliers and shifts of add and sub for the quantized values of a call, of 8 or 16 bits."""
    left_shift = ADD_LEFT_SHIFT if input_type(call).quantized8 else WIDE_LEFT_SHIFT
    return add_multipliers(input_type(call), input_type(call, 1), call.outputs[0], left_shift)


def add_multipliers(
    first: TensorType, second: TensorType, ofm: TensorType, left_shift: int = ADD_LEFT_SHIFT
) -> AddMultipliers:
    """Return the multipliers and shifts of add and sub; addends enter shifted left by so many places.

    The common scale is twice the larger input scale, so that the sum of two rescaled addends cannot overflow.
    """
    scales = quantization(first).scale, quantization(second).scale
    common = 2 * max(scales)
    return AddMultipliers(
        quantize_multiplier(scales[0] / common),
        quantize_multiplier(scales[1] / common),
        quantize_multiplier(common / ((1 << left_shift) * quantization(ofm).scale)),
    )


SQUARE_LEFT_SHIFT = 7
"""The same for the operands of a difference that is squared in 32 bits."""


def square_multipliers(call: Call) -> AddMultipliers:
    """Return the multipliers and shifts of squared_difference.

    Those of a difference, and of its square to the output's scale.
    """
    first, second, ofm = input_type(call), input_type(call, 1), call.outputs[0]
    scales = quantization(first).scale, quantization(second).scale
    common = 2 * max(scales)
    return AddMultipliers(
        quantize_multiplier(scales[0] / common),
        quantize_multiplier(scales[1] / common),
        quantize_multiplier(common * common / ((1 << 2 * SQUARE_LEFT_SHIFT) * quantization(ofm).scale)),
    )


def prelu_multipliers(call: Call) -> tuple[Multiplier, Multiplier]:
    """Rescales of prelu, of codes from the zero point on and of products of lower ones with alpha; in float32."""
    x, alpha, ofm = (
        np.float32(quantization(tensor).scale)
        for tensor in (input_type(call), input_type(call, 1), call.outputs[0])
    )
    with np.errstate(over="ignore", under="ignore"):
        return quantize_multiplier(float(x / ofm)), quantize_multiplier(float(x * alpha / ofm))


def div_multiplier(call: Call) -> Multiplier:
    """Return the multiplier and shift of a quotient of quantized values.

    Input scale / (input scale * output scale), in float32.
    """
    first, second, ofm = (
        np.float32(quantization(tensor).scale)
        for tensor in (input_type(call), input_type(call, 1), call.outputs[0])
    )
    with np.errstate(all="ignore"):
        return quantize_multiplier(float(first / (second * ofm)))


def mul_multiplier(first: TensorType, second: TensorType, ofm: TensorType) -> Multiplier:
    """Return the multiplier and shift of a product of quantized values.

    Scale * scale / ofm scale, both steps in float32.
    """
    with np.errstate(over="ignore"):
        product = np.float32(quantization(first).scale) * np.float32(quantization(second).scale)
        return quantize_multiplier(float(product / np.float32(quantization(ofm).scale)))


def quantize_multiplier_of(ifm: TensorType, ofm: TensorType) -> Multiplier:
    """Return the multiplier and shift of quantized values to another scale: ifm scale / ofm scale in float64."""
    return quantize_multiplier(quantization(ifm).scale / quantization(ofm).scale)


def mean_multiplier(ifm: TensorType, ofm: TensorType, count: int) -> Multiplier:
    """The rescale of a sum of `count` codes to their mean: the multiplier is divided by the count.

    To lose no precision the multiplier first moves left by floor(log2 count) bits, no further than the shift
    allows, and the shift makes up for it.
    """
    multiplier, shift = quantize_multiplier_of(ifm, ofm)
    headroom = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << headroom) // count, shift - headroom


class ExactFactors(NamedTuple):
    """What two codes, each less its zero point, are multiplied by so that products compare as the reals do."""

    first: Multiplier
    second: Multiplier


def exact_factors(first: TensorType, second: TensorType) -> ExactFactors:
    """Return integer multipliers below 2**24 and left shifts, one of which is 0 and the other at most 16.

    A float32 scale is a integer of 24 bits times a power of two. Where one power is beyond the other by more than
    16, the products of 33 bits are so far apart that 16 order them as well.
    """
    mantissas, exponents = np.frexp([quantization(first).scale, quantization(second).scale])
    apart = int(np.clip(exponents[0] - exponents[1], -16, 16))
    a, b = (round(float(mantissa) * (1 << 24)) for mantissa in mantissas)
    return ExactFactors((a, max(apart, 0)), (b, max(-apart, 0)))


def in_codes_of_output(call: Call, position: int, codes: Array) -> Array:
    """Return an operand of an operator with the parameters `ByValue`: by value on the output's scale."""
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
    """Return True if the quantized values of the inputs are those of the output, as they are."""
    return not any(tensor is not None and _rescaled_by_value(call, tensor) for tensor in call.inputs)


def kept_in_32_bits(call: Call) -> bool:
    """an input scale / output scale is less than 2**31: C leaves undefined what a larger factor makes of 32 bits"""
    rescaled = [tensor for tensor in call.inputs if tensor is not None and _rescaled_by_value(call, tensor)]
    return all(quantize_multiplier_of(tensor, call.outputs[0])[1] <= MOST_LEFT for tensor in rescaled)
