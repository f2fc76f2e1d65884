"""Softmax along one axis, and the exponentials of quantized values that it shares with log_softmax."""

from __future__ import annotations

from math import floor, log
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.arithmetic.float_codes import sum_in_order
from npusim.isa.arithmetic.integer import quantize_multiplier
from npusim.isa.arithmetic.interpolated import softmax_of_int16, softmax_tables
from npusim.isa.base.tensor import Array, Float32Array, Int64Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.lanes import format_of
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.rows import (
    EXPONENTIAL_BYTES,
    EXPONENTIALS,
    EXPONENTIALS_BYTES,
    METHODS,
    PASSES_OF_EXPONENTIALS,
    Softmax,
)
from npusim.kernels.lowering.float_lanes import float_softmax_lowering
from npusim.kernels.lowering.quantized_in_float32 import AS_FLOAT32, float32_rescale, on_codes, scaling
from npusim.kernels.lowering.row_work import row_work, row_work_by_table, rows_at_once
from npusim.kernels.lowering.vector_work import int16_passes, signed
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, an_axis, axis_of
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.fused import finish_steps, only_codes
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
from npusim.kernels.operator.operator import Arithmetic, Call, Lowering, Operator, Values, literal
from npusim.kernels.operator.rescale import Multiplier, sound_scales
from npusim.kernels.operators.movement.permuting import TransposeParameters
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters

DIFFERENCE_INTEGER_BITS = 5  # of x - max(x), scaled by beta and the input scale: 0 down to -32
SUM_INTEGER_BITS = 12
"""Integer bits of the exponentials in a sum. 4096 exponentials of 1 then have 31 bits, all that log_softmax takes."""
LONGEST = 1 << 20
"""Most elements of an 8-bit softmax. Their sum has 39 bits; LiteRT's has 31, and gives the same where these suffice."""
_TABLE_GAIN = 10
"""Exponentials are read from a table if that saves this many times the cycles of the table's load from DRAM."""


class WithBeta(Along):
    """beta: the factor of the elements before the exponential."""

    beta: float = 1.0


def float_multiplier(call: Call[WithBeta]) -> float:
    """Return the multiplier from a difference of quantized values, times beta, to words.

    The words have `DIFFERENCE_INTEGER_BITS` integer bits.
    """
    scale = quantization(input_type(call)).scale
    return float(np.float32(call.parameters.beta)) * scale * 2.0 ** (31 - DIFFERENCE_INTEGER_BITS)


def positive_beta(call: Call[WithBeta]) -> bool:
    """beta is a positive number"""
    return call.parameters.beta > 0


def representable_scale(call: Call[WithBeta]) -> bool:
    """beta times the scale of an 8-bit input is more than 2**-26"""
    return input_type(call).real or float_multiplier(call) > 1


def _short_axis(call: Call[WithBeta]) -> bool:
    """an 8-bit input has at most 1048576 elements along the axis, which is what the accumulator holds"""
    tensor = input_type(call)
    return tensor.real or tensor.shape[axis_of(call)] <= LONGEST


_WORD = FixedPoint(32)


class SoftmaxParameters(WithBeta):
    """beta: the factor of the elements; axis: along which the results add up to 1."""


class FixedPointSoftmax(NamedTuple):
    """Numbers of the fixed-point softmax.

    A difference of quantized values d = code - largest quantized value (0 or less) is worth SRDHM(d << left_shift,
    multiplier) with `DIFFERENCE_INTEGER_BITS` integer bits in 32; below difference_min its exponential counts as zero.
    """

    multiplier: int
    left_shift: int
    difference_min: int


def fixed_point_numbers(call: Call) -> FixedPointSoftmax:
    """Return the numbers of an 8-bit call, as LiteRT's PreprocessSoftmaxScaling computes them."""
    fraction_bits = 31 - DIFFERENCE_INTEGER_BITS
    multiplier, left_shift = quantize_multiplier(min(float_multiplier(call), 2.0**31 - 1))
    largest = ((1 << DIFFERENCE_INTEGER_BITS) - 1) << fraction_bits
    return FixedPointSoftmax(multiplier, left_shift, -floor(largest / 2.0**left_shift))


