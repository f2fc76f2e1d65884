"""The LSTM cell in integers, bit for bit LiteRT's 8x8->16 kernel, and the rules of its scales."""

from __future__ import annotations

from math import log2
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.isa.base.tensor import Array, Int64Array
from npusim.kernels.operator.inverse_root import inverse_root
from npusim.kernels.operator.operands import input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Values
from npusim.kernels.operator.rescale import MOST_LEFT
from npusim.kernels.operators.sequence.lstm_cell import (
    CELL,
    GATES,
    PEEPHOLES,
    CellParameters,
    IntegerParameters,
    Operand,
    equations,
    gates_at,
    gates_of,
    given,
    initial_state,
    present,
    sizes_of,
    walk,
    weights_of,
    weights_of_cell,
)
from npusim.kernels.operators.sequence.recurrence import Numbers
from npusim.kernels.operators.sequence.word_cell import WordCell

_SUM_FRACTION_BITS = 12
_SUM_SCALE = np.float32(2.0**-_SUM_FRACTION_BITS)

HIDDEN = 4
"""Index in the parameter `intermediates` of the quantization of o tanh(c)."""


class Addend(NamedTuple):
    """A matrix product of a gate: weights @ (values - zero point), and its (multiplier, shift) to the result's format.

    `offset` is bias - weights @ zero point.
    """

    weights: Numbers
    offset: Int64Array
    rescale: tuple[int, int]

    def of(self, codes: Numbers) -> Int64Array:
        """Return the requantized products of values [batch, columns]: [batch, rows]."""
        # float64 holds these sums exactly and multiplies matrices fast
        products = codes.astype(np.float64) @ self.weights.T
        return _rescale(products.astype(np.int64) + self.offset, self.rescale)


