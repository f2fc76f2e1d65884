"""svdf: a dense layer over the last steps of a sequence, in which two-stage filters approximate each unit.

Inputs: the step [batch, inputs]; feature weights [filters, inputs]; time weights [filters, memory]; a bias [units] or
none; the state [batch, memory * filters], filter by filter, where filters = units * rank. The products with the feature
weights become the newest column of the memory; the memory of each filter is multiplied by its time weights and summed,
and so are the filters of a unit. Outputs: the result [batch, units] and, if asked for, the next state.

Quantized, input, feature weights and result are int8, the bias int32, time weights and state int16, bit-exact with
LiteRT. The products with the feature weights are requantized to the state's scale and saturate. Sums over time, filters
and bias are 32 bits wide. Only its type clamps the result, so relu is a zero point of -128. Time weights and state may
also be int8, bit-exact with TFLite Micro, and the state then has a zero point. LiteRT is no reference for int8: its
kernel reads both tensors as int16, beyond their ends. As in TFLite Micro's newest kernel (svdf_common.cc), the zero
point is added before the newest column saturates; older kernels saturate first, and their sum may wrap around.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operator.rescale import MOST_LEFT
from npusim.kernels.operators.sequence import litert_functions
from npusim.kernels.operators.sequence.basic_rnn import RnnCellParameters
from npusim.kernels.operators.sequence.recurrence import Numbers, activated
from npusim.kernels.operators.sequence.unrolled import FloatParts

_INPUT, _FEATURE_WEIGHTS, _TIME_WEIGHTS, _BIAS, _STATE = range(5)


class Parameters(RnnCellParameters):
    """rank: filters per unit.

    shift: whether the memory moves on one column before the newest is written, as in TFLite, or after the result is
           computed, as in NNAPI, whose states have a column of zeros at the end.
    """

    rank: Count = 1
    shift: Literal["before", "after"] = "before"


def _sizes(call: Call[Parameters]) -> tuple[int, int, int]:
    """Return the numbers of filters, of columns of the memory, and of units."""
    filters, columns = input_type(call, _TIME_WEIGHTS).shape
    return filters, columns, filters // call.parameters.rank


def _infer(call: Call[Parameters]) -> Shapes:
    batch = input_type(call).shape[0]
    return ((batch, _sizes(call)[2]), input_type(call, _STATE).shape)[: len(call.outputs)]


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        return _float_reference(call, values)


def _float_reference(call: Call[Parameters], values: Values) -> list[Array]:
    filters, columns, units = _sizes(call)
    x, state = input_value(values, _INPUT), input_value(values, _STATE)
    weights: Numbers = input_value(values, _FEATURE_WEIGHTS)
    memory: Numbers = state.reshape(x.shape[0], filters, columns).copy()
    if call.parameters.shift == "before":
        memory = _moved_on(memory)
    memory[:, :, -1] = x @ weights.T
    products = (memory * input_value(values, _TIME_WEIGHTS)).sum(axis=2, dtype=np.float32)
    result = products.reshape(x.shape[0], units, call.parameters.rank).sum(axis=2, dtype=np.float32)
    if call.inputs[_BIAS] is not None:
        bias: Numbers = input_value(values, _BIAS)
        result = result + bias
    if call.parameters.shift == "after":
        memory = _moved_on(memory)
    outputs: list[Array] = [activated(call.parameters.activation, result), memory.reshape(state.shape)]
    return outputs[: len(call.outputs)]


def _dynamic_range(call: Call[Parameters], values: Values) -> list[Array]:
    """Compute with int8 weights: the step is quantized at run time, time weights are dequantized."""
    filters, columns, units = _sizes(call)
    x: Numbers
    x, feature, time = (input_value(values, place) for place in (_INPUT, _FEATURE_WEIGHTS, _TIME_WEIGHTS))
    state = input_value(values, _STATE)
    scales = [dynamic_range.scales_of(input_type(call, place)) for place in (_FEATURE_WEIGHTS, _TIME_WEIGHTS)]
    memory = _moved_on(state.reshape(len(x), filters, columns))
    memory[:, :, -1] = dynamic_range.product(x, feature, scales[0], dynamic_range.asymmetric(call))
    by_filter = litert_functions.added_up(memory * (time.astype(np.float32) * scales[1]))
    sums = litert_functions.added_up(by_filter.reshape(len(x), units, call.parameters.rank))
    if call.inputs[_BIAS] is not None:
        bias: Numbers = input_value(values, _BIAS)
        sums = sums + bias
    result = litert_functions.activated(call.parameters.activation, sums)
    return [result, memory.reshape(state.shape)][: len(call.outputs)]


def _tflite_order(call: Call[Parameters]) -> bool:
    """with int8 weights and a float32 input the memory is shifted before the step"""
    return call.parameters.shift == "before"


def _integer_reference(call: Call[Parameters], values: Values) -> list[Array]:
    filters, columns, units = _sizes(call)
    x = input_value(values, _INPUT).astype(np.int64) - quantization(input_type(call)).zero_point
    weights = input_value(values, _FEATURE_WEIGHTS).astype(np.int64)
    state, zero_point = input_value(values, _STATE), quantization(input_type(call, _STATE)).zero_point
    memory = _moved_on(state.reshape(len(x), filters, columns).astype(np.int64) - zero_point)
    stored, shown = _rescales(call)
    newest = multiply_by_quantized_multiplier((x @ weights.T).astype(np.int32), *stored)
    limits = code_range(input_type(call, _STATE).dtype)
    memory[:, :, -1] = np.clip(newest.astype(np.int64) + zero_point, *limits) - zero_point
    products = (memory * input_value(values, _TIME_WEIGHTS).astype(np.int64)).sum(axis=2)
    sums = products.reshape(len(x), units, call.parameters.rank).sum(axis=2)
    if call.inputs[_BIAS] is not None:
        sums = sums + input_value(values, _BIAS).astype(np.int64)
    codes = multiply_by_quantized_multiplier(sums.astype(np.int32), *shown).astype(np.int64)
    codes = np.clip(codes + quantization(call.outputs[0]).zero_point, *code_range("int8"))
    outputs: list[Array] = [
        codes.astype(np.int8),
        (memory + zero_point).reshape(state.shape).astype(state.dtype),
    ]
    return outputs[: len(call.outputs)]


def _rescales(call: Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the multipliers from products to the state, and from sums over time to the result, in float64."""
    scales = [
        quantization(input_type(call, position)).scale
        for position in (_INPUT, _FEATURE_WEIGHTS, _STATE, _TIME_WEIGHTS)
    ]
    source, feature, state, time = scales
    result = quantization(call.outputs[0]).scale
    return quantize_multiplier(source * feature / state), quantize_multiplier(state * time / result)


