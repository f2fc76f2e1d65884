"""The same elements in another type: real numbers as codes and back, numbers of one type as those of another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.frontends.nnadapter.codes import OperationType, Precision
from npusim.frontends.nnadapter.errors import InvalidParameter, said
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.frontends.nnadapter.operations.bound import Bound
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.kernels.graph.builder import unshaped


def _cast(c: Conversion) -> Sequence[int]:
    """Codes are cast as the numbers that they stand for."""
    wanted = c.code("dtype", Precision)
    c.require(wanted <= Precision.FLOAT64, f"dtype is {wanted.name}, must be a precision without scales")
    return c.node("cast", [c.as_real(c.tensor("input"))], wrapping=True)


def _quantize(c: Conversion) -> Sequence[int]:
    """Whole numbers count as real ones."""
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
    c.require(not kind.quantized, "input has a scale, must be real or whole numbers")
    if not kind.real:
        tensor = c.node("cast", [tensor], unshaped("float32"))[0]
    return c.node("quantize", [tensor], saturating=True)


def _dequantize(c: Conversion) -> Sequence[int]:
    tensor = c.tensor("input")
    c.require(c.builder.type(tensor).quantized, "input has no scale, must be codes")
    return c.node("dequantize", [tensor])


def _codes(bound: Bound) -> None:
    """The output has the codes that scale and zero point say: without a precision of codes of its own, those of 8 bits.

    Raises InvalidParameter where the output has another scale, and for scales and zero points that no codes have.
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
            f"{place}: zero_point is {said(zeros.tolist())}, must be one for each of {scales.size} scales, or one 0"
        )
    if not all(0 < scale < np.inf for scale in scales):
        raise InvalidParameter(f"{place}: scale is {scales.tolist()}, must be above 0")
    points = [int(zero) for zero in np.broadcast_to(zeros, scales.shape)]
    asked = _type_of_codes(int(axis[0]), scales.tolist(), points, len(source.type.dimensions), place)
    if not own.row.scaled:
        own.precision = asked.precision
        own.take_scaling(asked)
    elif own.quantization != asked.quantization:
        name = bound.outputs["output"][0].name
        raise InvalidParameter(
            f"{place}: scale {scales.tolist()} and zero_point {zeros.tolist()} are not those of {name}"
        )


def _type_of_codes(axis: int, scales: list[float], zeros: list[int], rank: int, place: str) -> OperandType:
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


ROWS: tuple[Row, ...] = (
    Row(OperationType.CAST, "input dtype:i > output@dtype", _cast, ("cast",)),
    Row(
        OperationType.QUANTIZE,
        "input axis:i=1 scale:F=1.0 zero_point:I=0 > output",
        _quantize,
        ("quantize", "cast"),
        _codes,
    ),
    Row(OperationType.DEQUANTIZE, "input > output:FLOAT32", _dequantize, ("dequantize",)),
)
