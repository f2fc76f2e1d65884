"""softmax: exp(beta * x) along an axis, divided by the sum."""

from __future__ import annotations

from math import floor
from typing import NamedTuple

import numpy as np

from npusim.isa.arithmetic.integer import quantize_multiplier
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.vector import Softmax
from npusim.kernels.lowering.real import real_softmax_lowering
from npusim.kernels.lowering.rows import row_work, rows_at_once
from npusim.kernels.lowering.vector import signed
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import an_axis, axis_of
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fixed_point import FixedPoint, Int64Array, divide_by_power
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_value,
    like_input,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.rescale import sound_scales
from npusim.kernels.operators.reduction.exponentials import (
    DIFFERENCE_INTEGER_BITS,
    SUM_INTEGER_BITS,
    WithBeta,
    positive_beta,
    real_multiplier,
    representable_scale,
    short_axis,
)
from npusim.kernels.operators.tables.lookup import Float32Array

_WORD = FixedPoint(32)


class Parameters(WithBeta):
    """beta: what differences are multiplied by; axis: along which the results add up to 1."""


class FixedPointSoftmax(NamedTuple):
    """Numbers of the fixed-point softmax.

    A difference of codes d = code - largest code (0 or less) is worth SRDHM(d << left_shift, multiplier) with
    `DIFFERENCE_INTEGER_BITS` integer bits in 32; below difference_min its exponential counts as zero.
    """

    multiplier: int
    left_shift: int
    difference_min: int


def fixed_point_numbers(call: Call) -> FixedPointSoftmax:
    """The numbers of an 8-bit call, as LiteRT's PreprocessSoftmaxScaling computes them."""
    fraction_bits = 31 - DIFFERENCE_INTEGER_BITS
    multiplier, left_shift = quantize_multiplier(min(real_multiplier(call), 2.0**31 - 1))
    largest = ((1 << DIFFERENCE_INTEGER_BITS) - 1) << fraction_bits
    return FixedPointSoftmax(multiplier, left_shift, -floor(largest / 2.0**left_shift))


def _fixed_point(call: Call, codes: Int64Array) -> Int64Array:
    """Probabilities in 1/256 (0..255) of int64 codes, in any shape."""
    axis = axis_of(call)
    multiplier, left_shift, difference_min = fixed_point_numbers(call)
    difference = codes - codes.max(axis=axis, keepdims=True)
    counts = difference >= difference_min
    scaled = _WORD.multiply(np.where(counts, difference, 0) << left_shift, multiplier)
    exponentials = np.where(counts, _WORD.exponential(scaled, DIFFERENCE_INTEGER_BITS), 0)
    total = divide_by_power(exponentials, SUM_INTEGER_BITS).sum(axis=axis, keepdims=True)
    # total = (1 + f) * 2**(length - 1), f in 0..1; its reciprocal is 1 / (1 + f), shifted
    length = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    reciprocal = _WORD.half_reciprocal((total << (32 - length)) - (1 << 31))
    integer_bits = SUM_INTEGER_BITS + length - 32
    shares = divide_by_power(_WORD.multiply(exponentials, reciprocal), integer_bits + 31 - 8)
    return np.where(counts, np.minimum(shares, 255), 0)


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    x, axis = input_value(values).astype(np.float32, copy=False), axis_of(call)
    if not x.size:
        return [x]
    with np.errstate(over="ignore"):  # a difference beyond float32 is one whose exponential is 0
        differences = (x - x.max(axis=axis, keepdims=True)) * np.float32(call.parameters.beta)
    exponentials: Float32Array = np.exp(differences)
    return [exponentials / exponentials.sum(axis=axis, keepdims=True)]


def _rounded_once(call: Call[Parameters], values: Values) -> list[Array]:
    """Float32 numbers, computed in float64."""
    x, axis = input_value(values).astype(np.float64), axis_of(call)
    if not x.size:
        return [x.astype(np.float32)]
    with np.errstate(all="ignore"):
        exponentials = np.exp((x - x.max(axis=axis, keepdims=True)) * call.parameters.beta)
        return [np.asarray(exponentials / exponentials.sum(axis=axis, keepdims=True), np.float32)]


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    codes, output = input_value(values), call.outputs[0]
    if not codes.size:
        return [codes]
    shares = _fixed_point(call, codes.astype(np.int64))
    return [(shares + quantization(output).zero_point).astype(output.numpy_dtype)]


def _probabilities(call: Call) -> bool:
    """an 8-bit output has the scale 1/256 and the smallest code as zero point"""
    output = call.outputs[0]
    if output.quantization is None:
        return output.real
    return (output.quantization.scale, output.quantization.zero_point) == (
        1 / 256,
        -128 if output.dtype == "int8" else 0,
    )


def _lower(call: Call, hardware: Hardware) -> Parts:
    """The fixed-point version, row by row."""
    fields = {**fixed_point_numbers(call)._asdict(), "signed": signed(call.outputs[0].dtype)}
    return row_work(call, lambda rows: Softmax(**rows._asdict(), **fields))


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "float32": _reals})

OPERATOR = Operator(
    name="softmax",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(
        rules.operands(1),
        rules.same_shape,
        rules.per_tensor,
        sound_scales,
        an_axis,
        positive_beta,
        _probabilities,
        representable_scale,
        short_axis,
    ),
    infer=like_input,
    reference=by_type(REFERENCES),
    in_reals=_rounded_once,
    workload=elementwise,
    lowerings=(Lowering("vector", (rules.eight_bit,), _lower, (rows_at_once,)), real_softmax_lowering()),
)
