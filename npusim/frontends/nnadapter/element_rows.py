"""NNAdapter operations on single elements: functions of one, two or three tensors, and conversions of element types."""

from __future__ import annotations

from math import inf, isinf, isnan, prod
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import Step
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, OperationType, Precision, text_of
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.frontends.nnadapter.operation_arguments import Bound
from npusim.frontends.nnadapter.operation_conversion import Conversion, Row, plain
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.rescale import REAL_RANGES

_T = OperationType

# Functions of one tensor


def _unary(type_: OperationType, op: str = "") -> Row:
    return plain(type_, "input", op)


def _prelu(c: Conversion) -> int:
    """Add a PRELU node; the slope has one element, or one per channel."""
    shape, slope = c.shape("input"), c.shape("slope")
    rank, channels = len(shape), shape[1:2]
    c.require(
        slope in ((), (1,), channels),
        f"slope has shape {list(slope)}, must be [1] or {list(channels)}, the channels",
    )
    aligned = (1,) * min(rank, 1) if prod(slope) == 1 else (*channels, *(1,) * (rank - 2))
    slopes = c.in_float_type_of_input(c.reshaped(c.tensor("slope"), aligned))
    return c.node("prelu", [c.tensor("input"), slopes])


def _clip(c: Conversion) -> int:
    """Add a clip: limits that are known become its parameters, others are operands of a maximum and a minimum."""
    names = ("min", "max")
    for name in names:
        sizes = c.shape(name)
        c.require(prod(sizes) == 1, f"{name} has shape {list(sizes)}, must have one element")
    x, kind = c.tensor("input"), c.result()
    if all(c.known(name) is not None for name in names):
        least, most = (c.float_of(name) for name in names)
        c.require(not isnan(least) and not isnan(most), f"min is {least}, max {most}: must be numbers")
        c.require(least <= most, f"min is {least}, max {most}: min must be at most max")
        c.require(least < inf and most > -inf, f"min is {least}, max {most}: the range is empty")
        if kind.real or kind.quantized:
            limits: dict[str, Any] = {
                "least": None if isinf(least) else least,
                "most": None if isinf(most) else most,
            }
            return c.node("clip", [x], **limits)
    low, high = (c.reshaped(c.tensor(name), (1,) * min(len(c.shape("input")), 1)) for name in names)
    above = c.node("maximum", [x, low], by_value=True)
    return c.node("minimum", [above, high], by_value=True)


# Functions of two and three tensors


def _arithmetic(type_: OperationType, op: str = "") -> Row:
    """Return the row of an operator that has a fused activation of its own."""
    name = op or type_.name.lower()

    def convert(c: Conversion) -> int:
        return c.node(name, [c.tensor("input0"), c.tensor("input1")], activation=c.activation)

    return Row(type_, _PAIR, convert, name)


def _extremum(type_: OperationType, op: str) -> Row:
    """Return the row of MAX or MIN, which compares the numbers that quantized values stand for."""

    def convert(c: Conversion) -> int:
        return _activated(c, c.node(op, [c.tensor("input0"), c.tensor("input1")], by_value=True))

    return Row(type_, _PAIR, convert, op)


def _unscaled(type_: OperationType) -> Row:
    """Return the row of POW or FLOOR_DIV, whose operator takes floats and integers, but no quantized values."""
    op = type_.name.lower()

    def convert(c: Conversion) -> int:
        step = Step(op, [c.tensor("input0"), c.tensor("input1")], [c.result()], {})
        return _activated(c, (c.by_floats(step) if c.result().quantized else c.calculated(step))[0])

    return Row(type_, _PAIR, convert, op)


def _activated(c: Conversion, x: int) -> int:
    """Add the fused activation behind an operator that has none of its own."""
    activation, kind = c.activation, c.result()
    if activation == "none":
        return x
    if kind.real or kind.quantized:
        return c.node(activation, [x])
    least, most = kind.element.limits
    for limit, op in zip(REAL_RANGES[activation], ("maximum", "minimum"), strict=True):
        if not isinf(limit):
            nearest = min(max(int(limit), least), most)
            x = c.node(op, [x, c.constant(np.array([nearest], kind.numpy_dtype))])
    return x


def _sum(c: Conversion) -> int:
    """Add up all inputs in floating point, so that quantized ones are rounded once."""
    total, *others = [c.as_real(tensor) for tensor in c.tensors("inputs")]
    kind = c.result()
    for other in others:
        total = c.node("add", [total, other], unshaped("float32") if kind.quantized else kind)
    return c.in_type(total, kind) if others or kind.quantized else c.copied(total)


def _comparison(type_: OperationType, op: str = "") -> Row:
    """Return the row of a comparison, or of a function of two BOOL8 tensors."""
    return plain(type_, "input0 input1 > output:BOOL8", op)


# Other element types


def _cast(c: Conversion) -> int:
    """Add a cast; quantized values are cast as the numbers that they stand for."""
    wanted = c.code("dtype", Precision)
    c.require(wanted <= Precision.FLOAT64, f"dtype is {wanted.name}, must be a precision without scales")
    return c.node("cast", [c.as_real(c.tensor("input"))], wrapping=True)


def _quantize(c: Conversion) -> int:
    """Add a quantization; integers are converted to floating point first."""
    for name in ("axis", "scale", "zero_point"):
        c.value(name)
    scaling = c.result().quantization
    if scaling is not None and scaling.axis is not None:
        size = c.shape("input")[scaling.axis]
        c.require(
            len(scaling.scales) == size,
            f"scale has {len(scaling.scales)} numbers, dimension {scaling.axis} of the input has size {size}",
        )
    tensor = c.tensor("input")
    kind = c.builder.type(tensor)
    c.require(not kind.quantized, "input has a scale, must be floating-point or plain integers")
    if not kind.real:
        tensor = c.node("cast", [tensor], unshaped("float32"))
    return c.node("quantize", [tensor], saturating=True)