def _fixed_point(call: Call, codes: Int64Array) -> Int64Array:
    """Return probabilities in units of 1/256 (0..255), of 1/65536 for a 16-bit output, from int64 quantized values."""
    axis, bits = axis_of(call), call.outputs[0].numpy_dtype.itemsize * 8
    difference = codes - codes.max(axis=axis, keepdims=True)
    exponentials = _exponentials(call, difference)
    total = divide_by_power(exponentials, SUM_INTEGER_BITS).sum(axis=axis, keepdims=True)
    # total = (1 + f) * 2**(length - 1), f in 0..1; its reciprocal is 1 / (1 + f), shifted
    length = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    fraction = (total << np.maximum(32 - length, 0)) >> np.maximum(length - 32, 0)
    reciprocal = _WORD.half_reciprocal(fraction - (1 << 31))
    integer_bits = SUM_INTEGER_BITS + length - 32
    shares = divide_by_power(_WORD.multiply(exponentials, reciprocal), integer_bits + 31 - bits)
    return np.minimum(shares, (1 << bits) - 1)


def _exponentials(call: Call, difference: Int64Array) -> Int64Array:
    """Return exponentials, 31 fraction bits, of differences to the largest quantized value; 0 if the result is 0."""
    multiplier, left_shift, difference_min = fixed_point_numbers(call)
    counts = difference >= difference_min
    scaled = _WORD.multiply(np.where(counts, difference, 0) << left_shift, multiplier)
    return np.where(counts, _WORD.exponential(scaled, DIFFERENCE_INTEGER_BITS), 0)


def _floats(call: Call[SoftmaxParameters], values: Values) -> list[Array]:
    x, axis = input_value(values).astype(np.float32, copy=False), axis_of(call)
    if not x.size:
        return [x]
    with np.errstate(over="ignore"):  # a difference beyond float32 is one whose exponential is 0
        differences = (x - x.max(axis=axis, keepdims=True)) * np.float32(call.parameters.beta)
    exponentials: Float32Array = np.exp(differences)
    return [exponentials / exponentials.sum(axis=axis, keepdims=True)]


def _codes(call: Call[SoftmaxParameters], values: Values) -> list[Array]:
    codes, output = input_value(values), call.outputs[0]
    if not codes.size:
        return [codes]
    shares = _fixed_point(call, codes.astype(np.int64))
    return [(shares + quantization(output).zero_point).astype(output.numpy_dtype)]


def _wide_codes(call: Call[SoftmaxParameters], values: Values) -> list[Array]:
    """Compute int16 values by interpolated tables of exponentials and of reciprocals, with 15 fraction bits."""
    if not input_value(values).size:
        return [input_value(values)]
    codes = np.moveaxis(input_value(values).astype(np.int64), axis_of(call), -1)
    shares = softmax_of_int16(codes, *_int16_scale(call), *softmax_tables())
    return [np.ascontiguousarray(np.moveaxis(shares, -1, axis_of(call)).astype(np.int16))]


def _int16_scale(call: Call[SoftmaxParameters]) -> Multiplier:
    """Return the multiplier from differences of int16 values to steps of 10 / 65535."""
    beta = float(np.float32(call.parameters.beta))
    return quantize_multiplier(quantization(input_type(call)).scale * beta / (10 / 65535))


def _coarse(call: Call[SoftmaxParameters]) -> bool:
    """on the NPU beta times the scale of an int16 input is at least 10/65535"""
    return _int16_scale(call)[1] >= 0


def _lower_int16(call: Call, hardware: Hardware) -> Parts:
    """Lower to interpolated tables, row by row."""
    multiplier, shift = _int16_scale(call)
    fields: dict[str, Any] = {"multiplier": multiplier, "left_shift": shift, "format": format_of("int16")}
    tables = np.concatenate(softmax_tables()).astype("<i2").tobytes()
    return row_work_by_table(
        call, lambda rows, place: Softmax(**rows._asdict(), table=place, **fields), tables
    )