def _moved_on(memory: Numbers) -> Numbers:
    """Return the oldest column gone, a column of zeros at the end."""
    return np.concatenate([memory[:, :, 1:], np.zeros_like(memory[:, :, :1])], axis=2)


def _workload(call: Call[Parameters]) -> Workload:
    batch, inputs = input_type(call).shape
    filters, columns, units = _sizes(call)
    work = elementwise(call, batch * (filters + units))
    return replace(work, kind="gemm", macs=batch * filters * (inputs + columns), inner_k=inputs)


def _expand(call: Call[Parameters]) -> Expansion | None:
    """Expand to the memory with its newest column, times the time weights, summed over time and over the filters of a
    unit.
    """
    if not input_type(call).real:
        return None
    parts, chosen = FloatParts(call), call.parameters
    batch, (filters, columns, units) = input_type(call).shape[0], _sizes(call)
    newest = parts.product("features", _INPUT, batch, _FEATURE_WEIGHTS)
    column = parts.reshaped("newest", newest, (batch, filters, 1))
    before = parts.reshaped("memory", _STATE, (batch, filters, columns))
    first = 1 if chosen.shift == "before" else 0
    older = (
        [parts.part("older", before, 2, first, columns - 1, (batch, filters, columns))] if columns > 1 else []
    )
    memory = parts.merged("shifted", [*older, column], (batch, filters, columns))
    products = parts.times("products", memory, _TIME_WEIGHTS, (batch, filters, columns))
    sums = parts.summed("over_time", products, (batch, filters, columns))
    if chosen.rank > 1:
        by_unit = parts.reshaped("by_unit", sums, (batch, units, chosen.rank))
        sums = parts.summed("over_filters", by_unit, (batch, units, chosen.rank))
    if call.inputs[_BIAS] is not None:
        result = parts.sum("biased", sums, _BIAS, (batch, units), chosen.activation)
    else:
        result = parts.function("result", sums, (batch, units), chosen.activation)
    if chosen.shift == "after":
        zeros = parts.found.constant(np.zeros((batch, filters, 1), parts.dtype))
        older = (
            [parts.part("kept", memory, 2, 1, columns - 1, (batch, filters, columns))] if columns > 1 else []
        )
        memory = parts.merged("moved_on", [*older, zeros], (batch, filters, columns))
    state = parts.reshaped("state", memory, input_type(call, _STATE).shape)
    parts.found.results = [result, state]
    return parts.found


