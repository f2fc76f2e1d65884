"""Codes and reals: QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npusim.frontends.onnx.codes import codes_of
from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.frontends.onnx.operations.row import Row
from npusim.isa.base.tensor import Quantization
from npusim.kernels.graph.builder import unshaped


def _arrays(c: Conversion) -> dict[str, object]:
    """The constants among scale and zero point, by the names of their values."""
    names = zip(("x", "scale", "zero_point"), c.onnx.inputs, strict=False)
    known = {value: c.known(name) for name, value in names if value and name != "x"}
    return {value: array for value, array in known.items() if array is not None}


def _at_axis(c: Conversion, scaling: Quantization, rank: int) -> Quantization:
    if scaling.axis is None:
        return scaling
    return replace(scaling, axis=c.axis(scaling.axis, rank))


def _quantize(c: Conversion) -> Sequence[int]:
    """Reals to codes, or codes to other codes; those that are the same already stay."""
    codes = codes_of(c.onnx, _arrays(c))  # type: ignore[arg-type]
    if codes is None:
        raise c.onnx.fault("scale and zero point must be constants, without blocks")
    x = c.codes("x")
    x = c.real("x") if x is None else x
    target = unshaped(codes.dtype, _at_axis(c, codes.quantization, len(c.shape(x))))
    if c.like(x) == target and not codes.bits:
        return [x]
    return [c.node("quantize", [x], target, rescale="float32", bits=codes.bits)]


def _dequantize(c: Conversion) -> Sequence[int | None]:
    x = c.real("x")
    codes = codes_of(c.onnx, _arrays(c), c.like(x).dtype)  # type: ignore[arg-type]
    if codes is None:
        raise c.onnx.fault("scale and zero point must be constants, without blocks")
    c.dequantized(c.coded(x, _at_axis(c, codes.quantization, len(c.shape(x)))))
    return [None]


ROWS: tuple[Row, ...] = (
    Row("QuantizeLinear", "x scale zero_point?", _quantize, ("quantize",), groups=False),
    Row("DequantizeLinear", "x scale zero_point?", _dequantize, ("dequantize",), groups=False),
)