def _in_floats(call: Call[SoftmaxParameters], values: Values) -> list[Array]:
    """Compute exponentials and their sum in float64, in order, and round the quotients once."""
    x, axis = np.moveaxis(input_value(values).astype(np.float64), axis_of(call), -1), axis_of(call)
    if not x.size:
        return [np.zeros(call.outputs[0].shape, np.float32)]
    with np.errstate(all="ignore"):
        exponentials = np.exp((x - x.max(axis=-1, keepdims=True)) * float(np.float32(call.parameters.beta)))
        shares = (exponentials / sum_in_order(exponentials)).astype(np.float32)
    return [np.ascontiguousarray(np.moveaxis(shares, -1, axis))]


def fused_table(call: Call[SoftmaxParameters]) -> Float32Array:
    """Return the exponentials of QLinearSoftmax, of the quantized values from 255 below the largest of a row on: [256].

    f32(exp((i - 255 + room) * scale)) in float64, where room leaves the sum of a row's in float32; its logarithm is one
    of float32.
    """
    scale = float(np.float32(quantization(input_type(call)).scale))
    share = np.finfo(np.float32).max / np.float32(input_type(call).shape[axis_of(call)])
    room = max(0.0, float(np.float32(log(share))) - 5) / scale
    with np.errstate(all="ignore"):
        table: Float32Array = np.exp((np.arange(256) - 255 + room) * scale).astype(np.float32)
    return table


def fused_factor(call: Call[SoftmaxParameters]) -> np.float32:
    """Return floor(f32(1 / output scale)): the largest result in steps of the output."""
    with np.errstate(all="ignore"):
        return np.float32(np.floor(np.float32(1) / np.float32(quantization(call.outputs[0]).scale)))


def _fused(call: Call[SoftmaxParameters], values: Values) -> list[Array]:
    """Compute QLinearSoftmax: rint(e * factor / sum) + zero; the sum is in float32 in order, the rest in float64."""
    axis, output = axis_of(call), call.outputs[0]
    codes = np.moveaxis(np.asarray(input_value(values)), axis, -1).astype(np.int64)
    if not codes.size:
        return [input_value(values)]
    exponentials = fused_table(call)[255 - (codes.max(axis=-1, keepdims=True) - codes)]
    with np.errstate(all="ignore"):
        total = sum_in_order(exponentials).astype(np.float64)
        steps = np.rint(exponentials.astype(np.float64) * fused_factor(call) / total)
    results = finish_steps(call, (steps + quantization(output).zero_point).astype(np.float32))
    return [np.ascontiguousarray(np.moveaxis(results, -1, axis))]


def _beta_of_one(call: Call[SoftmaxParameters]) -> bool:
    """in float32 beta is 1"""
    return call.parameters.beta == 1


def _fused_beta(call: Call[SoftmaxParameters]) -> bool:
    """fused, beta is 1"""
    return call.parameters.beta == 1


def _lower_float(call: Call[SoftmaxParameters], hardware: Hardware) -> Parts:
    """Lower to float32 arithmetic, literal or fused."""
    fused, output = call.parameters.rescale == "fused", call.outputs[0]
    low, high = code_range(output.dtype)
    fields = {
        **scaling("input", input_type(call)),
        **scaling("output", output, float(fused_factor(call)) if fused else None),
        "format": AS_FLOAT32,
        "fused": METHODS.index("fused" if fused else "literal"),
        "low": low,
        "high": high,
    }
    table = fused_table(call).astype("<f4").tobytes() if fused else b""
    return row_work_by_table(
        call, lambda rows, place: Softmax(**rows._asdict(), table=place, **fields), table
    )


def _probabilities(call: Call) -> bool:
    """an output's zero point is the smallest value of its type, its scale 1/256 in 8 bits, about 1/65536 in 16"""
    output = call.outputs[0]
    if input_type(call).dtype == "int16":
        return True  # `_int16_probabilities` says what it must have
    if output.quantization is None:
        return output.real
    scale, zero_point = output.quantization.scale, output.quantization.zero_point
    # Converters write the scale 1/65535, which LiteRT accepts in place of 1/65536.
    near = abs(scale * 65536 - 1) <= 0.001 if output.dtype == "int16" else scale == 1 / 256
    return near and zero_point == code_range(output.dtype)[0]


