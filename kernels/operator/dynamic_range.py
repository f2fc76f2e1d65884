"""Dynamic range quantization: float32 activations, and constant weights of 8 bits without zero point.

Rows of activations are quantized to int8 at run time; products with the weights are summed in integers and scaled back
to float32. This is the default of the TFLite converter, and what LiteRT calls "hybrid". Every rounding here is that of
LiteRT's kernels on x86-64, whether its reference kernels are asked for or not (neon_tensor_utils.cc).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.activation import activation_of, limited
from npusim.kernels.operator.operands import quantization
from npusim.kernels.operator.operator import Arithmetic, Call, Rule, Values

Float32Array = NDArray[np.float32]

SYMMETRIC, ASYMMETRIC = 127, 255
"""Steps between 0 and the largest magnitude of a row, and between its smallest and largest value."""

_VECTOR = 8
"""Values that LiteRT quantizes at once. The rest of a row is rounded by another instruction."""
_OVERFLOW = -(1 << 31)
"""What a conversion to int32 gives on x86-64 where float32 has no such number."""

ON_HOST = "rows are quantized at run time (dynamic range), which no unit of the NPU does for this call"
"""Why the host computes such a call."""


class QuantizedRows(NamedTuple):
    """Rows of int8 values [rows, n]; of each row its float32 scale and its zero point."""

    values: NDArray[np.int8]
    scales: Float32Array
    zero_points: NDArray[np.int64]


def quantized_rows(rows: NDArray[Any], asymmetric: bool) -> QuantizedRows:
    """Quantize each row of [rows, n] by its own range.

    Symmetric: the largest magnitude becomes 127. Asymmetric: the range from the smallest to the largest value, 0
    included, becomes -128 .. 127. A row of zeros has scale 1 and zero point 0.
    """
    with np.errstate(all="ignore"):
        low, high = rows.min(axis=1, initial=0), rows.max(axis=1, initial=0)
        if asymmetric:
            extent, smallest = high - low, -128
            wide = extent.astype(np.float64) / ASYMMETRIC
            scales = wide.astype(np.float32)
            inverse = np.where(scales == 0, np.float32(0), np.float32(1) / scales)
            zero_points = _zero_points(low, high, wide)
        else:
            extent, smallest = np.maximum(-low, high), -SYMMETRIC
            scales, inverse = extent / np.float32(SYMMETRIC), np.float32(SYMMETRIC) / extent
            zero_points = np.zeros(len(rows), np.int64)
        values = _shifted(rows * inverse[:, None], zero_points[:, None])
    empty = extent == 0
    values = np.clip(values, smallest, 127)
    values[empty] = 0
    return QuantizedRows(
        values.astype(np.int8),
        np.where(empty, np.float32(1), scales),
        np.where(empty, 0, zero_points),
    )


def _zero_points(low: Float32Array, high: Float32Array, scales: NDArray[np.float64]) -> NDArray[np.int64]:
    """Zero points in float64, half away from 0: from the end of the range whose quotient, and so error, is smaller."""
    below, above = low / scales, high / scales
    from_low = 128 + np.abs(below) < 127 + np.abs(above)
    exact = np.where(from_low, -128 - below, 127 - above)
    nearest = np.trunc(exact + np.copysign(0.5, exact))
    return np.asarray(np.clip(np.nan_to_num(nearest), -128, 127), np.int64)


def _shifted(quotients: Float32Array, zero_points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round half away from zero and add the zero point.

    LiteRT's vectors add 0.5 in float32, by which 0.49999997 becomes 1, and their sums with a zero point wrap to 32
    bits; it rounds the values behind the last vector exactly.
    """
    vectors = quotients.shape[1] // _VECTOR * _VECTOR
    result = quotients + np.where(quotients < 0, np.float32(-0.5), np.float32(0.5))
    rest = quotients[:, vectors:].astype(np.float64)
    steps = result.astype(np.float64)
    steps[:, vectors:] = rest + np.copysign(0.5, rest)
    steps = np.trunc(steps)
    values = np.where(np.abs(steps) < -_OVERFLOW, steps, _OVERFLOW).astype(np.int64) + zero_points
    values[:, :vectors] = values[:, :vectors].astype(np.int32)
    return values


def scales_of(weights: TensorType) -> Float32Array:
    """The scales of weights, one or one per channel."""
    return np.array(quantization(weights).scales, np.float32)


def product(
    rows: NDArray[Any], weights: NDArray[Any], scales: Float32Array, asymmetric: bool
) -> Float32Array:
    """Products of rows [rows, n] with weights [units, n], whose scales are one or one per unit."""
    quantized = quantized_rows(rows, asymmetric)
    wide = weights.astype(np.float64)  # in which sums of such products are exact
    sums = quantized.values.astype(np.float64) @ wide.T
    sums -= quantized.zero_points[:, None] * wide.sum(axis=1)
    result: Float32Array = sums.astype(np.float32) * (quantized.scales[:, None] * scales)
    return result


def asymmetric(call: Call) -> bool:
    """Whether rows get zero points of their own."""
    return call.parameters.rescale == "dynamic_asymmetric"


def symmetric_weights(axis: int | None, *positions: int) -> Rule:
    """The rule for weights whose channels are dimension `axis`; None where only one scale may be.

    positions: of the weights among the operands, of which some may be absent; by default 1.
    """

    def fits(weights: TensorType) -> bool:
        scaling = weights.quantization
        if scaling is None or any(scaling.zero_points):
            return False
        along = None if axis is None else axis % len(weights.shape)
        return scaling.axis in (None, along)

    def rule(call: Call) -> bool:
        kinds = [call.inputs[position] for position in positions or (1,) if position < len(call.inputs)]
        return all(fits(kind) for kind in kinds if kind is not None)

    channels = "" if axis is None else f", or one per channel of dimension {axis}"
    rule.__doc__ = f"int8 weights beside float32 activations have zero point 0 and one scale{channels}"
    return rule


def arithmetic(
    types: tuple[str, ...], rules: tuple[Rule, ...], reference: Callable[[Call, Values], list[Array]]
) -> Arithmetic:
    """The dynamic range arithmetic of an operator."""
    return Arithmetic(types, rules, reference, ("dynamic", "dynamic_asymmetric"), ON_HOST)


def finish(call: Call, products: Float32Array, bias: Any) -> list[Array]:
    """Return the output from products, channels last: with the bias, if there is one, and the activation."""
    with np.errstate(all="ignore"):
        sums = products if bias is None else products + bias.astype(np.float32, copy=False)
    return [limited(activation_of(call), sums).reshape(call.outputs[0].shape)]