def _dequantize(c: Conversion) -> int:
    tensor = c.tensor("input")
    c.require(c.builder.type(tensor).quantized, "input has no scale, must be quantized")
    return c.node("dequantize", [tensor])


def _quantized_type(bound: Bound) -> None:
    """Set the output type of QUANTIZE from its scale and zero point; 8 bits if the output is not quantized yet.

    Raises InvalidParameter if the output has another scale, and for scales and zero points that no precision has.
    """
    place, own = bound.operation.place, bound.outputs["output"][0].type
    values = [one.known for name in ("axis", "scale", "zero_point") if (one := bound.inputs[name][0])]
    source = bound.inputs["input"][0]
    if source is None or not source.type.ranked or any(value is None for value in values):
        return
    axis, scales, zeros = (np.asarray(value).reshape(-1) for value in values)
    if axis.size != 1:
        raise InvalidParameter(f"{place}: axis has {axis.size} numbers, must be one")
    if scales.size == 0 or not (zeros.size == scales.size or (zeros.size == 1 and zeros[0] == 0)):
        raise InvalidParameter(
            f"{place}: zero_point is {text_of(zeros.tolist())}, must be one for each of {scales.size} scales, or one 0"
        )
    if not all(0 < scale < np.inf for scale in scales):
        raise InvalidParameter(f"{place}: scale is {scales.tolist()}, must be above 0")
    points = [int(zero) for zero in np.broadcast_to(zeros, scales.shape)]
    asked = _type_of_8_bits(int(axis[0]), scales.tolist(), points, len(source.type.dimensions), place)
    if not own.row.scaled:
        own.precision = asked.precision
        own.take_scaling(asked)
    elif own.quantization != asked.quantization:
        name = bound.outputs["output"][0].name
        raise InvalidParameter(
            f"{place}: scale {scales.tolist()} and zero_point {zeros.tolist()} are not those of {name}"
        )


def _type_of_8_bits(axis: int, scales: list[float], zeros: list[int], rank: int, place: str) -> OperandType:
    """Return the quantized type of 8 bits with these scales, one or one per channel."""
    for zero in zeros:
        if not 0 <= zero <= 255:
            raise InvalidParameter(f"{place}: zero_point is {zero}, must be 0..255")
    if len(scales) == 1 and zeros[0]:
        return OperandType(Precision.QUANT_UINT8_ASYMM_PER_LAYER, scale=scales[0], zero_point=zeros[0])
    if len(scales) == 1:
        return OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, scale=scales[0])
    if not -rank <= axis < rank:
        raise InvalidParameter(f"{place}: axis is {axis}, must be -{rank}..{rank - 1}")
    kind = OperandType(Precision.QUANT_INT8_SYMM_PER_CHANNEL, scales=tuple(scales), channel_dim=axis % rank)
    if any(zeros):
        kind.precision, kind.zero_points = Precision.QUANT_UINT8_ASYMM_PER_CHANNEL, tuple(zeros)
    return kind


_PAIR = "input0 input1 fuse_code:i=0 > output=input0"
_LINEAR = "input alpha:f=0.16666667 beta:f=0.5"

ROWS: tuple[Row, ...] = (
    _unary(_T.ABS),
    _unary(_T.COS),
    _unary(_T.EXP),
    _unary(_T.FLOOR),
    _unary(_T.LOG),
    _unary(_T.NOT, "logical_not"),
    _unary(_T.RELU),
    _unary(_T.RELU6),
    _unary(_T.RSQRT),
    _unary(_T.SIGMOID, "logistic"),
    _unary(_T.SIN),
    _unary(_T.SQUARE),
    _unary(_T.SWISH),
    _unary(_T.TANH),
    plain(_T.HARD_SIGMOID, _LINEAR),
    plain(_T.HARD_SWISH, _LINEAR),
    plain(_T.LEAKY_RELU, "input alpha:f=0.01"),
    plain(_T.SOFTPLUS, "input beta:f=1.0 threshold:f=20.0"),
    plain(_T.GELU, "input approximate:b=False"),
    Row(_T.PRELU, "input slope", _prelu, "prelu"),
    Row(_T.CLIP, "input min max", _clip, "clip maximum minimum"),
    _arithmetic(_T.ADD),
    _arithmetic(_T.SUB),
    _arithmetic(_T.MUL),
    _arithmetic(_T.DIV),
    _extremum(_T.MAX, "maximum"),
    _extremum(_T.MIN, "minimum"),
    _unscaled(_T.POW),
    _unscaled(_T.FLOOR_DIV),
    _comparison(_T.EQUAL),
    _comparison(_T.NOT_EQUAL),
    _comparison(_T.GREATER),
    _comparison(_T.GREATER_EQUAL),
    _comparison(_T.LESS),
    _comparison(_T.LESS_EQUAL),
    _comparison(_T.AND, "logical_and"),
    _comparison(_T.OR, "logical_or"),
    _comparison(_T.XOR, "logical_xor"),
    plain(_T.WHERE, "condition input0 input1 > output=input0", "select_v2", by_value=True),
    Row(_T.SUM, "inputs+ > output=inputs", _sum, "add"),
    Row(_T.CAST, "input dtype:i > output@dtype", _cast, "cast"),
    Row(
        _T.QUANTIZE,
        "input axis:i=1 scale:F=1.0 zero_point:I=0 > output",
        _quantize,
        "quantize cast",
        _quantized_type,
    ),
    Row(_T.DEQUANTIZE, "input > output:FLOAT32", _dequantize, "dequantize"),
)
