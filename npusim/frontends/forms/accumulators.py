"""Weighted sums of quantized values: whether they are exact, and floats made of their int32 accumulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from npusim.frontends.bias_scales import bias_fault, products
from npusim.frontends.forms.conversion import Conversion
from npusim.frontends.forms.networks import Node
from npusim.frontends.forms.qdq import Codes
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.layouts import SPATIAL
from npusim.kernels.graph.taking import takes

_CONVOLUTIONS = {"Conv": 0, "ConvTranspose": 1}
"""The axis of the output channels in the weights of each convolution."""

_BYTES = {"int8", "uint8"}


def misfit(node: Node, held: Sequence[Codes | None], fixed: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return why a weighted sum cannot be computed exactly in integers; None if it can, or for another operation.

    held: the quantization of each operand, None for floats.
    fixed: shapes of the operands that are constants.
    """
    node = node.role
    if node.domain or node.operation not in (*_CONVOLUTIONS, "Gemm", "MatMul"):
        return None
    ifm, weights = (held[place] if place < len(held) else None for place in (0, 1))
    if ifm is None or weights is None:
        return "one factor of the weighted sum is floating-point"
    if ifm.quantization.axis is not None:
        return "the left factor of the weighted sum has a scale per channel"
    scaling = weights.quantization
    if scaling.axis is not None and not _by_output_channel(node, scaling.axis, fixed.get(node.inputs[1])):
        return "the weights have scales along an axis that is summed up"
    if scaling.axis is not None and len(set(scaling.zero_points)) > 1:
        return "the weights have different zero points"
    if node.operation == "Gemm" and node.attributes.get("alpha", 1.0) != 1.0:
        return "alpha of Gemm is not 1"
    if len(node.inputs) < 3 or not node.inputs[2]:
        return None
    if {ifm.dtype, weights.dtype} <= _BYTES:
        return None  # A bias that cannot be added to the accumulator is added in float32.
    return _bias_misfit(node, held[2], ifm.quantization, scaling)


def has_sums(node: Node, held: Sequence[Codes | None]) -> bool:
    """Return whether an operation without misfit sums products of 8-bit values, which int32 holds."""
    node = node.role
    if node.domain or node.operation not in (*_CONVOLUTIONS, "Gemm", "MatMul"):
        return False
    return all(codes is not None and codes.dtype in _BYTES for codes in held[:2])


def _by_output_channel(node: Node, axis: int, shape: tuple[int, ...] | None) -> bool:
    """Return whether an axis of the weights is that of the output channels."""
    if not shape:
        return False
    axis %= len(shape)
    if node.operation in _CONVOLUTIONS:
        return axis == _CONVOLUTIONS[node.operation] and (
            node.operation == "Conv" or node.attributes.get("group", 1) == 1
        )
    if node.operation == "Gemm":
        return axis == (0 if node.attributes.get("transB", 0) else 1)
    return len(shape) == 2 and axis == 1


def _bias_misfit(node: Node, bias: Codes | None, ifm: Quantization, weights: Quantization) -> str | None:
    if bias is None:
        return "the bias is floating-point (quantized to int32 it is a part of the sum)"
    if bias_fault(bias.dtype, bias.quantization, ifm, weights):
        return "the bias is no int32 on the scale of the weights times that of the feature map"
    if node.operation == "Gemm" and node.attributes.get("beta", 1.0) != 1.0:
        return "beta of Gemm is not 1"
    return None


SUMS = frozenset({"conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected", "batch_matmul"})
"""Weighted sums, which are exact in integers."""


def has_own_bias(kinds: Sequence[TensorType | None]) -> bool:
    """Return whether a bias cannot be added to the int32 accumulator: it is a float, or has another scale."""
    x, weights, bias = (*kinds, None)[:3]
    if x is None or weights is None or bias is None:
        return False
    if x.quantization is None or weights.quantization is None or bias.quantization is None:
        return bias.real
    return bias_fault(bias.dtype, bias.quantization, x.quantization, weights.quantization) is not None


def real_sum(
    c: Conversion, op: str, inputs: Sequence[int | None], parameters: Mapping[str, Any]
) -> int | None:
    """Add a weighted sum with a float result: f32(f32(sum) * f32(sx * sw)), then its bias in float32.

    Return None if the operator has no such sums.
    """
    x, weights, bias = (*inputs, None)[:3]
    kinds = [None if number is None else c.builder.type(number) for number in (x, weights)]
    scalings = [kind.quantization for kind in kinds if kind is not None and kind.quantized8]
    if len(scalings) < 2 or scalings[0] is None or scalings[1] is None or kinds[0] is None:
        return None
    scales = products(scalings[0], scalings[1])
    axis = None if scales.size == 1 else 1 if op in SPATIAL else len(kinds[0].shape) - 1
    apart = has_own_bias([*kinds, None if bias is None else c.builder.type(bias)])
    operands = [x, weights, *[None if apart else bias][: len(inputs) - 2]]
    types = [None if number is None else c.builder.type(number) for number in operands]
    whole = unshaped("int32", Quantization(tuple(map(float, scales)), (0,) * scales.size, axis))
    if not takes(op, types, [whole], parameters):
        return None
    real = c.as_real(c.nodes(op, operands, [whole], **parameters)[0])
    if not apart or bias is None:
        return real
    bias, count = c.as_real(bias), prod(c.shape(bias))
    shape = (count, *(1,) * (len(c.shape(real)) - 2)) if op in SPATIAL else (count,)
    return c.nodes("add", [real, c.reshaped(bias, shape)], [unshaped("float32")])[0]
