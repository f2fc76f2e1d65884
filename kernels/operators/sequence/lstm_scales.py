"""Rules of the scales of integer LSTM cells; cells of reals keep them."""

from __future__ import annotations

from math import log2

from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import MOST_LEFT
from npusim.kernels.operators.sequence import lstm_integer
from npusim.kernels.operators.sequence.lstm_cell import (
    CELL,
    PEEPHOLES,
    CellParameters,
    IntegerParameters,
    Operand,
    present,
    weights_of,
)
from npusim.kernels.operators.sequence.lstm_rules import gates_at, given, weights_of_cell

_EXPONENT_TOLERANCE = 1e-3
"""How far LiteRT lets the logarithm of a scale be from a whole number that it takes it for."""


def tanh(call: Call[CellParameters]) -> bool:
    """in integers the activation is tanh"""
    return input_type(call).real or call.parameters.activation == "tanh"


def one_scale(call: Call) -> bool:
    """in integers every operand but the biases has one scale, and weights have no zero point"""
    if input_type(call).real:
        return True
    factors = (
        *weights_of_cell(CELL),
        *PEEPHOLES.values(),
        *range(Operand.LAYER_NORM, Operand.LAYER_NORM + 4),
    )
    weights = given(call, factors)
    others = given(call, (Operand.INPUT, Operand.OUTPUT_STATE, Operand.CELL_STATE))
    tensors = [*weights, *others, call.outputs[0]]
    if any(tensor.quantization is None or tensor.quantization.axis is not None for tensor in tensors):
        return False
    return all(tensor.quantization is not None and tensor.quantization.zero_point == 0 for tensor in weights)


def cell_scale(call: Call) -> bool:
    """in integers the scale of the cell state is a power of two from 2**-15 to 2**-9, without zero point"""
    found = input_type(call, Operand.CELL_STATE).quantization
    if input_type(call).real or found is None:
        return input_type(call).real
    exponent = log2(found.scale)
    near = abs(exponent - round(exponent)) < _EXPONENT_TOLERANCE
    return near and round(exponent) in range(-15, -8) and found.zero_point == 0


def hidden_scale(call: Call[IntegerParameters]) -> bool:
    """in integers the fifth of the intermediates is the [scale, zero point] of o tanh(c)"""
    if input_type(call).real:
        return True
    intermediates = call.parameters.intermediates
    return len(intermediates) == 5 and intermediates[lstm_integer.HIDDEN] is not None


def sum_scales(call: Call[IntegerParameters]) -> bool:
    """in integers the first four intermediates are the [scale, zero point] of the sums that are normalized"""
    if input_type(call).real or not present(call, weights_of("output", Operand.LAYER_NORM)):
        return True
    return all(call.parameters.intermediates[gate] is not None for gate in gates_at(call, CELL))


def shifts(call: Call) -> bool:
    """in integers products of scales are less than 2**31 times the scale of their sum: C leaves more undefined"""
    return input_type(call).real or lstm_integer.largest_shift(call) <= MOST_LEFT
