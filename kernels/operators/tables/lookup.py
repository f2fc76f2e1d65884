"""The construction of operators of one operand, which in 8 bits look results up in a table of 256 entries.

Reference and NPU use the same table, which a function of quantized values fills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import quantized_steps
from npusim.isa.arithmetic.interpolated import HIGH, LOW, table_of
from npusim.isa.arithmetic.interpolated import look_up as interpolation
from npusim.isa.arithmetic.real import UNARY_BY_NAME
from npusim.isa.base.tensor import Array, Float32Array, Float64Array, Int64Array, IntArray
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.vector import INT16_TABLES
from npusim.kernels.lowering.float_lanes import lower_float_unary, on_float_lanes
from npusim.kernels.lowering.quantized_in_float32 import literal_table_lowering
from npusim.kernels.lowering.vector_work import int16_passes, lower_int16_table, lower_table
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike
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
    with_halves,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Reference, Rule, Values, literal
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.operator.rescale import sound_scales

_BEYOND_CODES = (-(1 << 16), 1 << 16)
"""Steps that lead out of the quantized range from every zero point."""

CodeFunction = Callable[[Call, Int64Array], IntArray]
"""Gives quantized outputs, not yet limited to the output type, from quantized inputs."""

RealFunction = Callable[[Call, Float32Array], Float32Array]
"""Computes the operator on float32 tensors."""

WideFunction = Callable[[Call, Float64Array], Float64Array]
"""Computes the operator in float64."""

Lanes = Callable[[Call], tuple[str, float]]
"""Gives the function of the float lanes that computes a call, and its alpha."""

Table = Callable[[Call], Array]

Steps = Callable[[FloatSteps, Any], int | None]
"""Adds a function of operand 0 with these parameters to steps of the lanes. Returns its result's number or None."""


def tabulate(codes_of: CodeFunction) -> Table:
    """Return the function that gives a call's table: the quantized output for each quantized input.

    Its 256 entries have the output's element type, in the order of the input's raw bytes (int8: 0..127, then -128..-1).
    """

    def table(call: Call) -> Array:
        output = call.outputs[0]
        codes = np.arange(256, dtype=np.uint8).view(input_type(call).numpy_dtype).astype(np.int64)
        return np.clip(codes_of(call, codes), *code_range(output.dtype)).astype(output.numpy_dtype)

    return table


def beyond_tables(codes_of: CodeFunction) -> Reference:
    """Return the reference of 16-bit values, which are too many for a table."""

    def reference(call: Call, values: Values) -> list[Array]:
        output = call.outputs[0]
        results = codes_of(call, input_value(values).astype(np.int64))
        return [np.clip(results, *code_range(output.dtype)).astype(output.numpy_dtype)]

    return reference


def _interpolated(function: RealFunction) -> Reference:
    """Return the reference of int16 by a table of 513 entries between which results are interpolated."""
    return beyond_tables(lambda call, codes: interpolation(_interpolated_table(call, function), codes))


def _interpolated_table(call: Call, function: RealFunction) -> Int64Array:
    """Return the entries of that table, in float32 steps."""
    (first, last), (least, most) = (
        [np.float32(quantization(kind).scale) * np.float32(end) for end in (LOW, HIGH)]
        for kind in (input_type(call), call.outputs[0])
    )
    with np.errstate(all="ignore"):
        factor = np.float32(65536) / (most - least)
    return table_of(lambda x: function(call, x), first, last, factor, np.float32)


