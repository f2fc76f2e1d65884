"""One step of an LSTM cell in 16-bit words, and the operator lstm_step, which the NPU computes in one instruction.

Sums of gates have 12 fraction bits and gates 15. The fraction bits of the cell state are a choice of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, NamedTuple

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier
from npusim.isa.base.elements import Workload
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, Int64Array
from npusim.isa.instructions.cell import MOST_STATE_INTEGER_BITS
from npusim.kernels.lowering.cell_work import lower_lstm_step
from npusim.kernels.operator import parameters
from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power
from npusim.kernels.operator.operands import code_range, elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count, Size
from npusim.kernels.operators.sequence.lstm_cell import OPERATIONS_PER_CELL, equations

_WORD = FixedPoint(16)
_SUM_INTEGER_BITS = 3


class WordCell(NamedTuple):
    """The equations of an LSTM cell in 16-bit words.

    coupled:            the input gate is 1 - forget gate.
    state_integer_bits: the format of the cell state; limit: its largest magnitude, 0 for none.
    output_rescale:     multiplier and shift from o tanh(c) to the output; zero, low, high: its zero point and range.
    halves_up:          NNAPI's QUANTIZED_16BIT_LSTM: products of gates round halves up, and the output is the upper
                        8 bits. Otherwise halves round away from zero, and the output is requantized.
    """

    coupled: bool
    state_integer_bits: int
    limit: int
    output_rescale: tuple[int, int]
    zero: int
    low: int = -128
    high: int = 127
    halves_up: bool = False

    def opened(self, gate: str, sums: Int64Array) -> Int64Array:
        """Return the logistic function of the sums of a gate."""
        return _table(_WORD.logistic, _SUM_INTEGER_BITS)[sums + 32768]

    def complement(self, forget: Int64Array) -> Int64Array:
        """Return 1 - forget gate."""
        return _WORD.one - forget

    def candidate(self, sums: Int64Array) -> Int64Array:
        """Return tanh of the sums of the cell gate."""
        return _table(_WORD.tanh, _SUM_INTEGER_BITS)[sums + 32768]

    def mixed(
        self, forget: Int64Array, state: Int64Array, admitted: Int64Array, candidate: Int64Array
    ) -> Int64Array:
        """Return the next cell state, saturated and clipped."""
        bits = self.state_integer_bits
        if self.halves_up:
            kept = _WORD.multiply(forget, state)
            change = divide_by_power(_WORD.multiply(admitted, candidate), bits)
        else:
            kept = divide_by_power(forget * state, 15)
            change = divide_by_power(admitted * candidate, 15 + bits)
        after = np.clip(kept + change, -32768, 32767)
        result: Int64Array = np.clip(after, -self.limit, self.limit) if self.limit else after
        return result

    def shown(self, gate: Int64Array, state: Int64Array) -> Int64Array:
        """Return the output: o tanh(c) as 8-bit values."""
        activated = _table(_WORD.tanh, self.state_integer_bits)[state + 32768]
        if self.halves_up:
            codes = np.clip(divide_by_power(_WORD.multiply(gate, activated), 8), -128, 127)
        else:
            words = (gate * activated).astype(np.int32)
            codes = multiply_by_quantized_multiplier(words, *self.output_rescale).astype(np.int64)
        return np.clip(codes + self.zero, self.low, self.high)


@cache
def _table(function: Callable[[Int64Array, int], Int64Array], integer_bits: int) -> Int64Array:
    """Return a function of all 16-bit words, from -32768 up."""
    return function(np.arange(-32768, 32768), integer_bits)


Code = Annotated[int, Between(-128, 255)]
Pair = tuple[Annotated[int, Between(0, (1 << 31) - 1)], Annotated[int, Between(-31, 31)]]
"""A multiplier and a shift."""


class LstmStepParameters(parameters.Parameters):
    """step, steps, time_major: which of the steps whose sums lie together, as [steps, batch] or [batch, steps].

    The others are those of `WordCell`; the range of the output is that of its element type.
    """

    step: Size = 0
    steps: Count = 1
    time_major: bool = True
    coupled: bool = False
    halves_up: bool = False
    state_integer_bits: Annotated[int, Between(0, 15)]
    limit: Annotated[int, Between(0, 32767)] = 0
    output_rescale: Pair = (0, 0)
    zero: Code = 0


def step_parameters(
    words: WordCell, step: int = 0, steps: int = 1, time_major: bool = True
) -> LstmStepParameters:
    """Return the parameters of a step of a cell."""
    return LstmStepParameters(
        step=step,
        steps=steps,
        time_major=time_major,
        coupled=words.coupled,
        halves_up=words.halves_up,
        state_integer_bits=words.state_integer_bits,
        limit=words.limit,
        output_rescale=words.output_rescale,
        zero=words.zero,
    )


def _gates(call: Call[LstmStepParameters]) -> tuple[str, ...]:
    """Return the gates in the order of their sums."""
    return ("forget", "cell", "output") if call.parameters.coupled else ("input", "forget", "cell", "output")


def _three_inputs(call: Call) -> bool:
    """takes sums, an optional addend and the cell state, and gives the output and the next cell state"""
    return len(call.inputs) == 3 and None not in (call.inputs[0], call.inputs[2]) and len(call.outputs) == 2


def _shapes(call: Call[LstmStepParameters]) -> bool:
    """sums have a value per gate and cell for each step, the addend for one, outputs the cell state's shape"""
    state = input_type(call, 2)
    if len(state.shape) != 2 or call.parameters.step >= call.parameters.steps:
        return False
    words = state.elements * len(_gates(call))
    added = call.inputs[1]
    return (
        input_type(call).elements == words * call.parameters.steps
        and (added is None or added.elements == words)
        and _infer(call) == call.output_shapes
    )


