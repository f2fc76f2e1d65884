"""Dynamic range quantization: float32 activations, and constant weights of 8 bits without zero point.

Rows of activations are quantized to int8 at run time; products with the weights are summed in integers and scaled back
to float32. This is the default of the TFLite converter, and what LiteRT calls "hybrid". Every rounding here is that of
LiteRT's kernels on x86-64, whether its reference kernels are asked for or not (neon_tensor_utils.cc).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array, Float32Array, TensorType
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.operands import input_type, optional_type, quantization
from npusim.kernels.operator.operator import Arithmetic, Call, Rule, Values
from npusim.kernels.operator.parameters import DYNAMIC_RANGE, Activated, ByValue, Parameters
from npusim.kernels.operator.rescale import activation_of, limited

SYMMETRIC, ASYMMETRIC = 127, 255
"""Quantization steps of a row: from 0 to its largest magnitude, and from its smallest to its largest value."""

_VECTOR = 8
"""Values that LiteRT quantizes at once. The rest of a row is rounded by another instruction."""
_OVERFLOW = -(1 << 31)
"""Result of x86-64 when a float32 value beyond int32, or NaN, is converted to int32."""

ON_HOST = "rows are quantized at run time (dynamic range), again in every step"
ON_FLOAT_UNITS = (
    "rows are quantized at run time (dynamic range), which needs float lanes and columns (vector.float32_lanes, "
    "mac_array.float32_columns) and constant weights"
)
"""Reasons why the host computes a layer with dynamic range quantization: one with a state, one without."""


class QuantizedRows(NamedTuple):
    """Rows of int8 values [rows, n], with a float32 scale and a zero point per row."""

    values: NDArray[np.int8]
    scales: Float32Array
    zero_points: NDArray[np.int64]


class Scales(NamedTuple):
    """The float32 scale, its inverse (by which values are multiplied) and the zero point of each row."""

    inverse: Float32Array
    scales: Float32Array
    zero_points: NDArray[np.int64]


def asymmetric_scales(low: NDArray[Any], high: NDArray[Any]) -> Scales:
    """Return scales that map the range of each row to -128 .. 127. The ranges [low, high] must include 0."""
    with np.errstate(all="ignore"):
        extent = high - low
        wide = extent.astype(np.float64) / ASYMMETRIC
        scales = wide.astype(np.float32)
        inverse = np.where(scales == 0, np.float32(0), np.float32(1) / scales)
        empty = extent == 0
        zero_points = np.where(empty, 0, _zero_points(low, high, wide))
    return Scales(inverse, np.where(empty, np.float32(1), scales), zero_points)


def quantized_rows(rows: NDArray[Any], asymmetric: bool) -> QuantizedRows:
    """Quantize each row of [rows, n] by its own range.

    Symmetric: the largest magnitude becomes 127. Asymmetric: the range from the smallest to the largest value, 0
    included, becomes -128 .. 127. A row of zeros has scale 1 and zero point 0.
    """
    with np.errstate(all="ignore"):
        low, high = rows.min(axis=1, initial=0), rows.max(axis=1, initial=0)
        if asymmetric:
            inverse, scales, zero_points = asymmetric_scales(low, high)
        else:
            largest = np.maximum(-low, high)
            inverse = np.float32(SYMMETRIC) / largest
            scales = np.where(largest == 0, np.float32(1), largest / np.float32(SYMMETRIC))
            zero_points = np.zeros(len(rows), np.int64)
        values = _shifted(rows * inverse[:, None], zero_points[:, None])
    values = np.clip(values, -128 if asymmetric else -SYMMETRIC, 127)
    values[(low == 0) & (high == 0)] = 0
    return QuantizedRows(values.astype(np.int8), scales, zero_points)


def _zero_points(low: Float32Array, high: Float32Array, scales: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the zero point of each row, computed in float64 and rounded half away from 0.

    It is derived from the end of the range with the smaller quotient, because its rounding error is smaller.
    """
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
    """Return the scales of weights, one or one per channel."""
    return np.array(quantization(weights).scales, np.float32)


def product(
    rows: NDArray[Any], weights: NDArray[Any], scales: Float32Array, asymmetric: bool
) -> Float32Array:
    """Return the products of rows [rows, n] with weights [units, n] that have one scale, or one per unit."""
    quantized = quantized_rows(rows, asymmetric)
    wide = weights.astype(np.float64)  # in which sums of such products are exact
    sums = quantized.values.astype(np.float64) @ wide.T
    sums -= quantized.zero_points[:, None] * wide.sum(axis=1)
    result: Float32Array = sums.astype(np.float32) * (quantized.scales[:, None] * scales)
    return result


