"""l2_normalization: elements divided by the root of the sum of squares along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.rows import UnitLength
from npusim.kernels.lowering.rows import row_work, rows_at_once
from npusim.kernels.lowering.vector import signed
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.activation import limited
from npusim.kernels.operator.axes import Along, an_axis, axis_of
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power
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
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import sound_scales

SMALLEST_NORM = np.float32(1e-6)

_WORD = FixedPoint(32)
_OUTPUT_BITS = 7


class Parameters(Along, Activated):
    """axis: along which squares are added; negative ones count from the back. activation: "none"."""


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    ofm = call.outputs[0]
    x = input_value(values).astype(np.int64) - quantization(input_type(call)).zero_point
    multiplier, shift = inverse_root((x * x).sum(axis=axis_of(call), keepdims=True))
    # The fraction bits of the output come before the product for uint8, for int8 as part of its shift.
    left = np.maximum(_OUTPUT_BITS - shift, 0) if ofm.dtype == "int8" else _OUTPUT_BITS
    right = np.maximum(shift - _OUTPUT_BITS, 0) if ofm.dtype == "int8" else shift
    shares = divide_by_power(_WORD.multiply(x << left, multiplier), right)
    codes = shares + quantization(ofm).zero_point
    return [np.clip(codes, *code_range(ofm.dtype)).astype(ofm.numpy_dtype)]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    with np.errstate(over="ignore"):
        norms = np.sqrt((x * x).sum(axis=axis_of(call), keepdims=True))
    return [limited(call.parameters.activation, x / np.maximum(norms, SMALLEST_NORM))]


def _directions(call: Call) -> bool:
    """an 8-bit output has the scale 1/128 and the middle code as zero point"""
    output = call.outputs[0]
    if output.quantization is None:
        return output.real
    middle = 0 if output.dtype == "int8" else 128
    return (output.quantization.scale, output.quantization.zero_point) == (1 / 128, middle)


def _no_activation(call: Call[Parameters]) -> bool:
    """has no fused activation in 8 bits"""
    return input_type(call).real or call.parameters.activation == "none"


def _short_axis(call: Call) -> bool:
    """an 8-bit input has at most 33025 elements along the axis, the squares of which 32 bits hold"""
    tensor = input_type(call)
    return tensor.real or tensor.shape[axis_of(call)] * 255**2 < 1 << 31


def _lower(call: Call, hardware: Hardware) -> Parts:
    """Row by row."""
    zero, kind = quantization(input_type(call)).zero_point, signed(input_type(call).dtype)
    return row_work(call, lambda rows: UnitLength(**rows._asdict(), input_zero=zero, signed=kind))


REFERENCES = with_halves({"int8": _codes, "uint8": _codes, "float32": _reals})

OPERATOR = Operator(
    name="l2_normalization",
    parameters=Parameters,
    types=alike(*REFERENCES),
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
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(Lowering("vector", (rules.eight_bit,), _lower, (rows_at_once,)),),
)
