"""quantized_16bit_lstm: one step of a long short-term memory cell with a 16-bit cell state; NNAPI's operation.

Inputs by position: 0 the input [batch, inputs]; 1..4 input weights [outputs, inputs] of the input, forget, cell and
output gates, 5..8 their recurrent weights [outputs, outputs], 9..12 their biases; 13 the cell state in 1/2048; 14 the
output state. Input, output state and output are uint8 values of 1/128 around 128. Outputs: the next cell state, and the
output. The rows of weights are [recurrent, input], the columns that they multiply [input, output state]: recurrent
weight 0 meets input 0. So does the reference of the Android suite, and so do its expected results.
The sums of a gate are rounded to 1/4096 in 16 bits; gates are gemmlowp's functions with 15 fraction bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Int64Array, Quantization, TensorType
from npusim.kernels.operator import rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import elementwise, input_type, input_value, known, quantization
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.rescale import MOST_LEFT
from npusim.kernels.operators.movement.joining import ConcatenationParameters
from npusim.kernels.operators.sequence.integer_steps import (
    GateSumsParameters,
    stage_parameters,
)
from npusim.kernels.operators.sequence.lstm_cell import GATES, OPERATIONS_PER_CELL, equations
from npusim.kernels.operators.sequence.word_cell import WordCell, step_parameters

_INPUT, _INPUT_WEIGHTS, _RECURRENT_WEIGHTS, _BIAS, _CELL_STATE, _OUTPUT_STATE = 0, 1, 5, 9, 13, 14
_INPUTS = 15
_GATES = len(GATES)
_SUMS_PER_ONE = 4096
_ZERO = 128
_CELL = WordCell(False, 4, 0, (0, 0), _ZERO, 0, 255, halves_up=True)
"""A cell state with 4 integer bits, and an output of uint8 around 128."""


def _infer(call: Call) -> Shapes:
    shape = input_type(call).shape[0], input_type(call, _INPUT_WEIGHTS).shape[0]
    return shape, shape


def _reference(call: Call, values: Values) -> list[Array]:
    x, h = (input_value(values, position).astype(np.int64) for position in (_INPUT, _OUTPUT_STATE))
    columns = np.concatenate([x, h], axis=1) - _ZERO
    sums = {gate: _sums(call, values, number, columns) for number, gate in enumerate(GATES)}
    before = input_value(values, _CELL_STATE).astype(np.int64)
    output, state = equations(_CELL, lambda gate, state: sums[gate], before)
    return [state.astype(np.int16), output.astype(np.uint8)]


def _sums(call: Call, values: Values, gate: int, columns: Int64Array) -> Int64Array:
    """Return the sums of a gate [batch, outputs], 16-bit words with 12 fraction bits."""
    rows = _rows(values, gate).astype(np.int64) - quantization(input_type(call, _INPUT_WEIGHTS)).zero_point
    # float64 holds these sums exactly and multiplies matrices fast
    products = (columns.astype(np.float64) @ rows.T.astype(np.float64)).astype(np.int64)
    total = products + input_value(values, _BIAS + gate).astype(np.int64)
    scaled = multiply_by_quantized_multiplier(total.astype(np.int32), *_rescale(call))
    return np.clip(scaled.astype(np.int64), -32768, 32767)


def _rows(values: Values, gate: int) -> Array:
    """Return the weights of a gate [outputs, inputs + outputs] as they meet inputs and output state."""
    parts = [input_value(values, first + gate) for first in (_RECURRENT_WEIGHTS, _INPUT_WEIGHTS)]
    return np.concatenate(parts, axis=1)


def _rescale(call: Call) -> tuple[int, int]:
    """Return the multiplier from products to sums; the scale of the biases is that of the weights over 128."""
    weights = quantization(input_type(call, _INPUT_WEIGHTS)).scale
    return quantize_multiplier(float(np.float32(weights / _ZERO)) * _SUMS_PER_ONE)


def _workload(call: Call) -> Workload:
    batch, inputs = input_type(call).shape
    outputs = input_type(call, _INPUT_WEIGHTS).shape[0]
    work = elementwise(call, batch * outputs * OPERATIONS_PER_CELL)
    macs = batch * _GATES * outputs * (inputs + outputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + outputs)


# Rules


def _shapes(call: Call) -> bool:
    """weights, biases, states and outputs have the sizes that input and outputs ask for"""
    tensors = [input_type(call, position) for position in range(_INPUTS)]
    if len(tensors[_INPUT].shape) != 2 or len(tensors[_INPUT_WEIGHTS].shape) != 2:
        return False
    batch, inputs = tensors[_INPUT].shape
    outputs = tensors[_INPUT_WEIGHTS].shape[0]
    expected = (
        [(batch, inputs)]
        + [(outputs, inputs)] * _GATES
        + [(outputs, outputs)] * _GATES
        + [(outputs,)] * _GATES
        + [(batch, outputs)] * 2
    )
    return [tensor.shape for tensor in tensors] == expected and _infer(call) == call.output_shapes


def _one_scale(call: Call) -> bool:
    """all weights have one scale and zero point"""
    weights = {input_type(call, position).quantization for position in range(_INPUT_WEIGHTS, _BIAS)}
    return len(weights) == 1 and None not in weights and all(q and q.axis is None for q in weights)


def _fixed_scales(call: Call) -> bool:
    """input and output have scale 1/128 and zero point 128, cell states scale 1/2048 and zero point 0"""
    codes = (input_type(call), input_type(call, _OUTPUT_STATE), call.outputs[1])
    states = (input_type(call, _CELL_STATE), call.outputs[0])
    return all(_is(tensor.quantization, 1 / 128, _ZERO) for tensor in codes) and all(
        _is(tensor.quantization, 1 / 2048, 0) for tensor in states
    )


def _is(scaling: Quantization | None, scale: float, zero_point: int) -> bool:
    return scaling == Quantization((scale,), (zero_point,))


def _shift(call: Call) -> bool:
    """the scale of the weights is less than 2**26: C leaves larger shifts undefined"""
    return _rescale(call)[1] <= MOST_LEFT


def _expand(call: Call) -> Expansion | None:
    """Expand to one product of input and output state, side by side, with all weights, and the step of the cell."""
    body, values = Expansion(_INPUTS), known(call)
    if any(values[position] is None for position in range(_INPUT_WEIGHTS, _CELL_STATE)):
        return None
    weights = np.concatenate([_rows(values, gate) for gate in range(_GATES)])
    zero = quantization(input_type(call, _INPUT_WEIGHTS)).zero_point
    bias = np.concatenate([input_value(values, _BIAS + gate) for gate in range(_GATES)]).astype(np.int64)
    bias = bias - _ZERO * (weights.astype(np.int64) - zero).sum(axis=1)
    output, state = call.outputs[1], call.outputs[0]
    (batch, cells), inputs = state.shape, weights.shape[1]
    (columns,) = body.call(
        "columns",
        "concatenation",
        (_INPUT, _OUTPUT_STATE),
        (replace(output, shape=(batch, inputs)),),
        ConcatenationParameters(axis=1),
    )
    operands = columns, body.constant(weights), body.constant(stage_parameters(bias, [_rescale(call)]))
    (sums,) = body.call(
        "sums",
        "gate_sums",
        operands,
        (TensorType("int16", (batch, _GATES * cells)),),
        GateSumsParameters(weight_zero=zero),
    )
    step = step_parameters(_CELL)
    codes, after = body.call("cells", "lstm_step", (sums, None, _CELL_STATE), (output, state), step)
    body.results = [after, codes]
    return body


QUANTIZED_16BIT_LSTM = Operator(
    name="quantized_16bit_lstm",
    types=("uint8*9, int32*4, int16, uint8 -> int16, uint8",),
    rules=(rules.operands(_INPUTS, 2), _shapes, _one_scale, _fixed_scales, _shift),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="on the NPU weights and biases are constants",
    expand=_expand,
)

OPERATORS = (QUANTIZED_16BIT_LSTM,)