def asymmetric(call: Call) -> bool:
    """Return True if rows get zero points of their own."""
    return bool(call.parameters.rescale == "dynamic_asymmetric")


def symmetric_weights(axis: int | None, *positions: int) -> Rule:
    """Return the rule for weights whose channels are dimension `axis`; None where only one scale may be.

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


def known_weights(call: Call) -> NDArray[Any] | None:
    """Return the data of constant weights of a call; None for others."""
    data = call.constants.get(1)
    return data if isinstance(data, np.ndarray) else None


def arithmetic(
    types: tuple[str, ...],
    rules: tuple[Rule, ...],
    reference: Callable[[Call, Values], list[Array]],
    expand: Callable[[Call], Expansion | None] | None = None,
) -> Arithmetic:
    """Return the dynamic range arithmetic of an operator."""
    why = ON_FLOAT_UNITS if expand else ON_HOST
    return Arithmetic(DYNAMIC_RANGE, types, rules, reference, (), why, expand)


def in_steps(
    call: Call,
    row_axes: tuple[int, ...],
    weights: NDArray[Any],
    product: tuple[str, tuple[int, ...], Parameters],
    asymmetric: bool,
    in_turn: bool = False,
) -> Expansion:
    """Return a call as steps of float lanes and one float product; of asymmetric rows the host computes the scales.

    The steps have the bytes of the whole for rows whose inverse scale is finite: of a range of 4e-37 or more.

    row_axes: the dimensions of the first operand that a row has.
    product:  operator, shape of its output, and parameters of the product of quantized values with weights, all whole
              numbers in float32. Its sums are exact and rounded once, as the conversion of an integer sum is.
    in_turn:  sums are multiplied by the scales of weights and then by those of rows, else by their product.
    """
    steps = FloatSteps(call)
    size = steps.function("abs", 0)
    if asymmetric:
        low, high = (
            steps.pair(limit, steps.reduction(f"reduce_{limit[:3]}", 0, row_axes), steps.number(0))
            for limit in ("minimum", "maximum")
        )
        inverse, scale, least, most = steps.on_host("row_scales", [low, high], [steps.shapes[low]] * 4)
    else:
        of_rows, largest = steps.number(SYMMETRIC), steps.reduction("reduce_max", size, row_axes)
        shape = steps.shapes[largest]
        empty = steps.step("equal", [largest, steps.number(0)], shape, ByValue(), TensorType("bool", shape))
        largest = steps.step("select_v2", [empty, steps.number(1), largest], shape)
        inverse, scale = steps.pair("div", of_rows, largest), steps.pair("div", largest, of_rows)
    quotient = steps.pair("mul", size, inverse)
    nearest = steps.function("floor", steps.pair("add", quotient, _half(steps, row_axes)))
    values = steps.pair("mul", nearest, steps.function("sign", 0))
    if asymmetric:
        values = steps.pair("minimum", steps.pair("maximum", values, least), most)
    name, sums_shape, parameters = product
    sums = steps.step(name, [values, steps.constant(weights.astype(np.float32))], sums_shape, parameters)
    scales = steps.constant(scales_of(input_type(call, 1)))
    if in_turn:
        result = steps.pair("mul", steps.pair("mul", sums, scales), scale)
    else:
        result = steps.pair("mul", sums, steps.pair("mul", scale, scales))
    activation = Activated(activation=activation_of(call))
    if optional_type(call, 2) is not None:
        result = steps.step("add", [result, 2], steps.shapes[result], activation)
    elif activation.activation != "none":
        result = steps.function(activation.activation, result)
    return steps.result(result)


def _half(steps: FloatSteps, row_axes: tuple[int, ...]) -> int:
    """Return the tensor that is added before values are truncated, so that they are rounded to nearest.

    It is 0.5, and a little less for the values of a row after its last full vector.
    """
    shape = tuple(size if axis in row_axes else 1 for axis, size in enumerate(steps.shapes[0]))
    rest = prod(shape) % _VECTOR
    if not rest:
        return steps.number(0.5)
    half = np.full(prod(shape), 0.5, np.float32)
    half[-rest:] = np.nextafter(np.float32(0.5), np.float32(0))
    return steps.constant(half.reshape(shape))


def finish(call: Call, products: Float32Array, bias: Any) -> list[Array]:
    """Return the output from products, channels last: with the bias, if there is one, and the activation."""
    with np.errstate(all="ignore"):
        sums = products if bias is None else products + bias.astype(np.float32, copy=False)
    return [limited(activation_of(call), sums).reshape(call.outputs[0].shape)]