def _infer(call: Call) -> Shapes:
    shape = input_type(call, 2).shape
    return shape, shape


def _on_npu(call: Call[LstmStepParameters]) -> bool:
    """on the NPU states have at most 8 integer bits, the zero point fits the type, and there are at most 65535 rows"""
    low, high = code_range(call.outputs[0].dtype)
    chosen = call.parameters
    few = chosen.state_integer_bits <= MOST_STATE_INTEGER_BITS and input_type(call, 2).shape[0] <= 65535
    return few and low <= chosen.zero <= high


def _reference(call: Call[LstmStepParameters], values: Values) -> list[Array]:
    chosen, before = call.parameters, input_value(values, 2).astype(np.int64)
    batch = len(before)
    axes = (chosen.steps, batch, -1) if chosen.time_major else (batch, chosen.steps, -1)
    words = input_value(values).reshape(axes).take(chosen.step, axis=0 if chosen.time_major else 1)
    sums = words.astype(np.int64)
    if values[1] is not None:
        added = values[1].reshape(batch, -1).astype(np.int64)
        sums = np.clip(sums + added, -32768, 32767)
    cell = WordCell(
        chosen.coupled,
        chosen.state_integer_bits,
        chosen.limit,
        chosen.output_rescale,
        chosen.zero,
        *code_range(call.outputs[0].dtype),
        chosen.halves_up,
    )
    gates = _gates(call)
    by_gate = dict(zip(gates, np.split(sums, len(gates), axis=1), strict=True))
    output, after = equations(cell, lambda gate, state: by_gate[gate], before)
    return [output.astype(call.outputs[0].numpy_dtype), after.astype(np.int16)]


def _workload(call: Call) -> Workload:
    return elementwise(call, input_type(call, 2).elements * OPERATIONS_PER_CELL)


LSTM_STEP = Operator(
    name="lstm_step",
    parameters=LstmStepParameters,
    types=("int16, int32, int16 -> int8|uint8, int16",),
    rules=(_three_inputs, _shapes),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(Lowering("vector", (_on_npu,), lower_lstm_step),),
)
"""The next state and output of an integer LSTM cell from the sums of its gates.

Sums, a 32-bit addend or None, cell state [batch, cells] -> output and cell state [batch, cells]. In each row of sums
the gates i, f, g, o follow one another; sums of all steps may lie together. Integer LSTM layers of all models become
these (`integer_steps`); no model has one.
"""

OPERATORS = (LSTM_STEP,)