def _interpolated_on_npu(function: RealFunction) -> Lowering:
    """Return the way in which the vector unit interpolates that table."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        table_code = INT16_TABLES.index("interpolated")
        return lower_int16_table(call, _interpolated_table(call, function), int16=table_code)

    return Lowering("vector", (rules.all_int16,), lower, (int16_passes,))


def look_up(entries: Array, codes: Array) -> Array:
    """Return the entries of a table at 8-bit `quantized values` of any shape."""
    return np.asarray(entries[np.asarray(codes, order="C").view(np.uint8)])


def float_function(lanes: Lanes | str) -> RealFunction:
    """Return the function that the float lanes compute: by its name without alpha, or the one that a call selects."""

    def function(call: Call, x: Float32Array) -> Float32Array:
        name, alpha = (lanes, 0.0) if isinstance(lanes, str) else lanes(call)
        result: Float32Array = UNARY_BY_NAME[name].compute(x, np.float32(alpha))
        return result

    return function


def tabulate_float(function: RealFunction, clamped: tuple[str, ...] = ("int8",)) -> Table:
    """Return the table of a float function, in the float32 steps of LiteRT's tables.

    Quantized values become float32(scale * (code - zero_point)); results are multiplied by float32(1 / output scale)
    and rounded half away from zero. For the element types `clamped` the kernels clamp float values, for the others what
    became of them in 32 bits.
    """

    def codes_of(call: Call, codes: Int64Array) -> IntArray:
        target = quantization(call.outputs[0])
        with np.errstate(all="ignore"):
            results = function(call, floats_of(call, codes)) * (np.float32(1) / np.float32(target.scale))
        if call.outputs[0].dtype in clamped:
            results = np.clip(results, *_BEYOND_CODES)
        return quantized_steps(results, target.zero_point)

    return tabulate(codes_of)


def tabulate_by_value(function: RealFunction) -> Table:
    """Return the table of a float function for which LiteRT has none: float32 results divided by the output's scale.

    They are rounded half away from zero; results beyond the output type become its nearest value.
    """

    def codes_of(call: Call, codes: Int64Array) -> IntArray:
        target = quantization(call.outputs[0])
        with np.errstate(all="ignore"):
            steps = function(call, floats_of(call, codes)) / np.float32(target.scale)
        return quantized_steps(np.clip(steps, *_BEYOND_CODES), target.zero_point)

    return tabulate(codes_of)


def floats_of(call: Call, codes: Int64Array) -> Float32Array:
    """Dequantize values of the input to float32."""
    source = quantization(input_type(call))
    with np.errstate(over="ignore"):
        return np.float32(source.scale) * (codes - source.zero_point).astype(np.float32)


def round_half_away(values: Float32Array) -> Int64Array:
    """Round to the nearest integer, halves away from zero (C's `round`)."""
    exact = values.astype(np.float64)  # adding a half is exact in float64, not in float32
    return np.trunc(exact + np.copysign(0.5, exact)).astype(np.int64)


def unary_operator(
    name: str,
    table: Table,
    *own_rules: Rule,
    parameters: type[Parameters] = Parameters,
    whole: Mapping[str, Reference] | None = None,
    lanes: Lanes | None = None,
    on_host: RealFunction | None = None,
    lane_rules: tuple[Rule, ...] | None = None,
    steps: Steps | None = None,
    once: WideFunction | None = None,
    on_int16: tuple[Lowering, ...] = (),
    interpolates: RealFunction | None = None,
) -> Operator:
    """Return the operator that looks 8-bit tensors up in `table` and applies a function of the float lanes to floats.

    whole:   the references of further element types, whose elements stand for themselves.
    lanes:   the function of the real lanes and its alpha; that of the operator's name if None.
    on_host: a function of real numbers that the lanes do not have, in place of that.
    lane_rules: which calls the lanes have nevertheless; None where they have none that `on_host` does.
    steps:   the steps of the lanes that compute the function of float values; None where it has to stay whole.
    on_int16: how the NPU computes int16.
    interpolates: the function that is interpolated for int16, by the reference and the NPU.
    once:    the same in float64, for rescale "float32", which rounds to float32 once; None where `real` does.
    """
    if interpolates is not None:
        own_rules = (*own_rules, rules.wide_codes_scaled, rules.symmetric)
        whole, on_int16 = {"int16": _interpolated(interpolates)}, (_interpolated_on_npu(interpolates),)
    chosen = lanes or (lambda call: (name, 0.0))
    real = on_host or float_function(chosen)
    in_float32 = _of_floats(real if once is None else rounded_once(once))

    def codes(call: Call, values: Values) -> list[Array]:
        return [look_up(table(call), input_value(values))]

    references = with_halves({"int8": codes, "uint8": codes, "float32": _of_floats(real), **(whole or {})})
    on_vector_unit = Lowering(
        "vector", (rules.eight_bit,), lambda call, hardware: lower_table(call, table(call))
    )
    on_lanes = on_float_lanes(lambda call: lower_float_unary(call, *chosen(call)), *(lane_rules or ()))

    def in_steps(call: Call) -> Expansion | None:
        if steps is None or not input_type(call).real:
            return None
        lanes_steps = FloatSteps(call)
        last = steps(lanes_steps, call.parameters)
        return None if last is None else lanes_steps.result(last)

    return Operator(
        name=name,
        parameters=parameters,
        types=alike(*references),
        rules=(rules.operands(1), rules.same_shape, rules.per_tensor, sound_scales, *own_rules),
        infer=like_input,
        reference=by_type(references),
        workload=elementwise,
        lowerings=(
            on_vector_unit,
            *on_int16,
            *([] if on_host and lane_rules is None else [on_lanes]),
        ),
        expand=in_steps if steps else None,
        arithmetics=(literal(literal_table_lowering(in_float32), reference=in_float32),),
    )


def _of_floats(function: RealFunction) -> Reference:
    """Return the reference of float32 tensors."""

    def reference(call: Call, values: Values) -> list[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(call, input_value(values).astype(np.float32, copy=False)))]

    return reference


def rounded_once(function: WideFunction) -> RealFunction:
    """Return a function of float64 as one of float32 whose result is rounded once."""

    def rounded(call: Call, x: Float32Array) -> Float32Array:
        with np.errstate(all="ignore"):
            result: Float32Array = np.asarray(function(call, x.astype(np.float64)), np.float32)
        return result

    return rounded


def wide_operator(
    name: str,
    function: WideFunction,
    *own_rules: Rule,
    parameters: type[Parameters] = Parameters,
    steps: Steps | None = None,
    lane_rules: tuple[Rule, ...] | None = None,
) -> Operator:
    """Return the operator of a function of float64, rounded to float32 once.

    It is a look-up in 8 bits. Float values are computed by the host, by the lanes in `steps`, or at once by lanes that
    have the function: for calls that keep `lane_rules`.
    """
    real = rounded_once(function)
    table = tabulate_by_value(real)
    return unary_operator(
        name, table, *own_rules, parameters=parameters, on_host=real, steps=steps, lane_rules=lane_rules
    )


def of_whole_numbers(function: Callable[[Any], Any]) -> Reference:
    """Return the reference of values without scale: results beyond the type wrap."""

    def reference(call: Call, values: Values) -> list[Array]:
        with np.errstate(over="ignore"):
            return [np.asarray(function(input_value(values)))]

    return reference
