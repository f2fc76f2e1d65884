"""The log_softmax operator: beta * x less the logarithm of the sum of exponentials along an axis.

LiteRT computes int8 in fixed point and uint8 in float32, with a table of the exponentials.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

import numpy as np

from npusim.isa.arithmetic.integer import quantize_multiplier
from npusim.isa.base.tensor import Array, Float32Array, Int64Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.rows import FUNCTIONS, Softmax
from npusim.kernels.lowering.float_lanes import float_softmax_lowering
from npusim.kernels.lowering.row_work import row_work, rows_at_once
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import an_axis, axis_of
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.rescale import sound_scales
from npusim.kernels.operators.reduction.softmax import (
    DIFFERENCE_INTEGER_BITS,
    SUM_INTEGER_BITS,
    WithBeta,
    float_multiplier,
    positive_beta,
    representable_scale,
)

OUTPUT_FRACTION_BITS = 4  # an 8-bit result counts sixteenths

_WORD = FixedPoint(32)


def _short_axis(call: Call[WithBeta]) -> bool:
    """an 8-bit input has at most 4096 elements along the axis, which is what the accumulator holds"""
    tensor = input_type(call)
    return tensor.real or tensor.shape[axis_of(call)] <= 1 << SUM_INTEGER_BITS


class Parameters(WithBeta):
    """beta: the factor of the elements; axis: along which the exponentials of the results add up to 1."""


class FixedPointNumbers(NamedTuple):
    """A difference of codes d is worth SRDHM(d << left_shift, multiplier) with `DIFFERENCE_INTEGER_BITS` integer bits.

    Below difference_min its exponential counts as zero. back, back_shift: from such a word to a difference again.
    """

    multiplier: int
    left_shift: int
    difference_min: int
    back: int
    back_shift: int


def fixed_point_numbers(call: Call[Parameters]) -> FixedPointNumbers:
    """Return the numbers of an int8 call."""
    fraction_bits = 31 - DIFFERENCE_INTEGER_BITS
    multiplier, left_shift = quantize_multiplier(min(float_multiplier(call), 2.0**31 - 1))
    largest = ((1 << DIFFERENCE_INTEGER_BITS) - 1) << fraction_bits
    back, back_shift = quantize_multiplier(2.0 ** (31 - left_shift) / multiplier)
    return FixedPointNumbers(multiplier, left_shift, -floor(largest / 2.0**left_shift), back, back_shift)


def _integers(call: Call[Parameters], values: Values) -> list[Array]:
    codes, output, axis = input_value(values), call.outputs[0], axis_of(call)
    if not codes.size:
        return [codes]
    numbers = fixed_point_numbers(call)
    wide = codes.astype(np.int64)
    difference = wide - wide.max(axis=axis, keepdims=True)
    scaled = _WORD.multiply(
        np.maximum(difference, numbers.difference_min) << numbers.left_shift, numbers.multiplier
    )
    exponentials = np.where(
        difference >= numbers.difference_min, _WORD.exponential(scaled, DIFFERENCE_INTEGER_BITS), 0
    )
    total = divide_by_power(exponentials, SUM_INTEGER_BITS).sum(axis=axis, keepdims=True)
    logarithm = _WORD.logarithm(total, SUM_INTEGER_BITS, DIFFERENCE_INTEGER_BITS)
    places = 31 - DIFFERENCE_INTEGER_BITS - OUTPUT_FRACTION_BITS
    results = divide_by_power(scaled - logarithm, places) + quantization(output).zero_point
    results = np.where(difference > _least(numbers, logarithm), results, -128)
    return [np.clip(results, -128, 127).astype(np.int8)]


def _least(numbers: FixedPointNumbers, logarithm: Int64Array) -> Int64Array:
    """Return the difference that is too small to be told from the smallest result, or that does not fit the format."""
    word = _WORD.multiply(logarithm - (1 << 31) << max(numbers.back_shift, 0), numbers.back)
    difference = divide_by_power(word, max(-numbers.back_shift, 0))
    return np.maximum(numbers.difference_min - 1, difference)


def _rounded_floats(call: Call[Parameters], values: Values) -> list[Array]:
    codes, output, axis = input_value(values), call.outputs[0], axis_of(call)
    if not codes.size:
        return [codes]
    scale = np.float32(quantization(input_type(call)).scale * call.parameters.beta)
    steps = np.arange(256, dtype=np.float32)
    table = np.exp(-scale * steps).astype(np.float32)
    largest = codes.max(axis=axis, keepdims=True).astype(np.int64)
    ordered = np.moveaxis(table[largest - codes], axis, -1)
    total = np.expand_dims(np.cumsum(ordered, axis=-1, dtype=np.float32)[..., -1], axis)
    base = scale * largest.astype(np.float32) + np.log(total)
    shares: Float32Array = scale * codes.astype(np.float32) - base
    target = quantization(output)
    results = np.rint(shares / np.float32(target.scale)).astype(np.int64) + target.zero_point
    return [np.clip(results, 0, 255).astype(np.uint8)]


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    x, axis = input_value(values).astype(np.float32, copy=False), axis_of(call)
    if not x.size:
        return [x]
    with np.errstate(over="ignore"):
        differences = (x - x.max(axis=axis, keepdims=True)) * np.float32(call.parameters.beta)
    total = np.exp(differences).sum(axis=axis, keepdims=True)
    return [differences - np.log(total)]


def _sixteenths(call: Call) -> bool:
    """an 8-bit output has the scale 1/16 and the largest value of its type as zero point"""
    output = call.outputs[0]
    if output.quantization is None:
        return output.real
    largest = 127 if output.dtype == "int8" else 255
    return (output.quantization.scale, output.quantization.zero_point) == (1 / 16, largest)


def _fixed_point(call: Call) -> bool:
    """on the NPU the input is int8: LiteRT computes uint8 in float32"""
    return input_type(call).dtype == "int8"


def _lower(call: Call, hardware: Hardware) -> Parts:
    """Return the fixed-point version, row by row."""
    fields = {"function": FUNCTIONS.index("log_softmax"), "signed": 1, **fixed_point_numbers(call)._asdict()}
    return row_work(call, lambda rows: Softmax(**rows._asdict(), **fields))


REFERENCES = with_halves({"int8": _integers, "uint8": _rounded_floats, "float32": _floats})

LOG_SOFTMAX = Operator(
    name="log_softmax",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(
        rules.operands(1),
        rules.same_shape,
        rules.per_tensor,
        sound_scales,
        an_axis,
        positive_beta,
        _sixteenths,
        representable_scale,
        _short_axis,
    ),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering("vector", (_fixed_point,), _lower, (rows_at_once,)),
        float_softmax_lowering(logarithm=True),
    ),
)

OPERATORS = (LOG_SOFTMAX,)
