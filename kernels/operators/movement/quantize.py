"""quantize: real numbers, or codes of one scale, to codes of another."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from npusim.isa.arithmetic.integer import clamp, codes_of_reals, requantise
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.lowering.float_codes import table_lowering
from npusim.kernels.lowering.real import lower_real_convert, on_real_lanes, real_inputs
from npusim.kernels.lowering.vector import int16_passes, lower_quantize
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import fits
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.in_reals import by_element, codes_of_results, reals_of_codes
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operator.real_steps import RealSteps
from npusim.kernels.operator.rescale import Multiplier, moved_in_32_bits, quantize_multiplier_of, sound_scales

_BEYOND_CODES = 1 << 20
"""Steps that lead out of the codes from every zero point, and that 32 bits hold."""

_LARGEST = {"float16": 65504.0, "float32": 2.0**127}
"""Reals about as large as the types hold."""


def _codes(call: Call, values: Values) -> list[Array]:
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


class Parameters(parameters.Parameters):
    """saturating: reals beyond the codes become the nearest code (NNAdapter); otherwise those that no 32 bits hold
    in steps become the smallest, as LiteRT has it.
    truncate: reals are cut off toward zero, and signed codes are not the smallest (NNAdapter's built-in device).
    bits: how many bits of a byte codes have (ONNX, with rescale "float32"); 0: all of their type.
    """

    saturating: bool = False
    truncate: bool = False
    bits: Annotated[int, Between(0, 7)] = 0


def _literal(call: Call[Parameters], values: Values) -> list[Array]:
    """Reals, or the reals of codes, divided by the scale and rounded half to even."""
    reals = reals_of_codes(input_value(values), input_type(call))
    return [codes_of_results(reals, call.outputs[0], _limits(call))]


def _limits(call: Call[Parameters]) -> tuple[int, int]:
    """The smallest and the largest code."""
    low, high = code_range(call.outputs[0].dtype)
    unused = 8 - call.parameters.bits if call.parameters.bits else 0
    return low >> unused, high >> unused


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    ofm, how = call.outputs[0], call.parameters
    reals: Any = input_value(values)
    if not (how.saturating or how.truncate):
        return [quantize_reals(reals, quantization(ofm), ofm.dtype)]
    scales, zero_points = by_element(quantization(ofm), reals.ndim)
    low, high = code_range(ofm.dtype)
    with np.errstate(all="ignore"):
        steps = np.asarray(reals / scales).astype(np.float64)
        steps = np.trunc(steps) if how.truncate else steps
        steps = np.asarray(np.clip(steps, low - zero_points, high - zero_points))
    least = -high if how.truncate and low < 0 else low
    return [clamp(codes_of_reals(steps, zero_points), least, high, ofm.dtype)]


def _multiplier(call: Call) -> Multiplier:
    return quantize_multiplier_of(input_type(call), call.outputs[0])


def quantize_reals(reals: Any, target: Quantization, dtype: str) -> Array:
    """Codes of float32 values: divided in float32, rounded half away from zero; see `codes_of_reals`."""
    low, high = code_range(dtype)
    scales, zero_points = by_element(target, reals.ndim)
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite quotient is one that int32 cannot hold
        steps = np.asarray(reals / scales)
    return clamp(codes_of_reals(steps, zero_points), low, high, dtype)


def _halves(call: Call[Parameters], values: Values) -> list[Array]:
    return _reals(call, [input_value(values).astype(np.float32)])


def _scale_per_channel(call: Call) -> bool:
    """there are as many scales as channels, or one"""
    scaling, shape = quantization(call.outputs[0]), call.outputs[0].shape
    return scaling.axis is None or shape[scaling.axis : scaling.axis + 1] == (len(scaling.scales),)


def _one_scale(call: Call) -> bool:
    """on float units there is one scale and zero point, and the codes are int8 or uint8"""
    return rules.eight_bit_output(call) and quantization(call.outputs[0]).axis is None


def _as_litert(call: Call[Parameters]) -> bool:
    """on float units what 32 bits do not hold in steps becomes the smallest code (neither saturating nor truncated)"""
    return not (call.parameters.saturating or call.parameters.truncate)


def _expand(call: Call[Parameters]) -> Expansion | None:
    """For lanes of reals, which have the rescaling of LiteRT."""
    if call.parameters.rescale == "float32":
        return _literal_steps(call) if input_type(call).dtype == "float32" and _one_scale(call) else None
    return _limited(call)


def _literal_steps(call: Call[Parameters]) -> Expansion:
    """Reals to whole steps within the codes, which then are codes that count."""
    steps, ofm = RealSteps(call), call.outputs[0]
    scaling = quantization(ofm)
    number = steps.function("round", steps.pair("div", 0, steps.number(scaling.scale)))
    if scaling.zero_point:
        number = steps.pair("add", number, steps.number(scaling.zero_point))
    low, high = _limits(call)
    number = steps.pair("minimum", steps.pair("maximum", number, steps.number(low)), steps.number(high))
    counted = TensorType(ofm.dtype, ofm.shape, Quantization((1.0,), (0,)))
    return steps.result(steps.step("quantize", [number], ofm.shape, Parameters(), counted))


def _limited(call: Call[Parameters]) -> Expansion | None:
    """Reals limited to where 32 bits hold them in steps, which is where nothing is left to saturate."""
    ofm, ifm = call.outputs[0], input_type(call)
    if call.parameters.truncate or not (call.parameters.saturating and ifm.real and _one_scale(call)):
        return None
    steps = RealSteps(call)
    limit = quantization(ofm).scale * _BEYOND_CODES
    if limit >= _LARGEST[ifm.dtype]:
        return None
    below = steps.pair("minimum", 0, steps.number(limit))
    inside = steps.pair("maximum", below, steps.number(-limit))
    return steps.result(steps.step("quantize", [inside], ofm.shape, Parameters(), ofm))


def _scaled(call: Call) -> bool:
    """whole numbers have one scale and zero point, or those that reals become one for each channel"""
    tensors = (input_type(call), call.outputs[0])
    per_channel = input_type(call).real
    return all(
        tensor.real or (tensor.quantized and (per_channel or quantization(tensor).axis is None))
        for tensor in tensors
    )


def _with_int16(call: Call) -> bool:
    """on the NPU int16 values have zero point 0, become 8-bit or int16 values, or come from such"""
    kinds = {input_type(call).dtype, call.outputs[0].dtype}
    return "int16" in kinds and kinds <= {"int8", "uint8", "int16"} and rules.symmetric(call)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    if call.parameters.rescale == "float32":
        return _literal(call, values)
    return _FIXED_POINT(call, values)


_FIXED_POINT = by_type(
    dict.fromkeys(("int8", "uint8", "int16", "int32"), _codes) | {"float32": _reals, "float16": _halves}
)


def _known_in_integers(call: Call[Parameters]) -> bool:
    """quantized values of uint16, or of fewer bits than their type has, are requantized in float32"""
    if call.parameters.rescale == "float32":
        return call.parameters.bits == 0 or call.outputs[0].element.bits == 8
    return fits(_IN_INTEGERS, call.inputs, call.outputs) and call.parameters.bits == 0


_IN_INTEGERS = (
    "int8|uint8|int16|float32|float16 -> int8|uint8|int16",
    "float32|float16 -> uint16|int32",
    "int32 -> int8|int16",
    "int16 -> int32",
)
_ANY = "int8|uint8|int16|uint16|int32"

OPERATOR = Operator(
    name="quantize",
    parameters=Parameters,
    types=(f"{_ANY}|float32|float16 -> {_ANY}",),
    rules=(
        rules.operands(1),
        _known_in_integers,
        _scaled,
        rules.same_shape,
        _scale_per_channel,
        sound_scales,
        moved_in_32_bits("input scale / output scale", _multiplier),
    ),
    infer=like_input,
    reference=_reference,
    workload=elementwise,
    lowerings=(
        Lowering("vector", (rules.eight_bit, rules.eight_bit_output), lower_quantize),
        Lowering("vector", (_with_int16,), lower_quantize, (int16_passes,)),
        on_real_lanes(lower_real_convert, _one_scale, _as_litert, kind=real_inputs),
        table_lowering(_literal),
    ),
    expand=_expand,
    rescales=("fixed_point", "float32"),
)
