"""Operators that convert between float values and quantized values."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Annotated, Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, quantized_steps, requantise
from npusim.isa.base.elements import Workload
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.elementwise_work import MOST_PARTS
from npusim.kernels.lowering.float_lanes import float_inputs, lower_float_convert, on_float_lanes
from npusim.kernels.lowering.quantized_in_float32 import table_lowering
from npusim.kernels.lowering.vector_work import int16_passes, lower_quantize, lower_table, lower_tables
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import dynamic_range, parameters, rules
from npusim.kernels.operator.axes import Reduction
from npusim.kernels.operator.element_types import by_element, dequantize_values, fits, quantize_results
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
)
from npusim.kernels.operator.operator import Arithmetic, Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import ByValue
from npusim.kernels.operator.rescale import Multiplier, moved_in_32_bits, quantize_multiplier_of, sound_scales

_BEYOND_CODES = 1 << 20
"""Steps that lead out of the quantized range from every zero point, and that 32 bits hold."""

_QUANTIZE_LARGEST = {"float16": 65504.0, "float32": 2.0**127}
"""Limits near the largest values of the float types."""


def _quantize_codes(call: Call, values: Values) -> list[Array]:
    x: Any = input_value(values)
    ifm, ofm = input_type(call), call.outputs[0]
    return [
        requantise(
            x.astype(np.int32) - quantization(ifm).zero_point,
            *_multiplier(call),
            quantization(ofm).zero_point,
            *code_range(ofm.dtype),
            ofm.numpy_dtype,
        )
    ]


class QuantizeParameters(parameters.Parameters):
    """saturating: floats beyond the range become the nearest quantized value (NNAdapter). Otherwise those whose steps
    exceed 32 bits become the smallest, as in LiteRT.
    truncate: floats are cut off toward zero, and signed results are never the smallest (NNAdapter's built-in device).
    bits: bits of a byte that quantized values use (ONNX, with rescale "float32"); 0: all of their type.
    """

    saturating: bool = False
    truncate: bool = False
    bits: Annotated[int, Between(0, 7)] = 0


def _literal(call: Call[QuantizeParameters], values: Values) -> list[Array]:
    """Quantize as ONNX does: floats divided by the scale and rounded half to even."""
    floats = dequantize_values(input_value(values), input_type(call))
    return [quantize_results(floats, call.outputs[0], _limits(call))]


def _limits(call: Call[QuantizeParameters]) -> tuple[int, int]:
    """Return the smallest and the largest quantized value."""
    low, high = code_range(call.outputs[0].dtype)
    unused = 8 - call.parameters.bits if call.parameters.bits else 0
    return low >> unused, high >> unused


def _floats(call: Call[QuantizeParameters], values: Values) -> list[Array]:
    ofm, parameters = call.outputs[0], call.parameters
    floats: Any = input_value(values)
    if not (parameters.saturating or parameters.truncate):
        return [quantize_floats(floats, quantization(ofm), ofm.dtype)]
    scales, zero_points = by_element(quantization(ofm), floats.ndim)
    low, high = code_range(ofm.dtype)
    with np.errstate(all="ignore"):
        steps = np.asarray(floats / scales).astype(np.float64)
        steps = np.trunc(steps) if parameters.truncate else steps
        steps = np.asarray(np.clip(steps, low - zero_points, high - zero_points))
    least = -high if parameters.truncate and low < 0 else low
    return [clamp(quantized_steps(steps, zero_points), least, high, ofm.dtype)]


def _multiplier(call: Call) -> Multiplier:
    return quantize_multiplier_of(input_type(call), call.outputs[0])


def quantize_floats(floats: Any, target: Quantization, dtype: str) -> Array:
    """Quantize float32 values: divided in float32, rounded half away from zero; see `quantized_steps`."""
    low, high = code_range(dtype)
    scales, zero_points = by_element(target, floats.ndim)
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite quotient is one that int32 cannot hold
        steps = np.asarray(floats / scales)
    return clamp(quantized_steps(steps, zero_points), low, high, dtype)


def _quantize_halves(call: Call[QuantizeParameters], values: Values) -> list[Array]:
    return _floats(call, [input_value(values).astype(np.float32)])


def _scale_per_channel(call: Call) -> bool:
    """there are as many scales as channels, or one"""
    scaling, shape = quantization(call.outputs[0]), call.outputs[0].shape
    return scaling.axis is None or shape[scaling.axis : scaling.axis + 1] == (len(scaling.scales),)


def _one_scale(call: Call) -> bool:
    """on float units the output is int8 or uint8 with one scale and zero point"""
    return rules.eight_bit_output(call) and quantization(call.outputs[0]).axis is None


def _as_litert(call: Call[QuantizeParameters]) -> bool:
    """on float units a value / scale beyond 32 bits becomes the smallest value (neither saturating nor truncated)"""
    return not (call.parameters.saturating or call.parameters.truncate)


def _literal_steps(call: Call[QuantizeParameters]) -> Expansion | None:
    """Expand a literal quantization for float lanes: floats become whole steps for a quantize of scale 1."""
    if input_type(call).dtype != "float32" or not _one_scale(call):
        return None
    steps, ofm = FloatSteps(call), call.outputs[0]
    scaling = quantization(ofm)
    number = steps.function("round", steps.pair("div", 0, steps.number(scaling.scale)))
    if scaling.zero_point:
        number = steps.pair("add", number, steps.number(scaling.zero_point))
    low, high = _limits(call)
    number = steps.pair("minimum", steps.pair("maximum", number, steps.number(low)), steps.number(high))
    counted = TensorType(ofm.dtype, ofm.shape, Quantization((1.0,), (0,)))
    return steps.result(steps.step("quantize", [number], ofm.shape, QuantizeParameters(), counted))


def _limited(call: Call[QuantizeParameters]) -> Expansion | None:
    """Expand a saturating quantization: floats are limited to where 32 bits hold their steps, then quantized."""
    ofm, ifm = call.outputs[0], input_type(call)
    if call.parameters.truncate or not (call.parameters.saturating and ifm.real and _one_scale(call)):
        return None
    steps = FloatSteps(call)
    limit = quantization(ofm).scale * _BEYOND_CODES
    if limit >= _QUANTIZE_LARGEST[ifm.dtype]:
        return None
    below = steps.pair("minimum", 0, steps.number(limit))
    inside = steps.pair("maximum", below, steps.number(-limit))
    return steps.result(steps.step("quantize", [inside], ofm.shape, QuantizeParameters(), ofm))


def _scaled(call: Call) -> bool:
    """quantized operands have one scale and zero point; results of floating-point values may have one per channel"""
    tensors = (input_type(call), call.outputs[0])
    per_channel = input_type(call).real
    return all(
        tensor.real or (tensor.quantized and (per_channel or quantization(tensor).axis is None))
        for tensor in tensors
    )


def _with_int16(call: Call) -> bool:
    """on the NPU int16 values have zero point 0 and are requantized to or from 8-bit or int16 values"""
    kinds = {input_type(call).dtype, call.outputs[0].dtype}
    return "int16" in kinds and kinds <= {"int8", "uint8", "int16"} and rules.symmetric(call)


_FIXED_POINT = by_type(
    dict.fromkeys(("int8", "uint8", "int16", "int32"), _quantize_codes)
    | {"float32": _floats, "float16": _quantize_halves}
)


def _known_in_integers(call: Call[QuantizeParameters]) -> bool:
    """quantized values of uint16, or of fewer bits than their type has, are requantized in float32"""
    return fits(_IN_INTEGERS, call.inputs, call.outputs) and call.parameters.bits == 0


def _bits_of_bytes(call: Call[QuantizeParameters]) -> bool:
    """quantized values of fewer bits than their type has are bytes"""
    return call.parameters.bits == 0 or call.outputs[0].element.bits == 8


_IN_INTEGERS = (
    "int8|uint8|int16|float32|float16 -> int8|uint8|int16",
    "float32|float16 -> uint16|int32",
    "int32 -> int8|int16",
    "int16 -> int32",
)
_ANY = "int8|uint8|int16|uint16|int32"
_SCALES = (
    _scaled,
    rules.same_shape,
    _scale_per_channel,
    sound_scales,
    moved_in_32_bits("input scale / output scale", _multiplier),
)

QUANTIZE = Operator(
    name="quantize",
    parameters=QuantizeParameters,
    types=(f"{_ANY}|float32|float16 -> {_ANY}",),
    rules=(rules.operands(1), _known_in_integers, *_SCALES),
    infer=like_input,
    reference=_FIXED_POINT,
    workload=elementwise,
    lowerings=(
        Lowering("vector", (rules.eight_bit, rules.eight_bit_output), lower_quantize),
        Lowering("vector", (_with_int16,), lower_quantize, (int16_passes,)),
        on_float_lanes(lower_float_convert, _one_scale, _as_litert, kind=float_inputs),
    ),
    expand=_limited,
    arithmetics=(
        Arithmetic(
            ("float32",),
            None,
            (rules.operands(1), _bits_of_bytes, *_SCALES),
            _literal,
            (table_lowering(_literal),),
            expand=_literal_steps,
        ),
    ),
)
"""Float values, or quantized values of one scale, to quantized values of another."""


def _dequantize_codes(call: Call, values: Values) -> list[Array]:
    floats = dequantize_values(input_value(values), input_type(call))
    with np.errstate(over="ignore"):  # Values beyond the output's type become infinite
        return [floats.astype(call.outputs[0].numpy_dtype, copy=False)]


def _dequantize_halves(call: Call, values: Values) -> list[Array]:
    return [input_value(values).astype(call.outputs[0].numpy_dtype)]


def _scaled_codes(call: Call) -> bool:
    """integers have a scale and a zero point"""
    return input_type(call).quantized or input_type(call).real


def _bytes(call: Call) -> bool:
    """the NPU dequantizes 8-bit values, by table look-up"""
    return input_type(call).quantized8


def _few_tables(call: Call) -> bool:
    """on the NPU values with a scale per channel form at most 64 contiguous runs of one channel"""
    tensor, axis = input_type(call), quantization(input_type(call)).axis
    return axis is None or prod(tensor.shape[: axis + 1]) <= MOST_PARTS


def _lower(call: Call, hardware: Hardware) -> Parts:
    """Lower to a look-up of the floats of all quantized values, with a table per channel."""
    source, scaling = input_type(call), quantization(input_type(call))
    every = np.arange(256, dtype=np.uint8).view(source.numpy_dtype)
    kinds = zip(scaling.scales, scaling.zero_points, strict=True)
    tables = []
    for scale, zero_point in kinds:
        one = replace(source, quantization=Quantization((scale,), (zero_point,)))
        [table] = _dequantize_codes(replace(call, inputs=(one,)), [every])
        tables.append(table)
    return lower_table(call, tables[0]) if scaling.axis is None else lower_tables(call, tables, scaling.axis)


REFERENCES = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), _dequantize_codes),
    "float16": _dequantize_halves,
}

DEQUANTIZE = Operator(
    name="dequantize",
    types=tuple(f"{dtype} -> float32|float16" for dtype in REFERENCES),
    rules=(rules.operands(1), _scaled_codes, rules.same_shape),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(Lowering("vector", (_bytes, _few_tables), _lower),),
)
"""Quantized integers to the floats that they stand for."""


_DYNAMIC_LARGEST = 255
_READINGS = 3
"""Number of times that every value is read: for the smallest, for the largest, and to be quantized."""


def _dynamic_reference(call: Call, values: Values) -> list[Array]:
    x: Any = input_value(values)
    nothing, most = np.float32(0), np.float32(_DYNAMIC_LARGEST)
    with np.errstate(all="ignore"):
        low, high = np.minimum(x.min(), nothing), np.maximum(x.max(), nothing)
        scale = (high - low) / most if high != low else np.float32(1)
        zero = np.rint(np.clip((nothing - low) / scale, nothing, most))
        steps = np.rint(x / scale) + zero
    codes = np.clip(np.where(np.isnan(steps), nothing, steps), nothing, most)
    zero_point = np.nan_to_num(zero, posinf=_DYNAMIC_LARGEST)
    return [codes.astype(np.uint8), np.asarray(scale, np.float32), np.asarray(zero_point, np.uint8)]


def _not_empty(call: Call) -> bool:
    """the input has at least one element"""
    return input_type(call).elements > 0


def _dynamic_infer(call: Call) -> Shapes:
    return (input_type(call).shape, (), ())


_dynamic_shapes = rules.inferred(
    _dynamic_infer, "the quantized output has the shape of the input, scale and zero point are scalars"
)


def _workload(call: Call) -> Workload:
    return elementwise(call, _READINGS * input_type(call).elements)


def _dynamic_expand(call: Call) -> Expansion:
    """Expand to float steps; whole numbers become quantized values of scale 1."""
    steps = FloatSteps(call)
    nothing, most = steps.number(0), steps.number(_DYNAMIC_LARGEST)
    axes = tuple(range(len(input_type(call).shape)))
    everything = Reduction(axes=axes, keep_dims=False)
    low = steps.pair("minimum", steps.step("reduce_min", [0], (), everything), nothing)
    high = steps.pair("maximum", steps.step("reduce_max", [0], (), everything), nothing)
    extent = steps.pair("sub", high, low)
    flat = steps.step("equal", [extent, nothing], (), ByValue(), TensorType("bool", ()))
    quotient = steps.pair("div", extent, most)
    scale = steps.step("select_v2", [flat, steps.number(1), quotient], ())
    zero = steps.pair("div", steps.pair("sub", nothing, low), scale)
    zero = steps.function("round", steps.pair("minimum", steps.pair("maximum", zero, nothing), most))
    codes = steps.pair("add", steps.function("round", steps.pair("div", 0, scale)), zero)
    codes = steps.pair("minimum", steps.pair("maximum", codes, nothing), most)
    counted = Quantization((1.0,), (0,))
    whole = [
        steps.step("quantize", [number], shape, QuantizeParameters(), TensorType("uint8", shape, counted))
        for number, shape in ((codes, input_type(call).shape), (zero, ()))
    ]
    return steps.result(whole[0], scale, whole[1])


DYNAMIC_QUANTIZE = Operator(
    name="dynamic_quantize",
    types=("float32 -> uint8, float32, uint8",),
    rules=(rules.operands(1, 3), _not_empty, _dynamic_shapes),
    infer=_dynamic_infer,
    reference=_dynamic_reference,
    workload=_workload,
    expand=_dynamic_expand,
    on_host="its scale is known only after the whole operand is read",
)
"""Float values to quantized values uint8 whose scale and zero point follow from the numbers themselves.

x -> quantized values, scale [], zero point []. With 0 among them the numbers x span low..high; then

    scale      = f32(f32(high - low) / 255), 1 where all are 0
    zero point = rint(clamp(f32((0 - low) / scale), 0, 255))
    quantized values      = clamp(rint(f32(x / scale)) + zero point, 0, 255)

as ONNX has it (DynamicQuantizeLinear).
"""


_RESULTS = 4


def _row_scales_reference(call: Call, values: Values) -> list[Array]:
    low: Any = input_value(values)
    row_scales = dynamic_range.asymmetric_scales(low, input_value(values, 1))
    zero_points = row_scales.zero_points.astype(np.float32)
    return [
        row_scales.inverse,
        row_scales.scales,
        np.float32(-128) - zero_points,
        np.float32(127) - zero_points,
    ]


def _row_scales_infer(call: Call) -> Shapes:
    return (input_type(call).shape,) * _RESULTS


def _row_scales_shapes(call: Call) -> bool:
    """all operands have one shape"""
    return (
        input_type(call, 1).shape == input_type(call).shape and _row_scales_infer(call) == call.output_shapes
    )


ROW_SCALES = Operator(
    name="row_scales",
    types=("float32 -> float32",),
    rules=(rules.operands(2, _RESULTS), _row_scales_shapes),
    infer=_row_scales_infer,
    reference=_row_scales_reference,
    workload=elementwise,
    on_host="zero points are computed in float64, which no unit of the NPU has",
)
"""How rows of float32 values become int8 values, from their smallest and largest values, 0 included.

low, high [...] -> inverse, scale, least, most [...]. The step of a value x is x * inverse, rounded and limited to least
and most, and stands for scale. With a zero point z, least is -128 - z and most 127 - z. LiteRT computes z in float64,
which no unit of the NPU has. So the host computes these few numbers between the steps of a layer that the NPU computes
(`npusim.kernels.operator.dynamic_range`). No model has this operator.
"""


OPERATORS = (
    QUANTIZE,
    DEQUANTIZE,
    DYNAMIC_QUANTIZE,
    ROW_SCALES,
)