def _int16_probabilities(call: Call) -> bool:
    """an int16 output has zero point 0 and the scale 1/32768, to a thousandth"""
    scaling = call.outputs[0].quantization
    if input_type(call).dtype != "int16":
        return True
    return scaling is not None and scaling.zero_point == 0 and abs(scaling.scale * 32768 - 1) <= 0.001


def _lower(call: Call, hardware: Hardware) -> Parts:
    """Return the fixed-point version, row by row."""
    fields = {**fixed_point_numbers(call)._asdict(), "signed": signed(call.outputs[0].dtype)}
    if not _table_pays(call, hardware):
        return row_work(call, lambda rows: Softmax(**rows._asdict(), **fields))
    table = _exponentials(call, np.arange(1 - EXPONENTIALS, 1)).astype("<i4").tobytes()
    return row_work_by_table(
        call, lambda rows, place: Softmax(**rows._asdict(), table=place, fused=1, **fields), table
    )


def _table_pays(call: Call, hardware: Hardware) -> bool:
    """Return True if look-ups are faster than exponentials by much more than the table takes to arrive."""
    vector, memory = hardware.vector, hardware.holder("constants")
    saved = PASSES_OF_EXPONENTIALS * (vector.exp_cycles - EXPONENTIAL_BYTES * vector.lut_cycles)
    if memory == Space.SCRATCHPAD:
        return saved > 0
    arrival = EXPONENTIALS_BYTES / hardware.peak_bytes_per_cycle(memory)
    return saved * input_type(call).elements >= _TABLE_GAIN * arrival * vector.lanes


def _axis_last(call: Call[SoftmaxParameters]) -> Expansion | None:
    """Expand a softmax of floats along an axis before the last: transpose the axis to the end, and back afterwards."""
    shape, axis = input_type(call).shape, axis_of(call)
    if not input_type(call).real or axis == len(shape) - 1:
        return None
    steps = FloatSteps(call)
    order = (*range(axis), *range(axis + 1, len(shape)), axis)
    moved = tuple([shape[at] for at in order])
    last = call.parameters.changed(axis=len(shape) - 1)
    x = steps.step("softmax", [_turned(steps, 0, order)], moved, last)
    return steps.result(_turned(steps, x, (*range(axis), len(shape) - 1, *range(axis, len(shape) - 1))))


def _turned(steps: FloatSteps, x: int, order: tuple[int, ...]) -> int:
    """Add a transpose, or a reshape if only axes of one element change places; return the result."""
    shape = tuple([steps.shapes[x][axis] for axis in order])
    long = [axis for axis in order if steps.shapes[x][axis] > 1]
    if long == sorted(long):
        return steps.step("reshape", [x], shape, ReshapeParameters(shape=shape))
    return steps.step("transpose", [x], shape, TransposeParameters(perm=order))


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "int16": _wide_codes, "float32": _floats})
_ROWS = (
    rules.operands(1),
    rules.same_shape,
    rules.per_tensor,
    rules.wide_codes_scaled,
    sound_scales,
    an_axis,
    positive_beta,
)
_IN_FLOAT = Lowering("vector", (on_codes, _beta_of_one), _lower_float, (float32_rescale, rows_at_once))

SOFTMAX = Operator(
    name="softmax",
    parameters=SoftmaxParameters,
    types=(*alike(*REFERENCES), "int8|uint8 -> int16"),
    rules=(*_ROWS, _probabilities, _int16_probabilities, representable_scale, _short_axis),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(
        Lowering("vector", (rules.eight_bit, rules.eight_bit_output), _lower, (rows_at_once,)),
        Lowering("vector", (rules.all_int16, _coarse), _lower_int16, (int16_passes, rows_at_once)),
        float_softmax_lowering(),
    ),
    expand=_axis_last,
    arithmetics=(
        literal(_IN_FLOAT, reference=_in_floats),
        Arithmetic(("fused",), None, (*_ROWS, only_codes, _fused_beta), _fused, (_IN_FLOAT,)),
    ),
)
"""Exp(beta * x) along an axis, divided by the sum."""


OPERATORS = (SOFTMAX,)
