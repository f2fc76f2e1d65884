"""Codes and reals: QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npusim.frontends.onnx.groups import codes_of
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
    codes = codes_of(c.onnx, _arrays(c))  # type: ignore[arg-type]
    if codes is None:
        raise c.onnx.fault("scale and zero point must be constants, without blocks")
    x = c.real("x")
    scaling = _at_axis(c, codes.quantization, len(c.shape(x)))
    return [c.node("quantize", [x], unshaped(codes.dtype, scaling), rescale="float32")]


def _dequantize(c: Conversion) -> Sequence[int | None]:
    codes = codes_of(c.onnx, _arrays(c))  # type: ignore[arg-type]
    if codes is None:
        raise c.onnx.fault("scale and zero point must be constants, without blocks")
    x = c.real("x")
    scaling = _at_axis(c, codes.quantization, len(c.shape(x)))
    c.dequantized(c.coded(x, scaling))
    return [None]


ROWS: tuple[Row, ...] = (
    Row("QuantizeLinear", "x scale zero_point?", _quantize, ("quantize",), groups=False),
    Row("DequantizeLinear", "x scale zero_point?", _dequantize, ("dequantize",), groups=False),
)