# Rules


def _operands(call: Call) -> bool:
    """takes 5 inputs, of which the bias may be absent, and gives the output, or the next state beside it"""
    has_operands = all(
        call.inputs[position] is not None for position in range(len(call.inputs)) if position != _BIAS
    )
    return len(call.inputs) == 5 and has_operands and len(call.outputs) in (1, 2)


def _shapes(call: Call[Parameters]) -> bool:
    """weights, bias, state and outputs have the sizes that input, filters and rank ask for"""
    shapes = [input_type(call, position).shape for position in (_INPUT, _FEATURE_WEIGHTS, _TIME_WEIGHTS)]
    if any(len(shape) != 2 for shape in shapes):
        return False
    (batch, inputs), feature, (filters, columns) = shapes
    bias, units = call.inputs[_BIAS], filters // call.parameters.rank
    return (
        columns > 0
        and filters % call.parameters.rank == 0
        and feature == (filters, inputs)
        and (bias is None or bias.shape == (units,))
        and input_type(call, _STATE).elements == batch * filters * columns
        and _infer(call) == call.output_shapes
    )


def _integer_form(call: Call[Parameters]) -> bool:
    """in integers the activation is relu, and the memory is shifted before the step"""
    chosen = call.parameters
    return input_type(call).real or (chosen.activation, chosen.shift) == ("relu", "before")


def _integer_scales(call: Call) -> bool:
    """in integers all but the bias have one scale, and only input, result and an int8 state a zero point"""
    if input_type(call).real:
        return True
    weights, state = (
        [input_type(call, place) for place in (_FEATURE_WEIGHTS, _TIME_WEIGHTS)],
        input_type(call, _STATE),
    )
    symmetric = weights if state.dtype == "int8" else [*weights, state]
    tensors = [*weights, state, input_type(call), call.outputs[0]]
    if any(tensor.quantization is None or tensor.quantization.axis is not None for tensor in tensors):
        return False
    return all(quantization(tensor).zero_point == 0 for tensor in symmetric)


def _shifts(call: Call) -> bool:
    """in integers products of scales are less than 2**31 times the scale of their sum: C defines no larger shift"""
    return input_type(call).real or max(shift for _, shift in _rescales(call)) <= MOST_LEFT


SVDF = Operator(
    name="svdf",
    parameters=Parameters,
    types=(
        *alike("float32", "float16"),
        "int8, int8, int16, int32, int16 -> int8, int16",
        "int8, int8, int8, int32, int8 -> int8, int8",
    ),
    rules=(_operands, _shapes, _integer_form, _integer_scales, _shifts),
    infer=_infer,
    reference=by_type({**with_halves({"float32": _reference}), "int8": _integer_reference}),
    workload=_workload,
    states=(_STATE,),
    expand=_expand,
    on_host="the NPU has no products of int16 states; floats need float lanes, float columns and constant weights",
    arithmetics=(
        dynamic_range.arithmetic(
            ("float32, int8, int8, float32 -> float32",),
            (
                _operands,
                _shapes,
                _tflite_order,
                dynamic_range.symmetric_weights(None, _FEATURE_WEIGHTS, _TIME_WEIGHTS),
            ),
            _dynamic_range,
        ),
    ),
)

OPERATORS = (SVDF,)