class LayerNorm(NamedTuple):
    """Weights and bias [cells] of normalized sums, the least variance, and the multiplier to the sums' format."""

    weights: Int64Array
    bias: Int64Array
    least_variance: int
    rescale: tuple[int, int]

    def of(self, sums: Int64Array) -> Int64Array:
        """Return rows [batch, cells] with mean 0 and variance 1 in 1/1024, times the weights, plus the bias."""
        count = sums.shape[1]
        # C's division of integers drops the fraction
        mean = (np.fix(sums.sum(axis=1) * 1024 / count)).astype(np.int64)
        variance = ((sums * sums).sum(axis=1) * ((1 << 20) // count) - mean * mean) >> 20
        variance = np.where(variance < 1, self.least_variance, variance)
        deviations = 1024 * sums - mean[:, None]
        scaled = np.zeros_like(sums)
        for row, factor, shift in zip(range(len(sums)), *inverse_root(variance), strict=True):
            scaled[row] = _rescale(deviations[row], (int(factor), -int(shift)))
        total = scaled * self.weights + self.bias
        return _saturate(
            _rescale(np.fix((total + 512 * np.sign(total)) / 1024).astype(np.int64), self.rescale)
        )


class Gate(NamedTuple):
    """A gate's addends; the peephole multiplies the cell state element by element."""

    from_input: Addend
    from_output: Addend
    peephole: Int64Array | None
    peephole_rescale: tuple[int, int]
    layer_norm: LayerNorm | None

    def sums(self, x: Numbers, output_state: Numbers, cell_state: Int64Array) -> Int64Array:
        """Return the sums [batch, cells] before the gate's function, int16 with 12 fraction bits."""
        total = _saturate(self.from_input.of(x))
        total = _saturate(total + self.from_output.of(output_state))
        if self.peephole is not None:
            total = _saturate(total + _rescale(self.peephole * cell_state, self.peephole_rescale))
        return total if self.layer_norm is None else self.layer_norm.of(total)


def integer_reference(call: Call, values: Values) -> list[Array]:
    """Return all outputs of the sequence, then the states at its end."""
    cell = IntegerCell(call, values)
    sizes, zero = sizes_of(call), quantization(input_type(call, Operand.OUTPUT_STATE)).zero_point
    output_state = initial_state(values, Operand.OUTPUT_STATE, (sizes.batch, sizes.outputs), zero)
    cell_state = initial_state(values, Operand.CELL_STATE, (sizes.batch, sizes.cells), 0)
    return walk(call, values, output_state, cell_state.astype(np.int64), cell.step)


class IntegerCell:
    """An LSTM cell in integers: its weights and multipliers, and a step."""

    def __init__(self, call: Call[IntegerParameters], values: Values) -> None:
        self.gates = {gate: _gate(call, values, gate) for gate in gates_of(call)}
        state_scale = quantization(input_type(call, Operand.CELL_STATE)).scale
        hidden_scale, hidden_zero = _hidden(call)
        projected = present(call, Operand.PROJECTION_WEIGHTS)
        self.words = WordCell(
            coupled="input" not in self.gates,
            state_integer_bits=15 + state_exponent(call),
            limit=_limit(call.parameters.cell_clip, state_scale, 32767),
            output_rescale=_hidden_rescale(call),
            # LiteRT projects values that stand for scale * (value + zero point)
            zero=-hidden_zero if projected else hidden_zero,
        )
        self.projection: Addend | None = None
        if projected:
            state = quantization(input_type(call, Operand.OUTPUT_STATE))
            weights, bias = Operand.PROJECTION_WEIGHTS, Operand.PROJECTION_BIAS
            self.projection = _addend(
                call,
                values,
                weights,
                bias if present(call, bias) else None,
                np.float32(hidden_scale),
                self.words.zero,
                np.float32(state.scale),
            )
            self.output_zero = state.zero_point
            output_scale = quantization(call.outputs[0]).scale
            self.output_limit = _limit(call.parameters.proj_clip, output_scale, 127)

    def step(self, x: Numbers, output_state: Numbers, cell_state: Int64Array) -> tuple[Numbers, Numbers]:
        """Return output and cell state after a step for int8 values [batch, ...]."""

        def sums(gate: str, state: Int64Array) -> Int64Array:
            return self.gates[gate].sums(x, output_state, state)

        hidden, cell_state = equations(self.words, sums, cell_state)
        return self._projected(hidden), cell_state

    def _projected(self, hidden: Int64Array) -> Int64Array:
        if self.projection is None:
            return hidden
        output = np.clip(self.projection.of(hidden) + self.output_zero, -128, 127)
        if self.output_limit:
            output = np.clip(output, -self.output_limit, self.output_limit)
        return output


def _gate(call: Call, values: Values, gate: str) -> Gate:
    source = quantization(input_type(call, Operand.INPUT))
    state = quantization(input_type(call, Operand.OUTPUT_STATE))
    weights = weights_of(gate, Operand.INPUT_WEIGHTS)
    bias = weights_of(gate, Operand.BIAS)
    recurrent = weights_of(gate, Operand.RECURRENT_WEIGHTS)
    source_codes = np.float32(source.scale), source.zero_point
    state_codes = np.float32(state.scale), state.zero_point
    target, layer_norm = sum_scale(call, gate), _layer_norm(call, values, gate)
    from_input = _addend(call, values, weights, bias if layer_norm is None else None, *source_codes, target)
    from_output = _addend(call, values, recurrent, None, *state_codes, target)
    if gate not in PEEPHOLES or not present(call, PEEPHOLES[gate]):
        return Gate(from_input, from_output, None, (0, 0), layer_norm)
    peephole = input_value(values, PEEPHOLES[gate]).astype(np.int64)
    return Gate(from_input, from_output, peephole, _peephole_rescale(call, gate), layer_norm)


def sum_scale(call: Call[IntegerParameters], gate: str) -> np.float32:
    """Return the scale of the sums of a gate before they are normalized, if they are."""
    if not present(call, weights_of(gate, Operand.LAYER_NORM)):
        return _SUM_SCALE
    quantized = call.parameters.intermediates[GATES.index(gate)]
    if quantized is None:
        raise ValueError(
            f"sums of the {gate} gate have no scale; the operator's rules should have refused the call"
        )
    return np.float32(quantized[0])


def _layer_norm(call: Call, values: Values, gate: str) -> LayerNorm | None:
    position = weights_of(gate, Operand.LAYER_NORM)
    if not present(call, position):
        return None
    scale = np.float32(quantization(input_type(call, position)).scale)
    factor, shift = _pair(scale)
    return LayerNorm(
        input_value(values, position).astype(np.int64),
        input_value(values, weights_of(gate, Operand.BIAS)).astype(np.int64),
        min(max(1, int(10000 * scale)), (1 << 31) - 1),
        (factor, shift + _SUM_FRACTION_BITS),
    )


def _addend(
    call: Call,
    values: Values,
    position: int,
    bias_position: int | None,
    scale: np.float32,
    zero_point: int,
    target_scale: np.float32,
) -> Addend:
    """Return the product of weights with values of (scale, zero point), in units of `target_scale`."""
    weights: Any = input_value(values, position).astype(np.int64)
    offset = -zero_point * weights.sum(axis=1)
    if bias_position is not None:
        offset = offset + input_value(values, bias_position).astype(np.int64)
    return Addend(weights.astype(np.float64), offset, _rescale_of(call, position, scale, target_scale))


def _rescale_of(call: Call, position: int, scale: np.float32, target_scale: np.float32) -> tuple[int, int]:
    """Return the multiplier of products with the weights at a position to units of `target_scale`, in float32."""
    weight_scale = np.float32(quantization(input_type(call, position)).scale)
    with np.errstate(over="ignore"):
        return _pair(weight_scale * scale / target_scale)


def largest_shift(call: Call) -> int:
    """Return the most places to the left that a rescale of the layer takes."""
    source, state = (
        np.float32(quantization(input_type(call, position)).scale)
        for position in (Operand.INPUT, Operand.OUTPUT_STATE)
    )
    pairs = [_hidden_rescale(call)]
    for gate in gates_of(call):
        target = sum_scale(call, gate)
        pairs.append(_rescale_of(call, weights_of(gate, Operand.INPUT_WEIGHTS), source, target))
        pairs.append(_rescale_of(call, weights_of(gate, Operand.RECURRENT_WEIGHTS), state, target))
        if gate in PEEPHOLES and present(call, PEEPHOLES[gate]):
            pairs.append(_peephole_rescale(call, gate))
        norm = weights_of(gate, Operand.LAYER_NORM)
        if present(call, norm):
            factor, shift = _pair(quantization(input_type(call, norm)).scale)
            pairs.append((factor, shift + _SUM_FRACTION_BITS))
    if present(call, Operand.PROJECTION_WEIGHTS):
        hidden = np.float32(_hidden(call)[0])
        pairs.append(_rescale_of(call, Operand.PROJECTION_WEIGHTS, hidden, state))
    return max(shift for _, shift in pairs)


def _hidden(call: Call[IntegerParameters]) -> tuple[float, int]:
    """Return scale and zero point of o tanh(c)."""
    hidden = call.parameters.intermediates[HIDDEN]
    if hidden is None:
        raise ValueError("o tanh(c) has no scale; the operator's rules should have refused the call")
    return hidden


def _hidden_rescale(call: Call) -> tuple[int, int]:
    hidden_scale, _ = _hidden(call)
    return _pair(2.0**-15 / hidden_scale * 2.0**-15)


def _peephole_rescale(call: Call, gate: str) -> tuple[int, int]:
    scale = 2.0 ** state_exponent(call) * quantization(input_type(call, PEEPHOLES[gate])).scale
    return _pair(scale / float(sum_scale(call, gate)))


def _pair(real: float | np.float32) -> tuple[int, int]:
    """Return the multiplier and shift of a real that LiteRT holds in float32."""
    return quantize_multiplier(float(np.float32(real)))


def _limit(clip: float, scale: float, largest: int) -> int:
    """Return a clip limit in quantized steps, 0 for none."""
    return int(min(np.float32(clip) / np.float32(scale), np.float32(largest))) if clip > 0 else 0


def state_exponent(call: Call) -> int:
    """Return the power of two that is the scale of the cell state."""
    return round(log2(quantization(input_type(call, Operand.CELL_STATE)).scale))


def _rescale(values: Int64Array, pair: tuple[int, int]) -> Int64Array:
    return multiply_by_quantized_multiplier(values.astype(np.int32), *pair).astype(np.int64)


def _saturate(values: Int64Array) -> Int64Array:
    return np.clip(values, -32768, 32767)


_EXPONENT_TOLERANCE = 1e-3
"""How far the logarithm of a scale may be from an integer for LiteRT to accept it as a power of two."""


def tanh_activation(call: Call[CellParameters]) -> bool:
    """in integers the activation is tanh"""
    return input_type(call).real or call.parameters.activation == "tanh"


def scales_of_operands(call: Call) -> bool:
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
    scaling = input_type(call, Operand.CELL_STATE).quantization
    if input_type(call).real or scaling is None:
        return input_type(call).real
    exponent = log2(scaling.scale)
    near = abs(exponent - round(exponent)) < _EXPONENT_TOLERANCE
    return near and round(exponent) in range(-15, -8) and scaling.zero_point == 0


def hidden_scale(call: Call[IntegerParameters]) -> bool:
    """in integers the fifth of the intermediates is the [scale, zero point] of o tanh(c)"""
    if input_type(call).real:
        return True
    intermediates = call.parameters.intermediates
    return len(intermediates) == 5 and intermediates[HIDDEN] is not None


def sum_scales(call: Call[IntegerParameters]) -> bool:
    """in integers the first four intermediates are the [scale, zero point] of the sums that are normalized"""
    if input_type(call).real or not present(call, weights_of("output", Operand.LAYER_NORM)):
        return True
    return all(call.parameters.intermediates[gate] is not None for gate in gates_at(call, CELL))


def shifts_in_32_bits(call: Call) -> bool:
    """in integers products of scales are less than 2**31 times the scale of their sum: C defines no larger shift"""
    return input_type(call).real or largest_shift(call) <= MOST_LEFT
