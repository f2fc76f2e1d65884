"""Normalizations by a norm or by a sum of squares of neighbouring elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npusim.isa.base.elements import Workload
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.rows import UnitLength
from npusim.kernels.lowering.row_work import row_work, rows_at_once
from npusim.kernels.lowering.vector_work import signed
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.axes import Along, an_axis, ascending_axes, axis_of
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.inverse_root import inverse_root
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.parameters import Activated, Size, Sizes
from npusim.kernels.operator.rescale import limited, sound_scales

SMALLEST_NORM = np.float32(1e-6)

_WORD = FixedPoint(32)
_OUTPUT_BITS = 7


class L2NormalizationParameters(Along, Activated):
    """axis: the axis along which squares are added; negative ones count from the back. activation: "none"."""


def _codes(call: Call[L2NormalizationParameters], values: Values) -> list[Array]:
    ofm = call.outputs[0]
    x = input_value(values).astype(np.int64) - quantization(input_type(call)).zero_point
    multiplier, shift = inverse_root((x * x).sum(axis=axis_of(call), keepdims=True))
    # The fraction bits of the output come before the product for uint8, for int8 as part of its shift.
    left = np.maximum(_OUTPUT_BITS - shift, 0) if ofm.dtype == "int8" else _OUTPUT_BITS
    right = np.maximum(shift - _OUTPUT_BITS, 0) if ofm.dtype == "int8" else shift
    shares = divide_by_power(_WORD.multiply(x << left, multiplier), right)
    codes = shares + quantization(ofm).zero_point
    return [np.clip(codes, *code_range(ofm.dtype)).astype(ofm.numpy_dtype)]


def _l2_floats(call: Call[L2NormalizationParameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    with np.errstate(over="ignore"):
        norms = np.sqrt((x * x).sum(axis=axis_of(call), keepdims=True))
    return [limited(call.parameters.activation, x / np.maximum(norms, SMALLEST_NORM))]


def _directions(call: Call) -> bool:
    """an 8-bit output has the scale 1/128 and the middle of its range as zero point"""
    output = call.outputs[0]
    if output.quantization is None:
        return output.real
    middle = 0 if output.dtype == "int8" else 128
    return (output.quantization.scale, output.quantization.zero_point) == (1 / 128, middle)


def _no_activation(call: Call[L2NormalizationParameters]) -> bool:
    """has no fused activation in 8 bits"""
    return input_type(call).real or call.parameters.activation == "none"


def _short_axis(call: Call) -> bool:
    """an 8-bit input has at most 33025 elements along the axis, the squares of which 32 bits hold"""
    tensor = input_type(call)
    return tensor.real or tensor.shape[axis_of(call)] * 255**2 < 1 << 31


def _lower(call: Call, hardware: Hardware) -> Parts:
    """Lower to one instruction per row."""
    zero, kind = quantization(input_type(call)).zero_point, signed(input_type(call).dtype)
    return row_work(call, lambda rows: UnitLength(**rows._asdict(), input_zero=zero, signed=kind))


L2_REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "float32": _l2_floats})

L2_NORMALIZATION = Operator(
    name="l2_normalization",
    parameters=L2NormalizationParameters,
    types=alike(*L2_REFERENCES),
    rules=(
        rules.operands(1),
        rules.same_shape,
        rules.per_tensor,
        sound_scales,
        an_axis,
        _directions,
        _no_activation,
        _short_axis,
    ),
    infer=like_input,
    reference=by_type(L2_REFERENCES),
    workload=elementwise,
    lowerings=(Lowering("vector", (rules.eight_bit,), _lower, (rows_at_once,)),),
)
"""Elements divided by the root of the sum of squares along an axis."""


_PASSES = 2
"""Passes over the elements: for the sum, for the result."""


class LpNormalizationParameters(parameters.Parameters):
    """axes: the summed axes, counted from the front; p: 1 adds magnitudes, 2 squares.

    epsilon: added to the divisor.
    """

    axes: Sizes
    p: Annotated[int, Between(1, 2)] = 2
    epsilon: float = 1e-5


def _lp_floats(call: Call[LpNormalizationParameters], values: Values) -> list[Array]:
    x, parameters = input_value(values).astype(np.float64), call.parameters
    with np.errstate(all="ignore"):
        terms = np.abs(x) if parameters.p == 1 else x * x
        sums = terms.sum(axis=parameters.axes, keepdims=True)
        norms = sums if parameters.p == 1 else np.sqrt(sums)
        return [(x / (norms + parameters.epsilon)).astype(np.float32)]


def _expand(call: Call[LpNormalizationParameters]) -> Expansion:
    steps, parameters = FloatSteps(call), call.parameters
    terms = steps.function("abs" if parameters.p == 1 else "square", 0)
    sums = steps.reduction("sum", terms, parameters.axes)
    norms = sums if parameters.p == 1 else steps.function("sqrt", sums)
    return steps.result(steps.pair("div", 0, steps.pair("add", norms, steps.number(parameters.epsilon))))


def _lp_workload(call: Call) -> Workload:
    return elementwise(call, _PASSES * call.outputs[0].elements)


LP_REFERENCES = with_halves({"float32": _lp_floats})

LP_NORMALIZATION = Operator(
    name="lp_normalization",
    parameters=LpNormalizationParameters,
    types=alike(*LP_REFERENCES),
    rules=(rules.operands(1), rules.same_shape, ascending_axes),
    infer=like_input,
    reference=by_type(LP_REFERENCES),
    workload=_lp_workload,
    expand=_expand,
    on_host="no unit computes it as a whole, and its parts need float lanes",
)
"""Elements divided by the sum of magnitudes along axes, or by the root of the sum of squares."""


class LocalResponseNormalizationParameters(Along):
    """x / (bias + alpha * (squares of up to `radius` elements on each side and of x itself)) ** beta.

    last_left_out: the last element of a window does not count, as in LiteRT's kernel.
    one_more: one more element counts behind x: windows of an even size.
    """

    radius: Size
    bias: float
    alpha: float
    beta: float
    last_left_out: bool = False
    one_more: bool = False


def _lrn_floats(call: Call[LocalResponseNormalizationParameters], values: Values) -> list[Array]:
    parameters = call.parameters
    x = np.moveaxis(input_value(values).astype(np.float32, copy=False), axis_of(call), -1)
    if not x.size:
        return [input_value(values)]
    reach = min(parameters.radius, x.shape[-1])
    window = 2 * reach + 1 - parameters.last_left_out + parameters.one_more
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        squares = np.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(reach, reach + parameters.one_more)])
        windows = sliding_window_view(squares, max(window, 1), axis=-1)[..., : x.shape[-1], :window]
        sums = windows.sum(axis=-1, dtype=np.float32)
        divisors = np.float32(parameters.bias) + np.float32(parameters.alpha) * sums
        result = x * divisors ** np.float32(-parameters.beta)
    return [np.ascontiguousarray(np.moveaxis(result, -1, axis_of(call)))]


def _lrn_workload(call: Call[LocalResponseNormalizationParameters]) -> Workload:
    """Return the work of one step for every neighbour of every element."""
    axis, output = input_type(call).shape[axis_of(call)], call.outputs[0]
    neighbours = 2 * min(call.parameters.radius, axis) + 1
    return replace(elementwise(call), elements=output.elements * neighbours)


LRN_REFERENCES = with_halves({"float32": _lrn_floats})

LOCAL_RESPONSE_NORMALIZATION = Operator(
    name="local_response_normalization",
    parameters=LocalResponseNormalizationParameters,
    types=alike(*LRN_REFERENCES),
    rules=(rules.operands(1), rules.same_shape, an_axis),
    infer=like_input,
    reference=by_type(LRN_REFERENCES),
    workload=_lrn_workload,
    on_host="has no quantized form, and no floating-point instruction computes it",
)
"""Elements divided by a power of the sum of squares of their neighbours along an axis."""


OPERATORS = (
    L2_NORMALIZATION,
    LP_NORMALIZATION,
    LOCAL_RESPONSE_NORMALIZATION,
)
