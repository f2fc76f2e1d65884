"""Weighted sums with `rescale="float32"`: exact sums of quantized values, requantized by one product in float32.

    sum    = sum of (x - x zero point) * (w - w zero point) + bias     exact, whatever its size
    scale  = f32(f32(x scale * w scale) / output scale)                of each channel
    result = bounds(rint(f32(f32(sum) * scale)) + output zero point)

as in ONNX's QLinearConv, QLinearMatMul, QGemm and groups of DequantizeLinear, operator, QuantizeLinear. Feature
map, weights and output are signed or unsigned quantized values of 8 or 16 bits with a zero point each; weights may have
scales and zero points by output channel. The bias is int32 on the scale of a product, x scale * w scale, whatever its
own quantization states. The activation becomes bounds of the quantized results.

If the output is not quantized:

* an int32 output is the sum itself (ConvInteger, MatMulInteger), wrapped to 32 bits, without activation. The scales of
  feature map and weights have no effect (1.0 where a model has none). That of the output is for its readers, such as a
  dequantize by f32(x scale * w scale);
* a float32 output is f32(f32(sum) * f32(x scale * w scale)), then the activation (QGemm without output scale).

With a floating-point feature map or weights a call computes on dequantized operands, as other operators do.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.float_codes import requantise_in_float32
from npusim.isa.base.elements import element
from npusim.isa.base.tensor import SIZE_ONLY, Array, IntArray, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.requantization_stage import float32_rescale
from npusim.kernels.operator.element_types import by_element
from npusim.kernels.operator.operands import input_type, input_value, optional_type, quantization
from npusim.kernels.operator.operator import ROOM, Call, Lowering, Rule, Values, need
from npusim.kernels.operator.rescale import (
    activation_of,
    float32_bounds,
    float32_scales,
    limited,
    products_of_scales,
)
from npusim.kernels.operators.convolution.weighted_sum import (
    BIAS,
    WEIGHTS,
    array_passes,
    bias_per_channel,
    wide_maps,
)

_CODES = "int8|uint8|int16|uint16"
PRODUCT_TYPES = (f"{_CODES}, {_CODES} -> {_CODES}|int32|float32",)
TYPES = (f"{_CODES}, {_CODES}, int32 -> {_CODES}|int32|float32",)
"""Element types of feature map, weights, bias and output."""

EXACT = 1 << 53
"""The largest integer up to which float64 represents every integer."""

Sums = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
"""Computes weighted sums, channels last, from feature map and weights."""


def _coded(tensor: TensorType) -> bool:
    return tensor.quantized and tensor.element.bits <= 16


def scaled_by_channel(axis: int) -> Rule:
    """Return the rule for quantizations with output channels along dimension `axis` of the weights.

    `axis` counts from the front or the back.
    """

    def rule(call: Call) -> bool:
        return scaled(call, None, axis)

    rule.__doc__ = (
        "feature map and a quantized output have one scale and zero point each, weights one or one per channel of "
        f"dimension {axis}"
    )
    return rule


def scaled(call: Call, row_axis: int | None, channel_axis: int) -> bool:
    """Return whether the operands that must be quantized are.

    Each has one scale and zero point, or one for each position along `row_axis` of the first operand or `channel_axis`
    of the second. Axes count from the front or the back.
    """
    x, w, ofm = input_type(call), input_type(call, WEIGHTS), call.outputs[0]
    good = ofm.dtype in ("int32", "float32") or _scaled_along(ofm, None)
    return good and _scaled_along(x, row_axis) and _scaled_along(w, channel_axis)


def _scaled_along(tensor: TensorType, axis: int | None) -> bool:
    scaling = tensor.quantization
    if scaling is None:
        return False
    if axis is None or scaling.axis is None:
        return scaling.axis is None and len(scaling.scales) == len(scaling.zero_points) == 1
    where = axis % len(tensor.shape)
    return scaling.axis == where and len(scaling.scales) == len(scaling.zero_points) == tensor.shape[where]


def sound_scales(call: Call) -> bool:
    """every scale is positive and finite, every zero point fits its type, and scale * scale / output scale is finite"""
    coded = [kind for kind in (input_type(call), input_type(call, WEIGHTS), call.outputs[0]) if _coded(kind)]
    for tensor in coded:
        low, high = element(tensor.dtype).limits
        scaling = quantization(tensor)
        if not all(0 < scale < inf for scale in scaling.scales):
            return False
        if not all(low <= zero_point <= high for zero_point in scaling.zero_points):
            return False
    return bool(np.isfinite(scales(call)).all())


def scales(call: Call) -> NDArray[np.float32]:
    """Return the factors of sums: to quantized values or floats; 1 where the output is the sums."""
    x, w, ofm = input_type(call), input_type(call, WEIGHTS), call.outputs[0]
    if ofm.dtype == "int32":
        return np.ones(1, np.float32)
    return products_of_scales(x, w) if ofm.real else float32_scales(x, w, ofm)


def sums_without_activation(call: Call) -> bool:
    """an int32 output, the sum itself, has no activation"""
    return call.outputs[0].dtype != "int32" or activation_of(call) == "none"


def largest_sum(call: Call, inner: int) -> int:
    """Return a bound of the magnitude of a sum of `inner` products, for all values of the operands.

    A bias is counted by its values if they are known.
    """
    most = _farthest(input_type(call)) * _farthest(input_type(call, WEIGHTS)) * inner
    return most + _largest_bias(call)


def _farthest(tensor: TensorType) -> int:
    """Return the largest magnitude of a quantized value less its zero point."""
    low, high = element(tensor.dtype).limits
    zeros = quantization(tensor).zero_points
    return max(high - min(zeros), max(zeros) - low)


def _largest_bias(call: Call) -> int:
    """Return the largest magnitude of a bias: that of int32 if it is computed, 0 if only its size is known."""
    bias = call.constants.get(BIAS)
    if optional_type(call, BIAS) is None or bias is SIZE_ONLY:
        return 0
    if bias is None:
        return 1 << 31
    return int(np.abs(np.asarray(bias).astype(np.int64)).max(initial=0))


def sums_in_53_bits(inner: Callable[[Call], int]) -> Rule:
    """Return the rule that sums of `inner` products are exact in float64."""

    def rule(call: Call) -> bool:
        """sums stay below 2**53"""
        return largest_sum(call, inner(call)) < EXACT

    return rule


def sums_in_32_bits(inner: Callable[[Call], int], axis: int | None) -> Rule:
    """Return the rule that sums of `inner` products do not wrap; output channels are dimension `axis` of the weights.

    None as `axis`: judge by the element types alone, whatever the values are.
    """

    def rule(call: Call) -> bool:
        """on the NPU sums of products and bias fit 32 bits, unless the output is the int32 sums"""
        if largest_sum(call, inner(call)) < 1 << 31 or call.outputs[0].dtype == "int32":
            return True
        weights, bias = call.constants.get(WEIGHTS), _largest_bias(call)
        if bias >= 1 << 31 or weights is None or axis is None:
            return False
        if weights is SIZE_ONLY:
            return True
        w: Any = weights
        others = tuple([at for at in range(w.ndim) if at != axis])
        most = int(np.abs(centred(w, input_type(call, WEIGHTS), np.int64)).sum(axis=others).max(initial=0))
        return most * _farthest(input_type(call)) + bias < 1 << 31

    return rule


def rules(inner: Callable[[Call], int], axis: int) -> tuple[Rule, ...]:
    """Return the rules of weighted sums of `inner` products; output channels are dimension `axis` of the weights."""
    return (
        scaled_by_channel(axis),
        sound_scales,
        bias_per_channel,
        sums_without_activation,
        sums_in_53_bits(inner),
    )


def centred(codes: Any, kind: TensorType, dtype: type[np.number[Any]]) -> NDArray[Any]:
    """Return quantized values less their zero points."""
    _, zeros = by_element(quantization(kind), codes.ndim)
    values: NDArray[Any] = codes.astype(dtype) - zeros.astype(dtype)
    return values


def simple(call: Call) -> bool:
    """Return True for 8-bit values whose weights have one zero point."""
    zeros = quantization(input_type(call, WEIGHTS)).zero_points
    return input_type(call).quantized8 and input_type(call, WEIGHTS).quantized8 and len(set(zeros)) == 1


def finish(call: Call, sums: NDArray[Any], bias: Any) -> Array:
    """Return the output of exact sums, int32 or int64, channels last."""
    ofm, factors = call.outputs[0], scales(call)
    if factors.ndim > 1:  # of each row
        factors = np.broadcast_to(factors, sums.shape)
    if bias is not None:
        sums = sums + bias.astype(sums.dtype)
    if ofm.dtype == "int32":
        return sums.astype(np.int32)
    activation = activation_of(call)
    if ofm.real:
        return limited(activation, sums.astype(np.float32) * factors)
    codes: IntArray = requantise_in_float32(
        sums, factors, quantization(ofm).zero_point, *float32_bounds(activation, ofm), ofm.numpy_dtype
    )
    return codes


def exact_sums(call: Call, values: Values, of_floats: Sums, of_codes: Sums | None = None) -> NDArray[Any]:
    """Return sums of products: int32 by a primitive for 8-bit values if there is one, else int64 by one in float64.

    of_floats takes float64 arrays of quantized values less their zero points.
    """
    x, w = input_value(values), input_value(values, WEIGHTS)
    if of_codes is not None and simple(call):
        return of_codes(x, w)
    kinds = input_type(call), input_type(call, WEIGHTS)
    centre = [centred(factor, kind, np.float64) for factor, kind in zip((x, w), kinds, strict=True)]
    return of_floats(*centre).astype(np.int64)


def codes_on_npu(call: Call) -> bool:
    """on the NPU feature map and weights are 8-bit quantized values, the output too or the int32 sums"""
    ofm = call.outputs[0]
    coded = input_type(call).quantized8 and input_type(call, WEIGHTS).quantized8
    return coded and (ofm.quantized8 or ofm.dtype == "int32")


def one_weight_zero(call: Call) -> bool:
    """on the NPU all weights have one zero point"""
    return len(set(quantization(input_type(call, WEIGHTS)).zero_points)) == 1


def codes_only(call: Call) -> bool:
    """on the NPU a depthwise convolution requantizes its sums: the output is not int32"""
    return call.outputs[0].dtype != "int32"


def on_npu(row: Lowering, fits: Rule, *rules: Rule) -> Lowering:
    """Return the lowering of fixed point adapted to exact sums that are requantized in float32."""
    return row._replace(
        rules=(codes_on_npu, *row.rules[1:], *rules, one_weight_zero, fits),
        needs=(*row.needs, float32_rescale),
    )


def _int16_on_npu(call: Call) -> bool:
    """on the NPU int16 feature maps and results have zero point 0, beside constant 8-bit weights and bias"""
    maps = input_type(call), call.outputs[0]
    return wide_maps(call) and all(
        kind.dtype == "int16" and not quantization(kind).zero_point for kind in maps
    )


def _sums_in_47_bits(inner: Callable[[Call], int]) -> Rule:
    def rule(call: Call) -> bool:
        """on the NPU sums of int16 values with weights stay below 2**47"""
        return largest_sum(call, inner(call)) < 1 << 47

    return rule


def on_int16(row: Lowering, inner: Callable[[Call], int]) -> Lowering:
    """Return the lowering of fixed point adapted to exact sums of int16 feature maps, requantized in float32."""
    return row._replace(
        rules=(_int16_on_npu, *row.rules[1:], one_weight_zero, _sums_in_47_bits(inner)),
        needs=(*row.needs, array_passes, float32_rescale),
    )


def with_room(row: Lowering) -> Lowering:
    """Return a lowering that also needs room for the second operand where the output is the sums."""
    return row._replace(needs=(*row.needs, _room))


@need(ROOM)
def _room(call: Call, hardware: Hardware) -> bool:
    """room in half of the scratchpad for the second operand where the output is the int32 sums"""
    second = input_type(call, WEIGHTS)
    matrix = prod(second.shape[-2:])
    return call.outputs[0].dtype != "int32" or 2 * matrix <= hardware.scratchpad_bytes
