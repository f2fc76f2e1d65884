"""lstm_step: from the sums of its gates to the next state and output of an integer LSTM cell.

sums, what is added to them (32 bits) or None, cell state [batch, cells] -> output codes and cell state [batch, cells].
Sums are words with 12 fraction bits, the gates i, f, g, o one after the other in each row; those of all steps may lie
together. Cells of all models become these (`lstm_parts`); no model has one.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.isa.instructions.cell import MOST_STATE_INTEGER_BITS
from npusim.kernels.lowering.cell import lower_lstm_step
from npusim.kernels.operator import parameters
from npusim.kernels.operator.fixed_point import FixedPoint, divide_by_power
from npusim.kernels.operator.operands import code_range, elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Count, Size
from npusim.kernels.operators.sequence.gate_sums import Code
from npusim.kernels.operators.sequence.lstm_rules import OPERATIONS_PER_CELL

Pair = tuple[Annotated[int, Between(0, (1 << 31) - 1)], Annotated[int, Between(-31, 31)]]
"""A multiplier and a shift."""

_WORD = FixedPoint(16)
_SUM_INTEGER_BITS = 3


class Parameters(parameters.Parameters):
    """step, steps, time_major: which of the steps that lie together, and how: [steps, batch] or [batch, steps].

    coupled:   without an input gate, which is 1 - f then.
    halves_up: NNAPI's QUANTIZED_16BIT_LSTM: products of gates round halves up, outputs are the upper 8 bits; otherwise
               halves go away from zero, and outputs are rescaled.
    state_integer_bits, limit: of the cell state: its format, and its largest magnitude (0: what fits).
    output_rescale, zero: of the output.
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


def _gates(call: Call[Parameters]) -> int:
    return 3 if call.parameters.coupled else 4


def _three_inputs(call: Call) -> bool:
    """takes sums, what is added or nothing, and the cell state, and gives codes and the next cell state"""
    return len(call.inputs) == 3 and None not in (call.inputs[0], call.inputs[2]) and len(call.outputs) == 2


def _shapes(call: Call[Parameters]) -> bool:
    """sums have a word per gate and cell for each step, what is added for one, outputs the cell state's shape"""
    state = input_type(call, 2)
    if len(state.shape) != 2 or call.parameters.step >= call.parameters.steps:
        return False
    words = state.elements * _gates(call)
    added = call.inputs[1]
    return (
        input_type(call).elements == words * call.parameters.steps
        and (added is None or added.elements == words)
        and _infer(call) == tuple(output.shape for output in call.outputs)
    )


def _infer(call: Call) -> Shapes:
    shape = input_type(call, 2).shape
    return shape, shape


def _on_npu(call: Call[Parameters]) -> bool:
    """on the NPU states have at most 8 integer bits, the zero point is a code, and there are at most 65535 rows"""
    low, high = code_range(call.outputs[0].dtype)
    chosen = call.parameters
    few = chosen.state_integer_bits <= MOST_STATE_INTEGER_BITS and input_type(call, 2).shape[0] <= 65535
    return few and low <= chosen.zero <= high


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    chosen, before = call.parameters, input_value(values, 2).astype(np.int64)
    batch = len(before)
    axes = (chosen.steps, batch, -1) if chosen.time_major else (batch, chosen.steps, -1)
    words = input_value(values).reshape(axes).take(chosen.step, axis=0 if chosen.time_major else 1)
    sums = words.astype(np.int64)
    if values[1] is not None:
        added = values[1].reshape(batch, -1).astype(np.int64)
        sums = np.clip(sums + added, -32768, 32767)
    *input_gate, forget, candidate, shown = np.split(sums, _gates(call), axis=1)
    f, o = (_WORD.logistic(each, _SUM_INTEGER_BITS) for each in (forget, shown))
    g = _WORD.tanh(candidate, _SUM_INTEGER_BITS)
    i = _WORD.logistic(input_gate[0], _SUM_INTEGER_BITS) if input_gate else _WORD.one - f
    exponent = chosen.state_integer_bits
    if chosen.halves_up:
        change, kept = divide_by_power(_WORD.multiply(i, g), exponent), _WORD.multiply(f, before)
    else:
        change, kept = divide_by_power(i * g, 15 + exponent), divide_by_power(f * before, 15)
    after = np.clip(change + kept, -32768, 32767)
    if chosen.limit:
        after = np.clip(after, -chosen.limit, chosen.limit)
    tanh = _WORD.tanh(after, exponent)
    if chosen.halves_up:
        codes = np.clip(divide_by_power(_WORD.multiply(o, tanh), 8), -128, 127)
    else:
        codes = multiply_by_quantized_multiplier((o * tanh).astype(np.int32), *chosen.output_rescale).astype(
            np.int64
        )
    output = np.clip(codes + chosen.zero, *code_range(call.outputs[0].dtype))
    return [output.astype(call.outputs[0].numpy_dtype), after.astype(np.int16)]


def _workload(call: Call) -> Workload:
    return elementwise(call, input_type(call, 2).elements * OPERATIONS_PER_CELL)


LSTM_STEP = Operator(
    name="lstm_step",
    parameters=Parameters,
    types=("int16, int32, int16 -> int8|uint8, int16",),
    rules=(_three_inputs, _shapes),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(Lowering("vector", (_on_npu,), lower_lstm_step),),
)

OPERATORS = (LSTM_STEP,)
